//! Escape sequences that a hook may send to the user's terminal: notifications, titles and the bell. Everything else
//! could move the cursor, change colors or read what was typed, and is dropped.

/// Operating system commands that notify the user or name the window.
const PERMITTED: [&str; 6] = ["0", "1", "2", "9", "99", "777"];
/// The longest sequence.
const MOST_BYTES: usize = 4096;
const BELL: char = '\u{7}';
const ESCAPE: char = '\u{1b}';

/// The permitted parts of a text.
#[must_use]
pub(crate) fn permitted(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some(command) = rest.strip_prefix("\u{1b}]") {
            let Some((body, length)) = body(command) else {
                break;
            };
            let code = body.split(';').next().unwrap_or_default();
            if PERMITTED.contains(&code) && !body.chars().any(char::is_control) {
                kept.push_str(&rest[..2 + length]);
            }
            rest = &command[length..];
            continue;
        }
        if first == BELL {
            kept.push(first);
        }
        rest = &rest[first.len_utf8()..];
    }
    if kept.len() > MOST_BYTES {
        return String::new();
    }
    kept
}

/// The text of an operating system command, and its length with its end. `None` if it has no end.
fn body(command: &str) -> Option<(&str, usize)> {
    let end = command.find([BELL, ESCAPE])?;
    let ending = match &command[end..] {
        ending if ending.starts_with(BELL) => 1,
        ending if ending.starts_with("\u{1b}\\") => 2,
        _ => 0,
    };
    // A command that another escape cuts short is no command.
    let body = if ending == 0 { "" } else { &command[..end] };
    Some((body, end + ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_notifications_titles_and_the_bell_reach_a_terminal() {
        for kept in [
            "\u{7}",
            "\u{1b}]9;done\u{7}",
            "\u{1b}]777;notify;Lathe;done\u{1b}\\",
            "\u{1b}]2;title\u{7}\u{1b}]99;i=1;text\u{1b}\\\u{7}",
        ] {
            assert_eq!(permitted(kept), kept);
        }
        for (text, kept) in [
            ("words", ""),
            ("\u{1b}[2J\u{1b}]52;c;YQ==\u{7}\u{7}", "\u{7}"),
            ("\u{1b}]9;a\u{1b}]52;c;YQ==\u{7}", ""),
            ("\u{1b}]9;never ends", ""),
            ("\u{1b}]9;a\nb\u{7}", ""),
            ("\u{1b}]8;;http://x\u{7}a\u{1b}]0;t\u{7}", "\u{1b}]0;t\u{7}"),
            ("\u{1b}P+q\u{1b}\\", ""),
        ] {
            assert_eq!(permitted(text), kept, "{text:?}");
        }
        let long = format!("\u{1b}]9;{}\u{7}", "x".repeat(5000));
        assert_eq!(permitted(&long), "");
    }
}
