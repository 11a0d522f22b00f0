//! Tree-sitter's grammar for bash.

use tree_sitter::{Node, Parser};

use crate::{SeenCommand, SeenWord, Testimony};

/// Reads a text with tree-sitter's grammar. An error anywhere in the tree is a refusal.
///
/// # Errors
/// If the grammar and the library don't fit together.
pub fn read(text: &str) -> Result<Testimony, tree_sitter::LanguageError> {
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into())?;
    let Some(tree) = parser.parse(text, None) else {
        return Ok(Testimony::Refused);
    };
    if tree.root_node().has_error() {
        return Ok(Testimony::Refused);
    }
    let mut commands = Vec::new();
    let mut waiting = vec![tree.root_node()];
    while let Some(node) = waiting.pop() {
        commands.extend(command(node, text));
        waiting.extend(children(node));
    }
    Ok(Testimony::Commands(commands))
}

fn children(node: Node<'_>) -> Vec<Node<'_>> {
    node.children(&mut node.walk()).collect()
}

fn source<'a>(node: Node<'_>, text: &'a str) -> &'a str {
    text.get(node.byte_range()).unwrap_or_default()
}

/// The command at a node, if there is one.
fn command(node: Node<'_>, text: &str) -> Option<SeenCommand> {
    match node.kind() {
        "command" => {
            let name = node.child_by_field_name("name")?;
            let arguments: Vec<Node<'_>> = node
                .children_by_field_name("argument", &mut node.walk())
                .collect();
            let words = [name]
                .into_iter()
                .chain(arguments)
                .map(|word| seen_word(word, text))
                .collect();
            Some(SeenCommand {
                words: without_time(words)?,
                complete: !is_redirected(node),
            })
        }
        // `export`, `unset` and their kind: the keyword is the first child.
        "declaration_command" | "unset_command" => Some(SeenCommand {
            words: vec![seen_keyword(node.child(0)?, text)],
            complete: false,
        }),
        _ => None,
    }
}

/// Whether a redirection follows, be it after a whole pipeline or list: the grammar takes the words after
/// it for further targets.
fn is_redirected(command: Node<'_>) -> bool {
    let mut node = command;
    while let Some(parent) = node.parent() {
        match parent.kind() {
            "redirected_statement" => return true,
            "pipeline" | "list" | "negated_command" => node = parent,
            _ => break,
        }
    }
    command.child_by_field_name("redirect").is_some()
}

/// The grammar doesn't know the reserved word `time`: it takes it for the command's name. Nothing is left
/// where a compound command follows.
fn without_time(mut words: Vec<SeenWord>) -> Option<Vec<SeenWord>> {
    if words.first()?.source == "time" {
        let options = words.iter().skip(1).take_while(|word| word.source == "-p");
        words.drain(..=options.count());
    }
    (!words.is_empty()).then_some(words)
}

fn seen_keyword(node: Node<'_>, text: &str) -> SeenWord {
    let keyword = source(node, text).to_owned();
    SeenWord {
        value: Some(keyword.clone()),
        source: keyword,
    }
}

fn seen_word(node: Node<'_>, text: &str) -> SeenWord {
    SeenWord {
        source: source(node, text).to_owned(),
        value: value(node, text),
    }
}

/// A word without its quotes, where nothing in it is expanded.
fn value(node: Node<'_>, text: &str) -> Option<String> {
    let source = source(node, text);
    match node.kind() {
        "word" | "number" => without_backslashes(source),
        "raw_string" => Some(source.strip_prefix('\'')?.strip_suffix('\'')?.to_owned()),
        "string" => {
            let plain = node
                .named_children(&mut node.walk())
                .all(|child| child.kind() == "string_content");
            let inner = source.strip_prefix('"')?.strip_suffix('"')?;
            (plain && !inner.contains('\\')).then(|| inner.to_owned())
        }
        "command_name" | "concatenation" => {
            let mut whole = String::new();
            let mut at = node.start_byte();
            for child in children(node) {
                if child.start_byte() != at {
                    return None;
                }
                at = child.end_byte();
                whole.push_str(&value(child, text)?);
            }
            (at == node.end_byte()).then_some(whole)
        }
        _ => None,
    }
}

/// Unquoted text as the shell takes it.
fn without_backslashes(text: &str) -> Option<String> {
    let mut plain = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next()? {
                '\n' => {}
                escaped => plain.push(escaped),
            },
            other => plain.push(other),
        }
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grammar_still_takes_time_for_a_name() {
        // When this fails, `without_time` has to go.
        let mut parser = Parser::new();
        parser
            .set_language(&tree_sitter_bash::LANGUAGE.into())
            .expect("grammar and library fit together");
        let tree = parser.parse("time ls", None).expect("a tree");
        let name = tree
            .root_node()
            .child(0)
            .and_then(|command| command.child_by_field_name("name"))
            .expect("a command");
        assert_eq!(source(name, "time ls"), "time");
    }
}
