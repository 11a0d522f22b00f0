//! Prompts that are commands: `/clear` and `/compact` are carried out here, a word that no command has
//! is answered without asking the model.

use lathe_protocol::content::Content;
use lathe_protocol::op::Prompt;

/// What a prompt asks for when it isn't for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Start a new conversation.
    Clear,
    /// Replace the conversation by a summary.
    Compact(Option<String>),
    /// A command that doesn't exist.
    Unknown(String),
}

/// The commands that hosts are told of: name, what it does, what may follow it.
pub const COMMANDS: [(&str, &str, &str); 2] = [
    ("clear", "Start a new conversation", ""),
    (
        "compact",
        "Replace the conversation by a summary",
        "[what to pay attention to]",
    ),
];

/// Reads a prompt as a command. A path (`/usr/bin is full`) and words that a host composed itself are
/// none.
#[must_use]
pub fn parse(prompt: &Prompt) -> Option<Command> {
    if prompt.verbatim || prompt.is_meta || prompt.context_only {
        return None;
    }
    let Content::Text(text) = &prompt.content else {
        return None;
    };
    let rest = text.trim().strip_prefix('/')?;
    let (name, words) = match rest.split_once(char::is_whitespace) {
        Some((name, words)) => (name, words.trim()),
        None => (rest, ""),
    };
    let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | ':'));
    if !is_name {
        return None;
    }
    // Prompts of MCP servers are expanded by the session.
    if name.starts_with("mcp__") {
        return None;
    }
    Some(match name {
        "clear" => Command::Clear,
        "compact" => Command::Compact(Some(words.to_owned()).filter(|words| !words.is_empty())),
        _ => Command::Unknown(name.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_from_paths_and_words() {
        let read = |text: &str| parse(&Prompt::new(text));
        assert_eq!(read("/clear"), Some(Command::Clear));
        assert_eq!(read(" /compact \n"), Some(Command::Compact(None)));
        assert_eq!(
            read("/compact the tests"),
            Some(Command::Compact(Some("the tests".into())))
        );
        assert_eq!(read("/what is"), Some(Command::Unknown("what".into())));
        for text in [
            "/mcp__server__prompt x",
            "/usr/bin is full",
            "hello /clear",
            "/",
            "/ x",
            "/1",
            "/a.txt",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        let mut verbatim = Prompt::new("/clear");
        verbatim.verbatim = true;
        assert_eq!(parse(&verbatim), None);
    }
}
