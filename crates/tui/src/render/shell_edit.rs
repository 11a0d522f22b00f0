//! Edits by shell commands whose effect is known before they run: `sed -i` with a substitution, and known text that is
//! redirected into a file. Anything else has no preview.

use lathe_shell::analysis::{Analysis, Part, RedirectionKind, analyse};
use lathe_shell::syntax::ShellKind;
use regex::{Captures, Regex};
use std::path::{Path, PathBuf};

/// The longest file that is previewed.
const LONGEST: u64 = 2_000_000;

/// A file before and after a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShellEdit {
    pub(crate) path: PathBuf,
    pub(crate) old: String,
    pub(crate) new: String,
}

/// The edit that a command would make.
pub(crate) fn of_command(command: &str, cwd: &Path) -> Option<ShellEdit> {
    let is_candidate = command.contains("sed") || command.contains('>');
    is_candidate
        .then(|| of_analysis(&analyse(command, ShellKind::Bash), command, cwd))
        .flatten()
}

/// The edit that an analysed command would make.
pub(crate) fn of_analysis(analysis: &Analysis, command: &str, cwd: &Path) -> Option<ShellEdit> {
    let [part] = analysis.parts.as_slice() else {
        return None;
    };
    // The text of a here-document stands below its command.
    let is_document = |kind| kind == RedirectionKind::HereDocument;
    let has_document = part.redirections.iter().any(|it| is_document(it.kind));
    let whole = match command.trim().split_once('\n') {
        Some((line, _)) if has_document => line,
        _ => command,
    };
    let is_plain = analysis.understood.is_ok()
        && part.wrappers.is_empty()
        && part.assignments.is_empty()
        && part.text.trim() == whole.trim();
    if !is_plain {
        return None;
    }
    let words: Option<Vec<&str>> = part.argv.iter().map(|word| word.fixed()).collect();
    let words = words?;
    let (program, words) = words.split_first()?;
    let edit = match *program {
        "sed" if part.redirections.is_empty() => substituted(words, cwd)?,
        "echo" | "cat" => redirected(part, program, words, command, cwd)?,
        _ => return None,
    };
    (edit.old != edit.new).then_some(edit)
}

fn read(path: &Path) -> Option<String> {
    let found = std::fs::metadata(path).ok()?;
    let is_short = found.is_file() && found.len() < LONGEST;
    is_short
        .then(|| std::fs::read_to_string(path).ok())
        .flatten()
}

/// `sed -i s/…/…/ file`.
fn substituted(words: &[&str], cwd: &Path) -> Option<ShellEdit> {
    let mut in_place = false;
    let mut extended = false;
    let mut operands = Vec::new();
    for word in words {
        match *word {
            "-i" | "--in-place" => in_place = true,
            "-E" | "-r" | "--regexp-extended" => extended = true,
            "-Ei" | "-ri" => (in_place, extended) = (true, true),
            "-e" => {}
            option if option.starts_with('-') => return None,
            operand => operands.push(operand),
        }
    }
    let [script, file] = operands.as_slice() else {
        return None;
    };
    if !in_place {
        return None;
    }
    let (pattern, replacement, all) = parts_of(script)?;
    let pattern = if extended {
        extended_pattern(&pattern)?
    } else {
        basic_pattern(&pattern)?
    };
    let pattern = Regex::new(&pattern).ok()?;
    let replacement = pieces(&replacement)?;
    let path = cwd.join(file);
    let old = read(&path)?;
    let filled = |found: &Captures<'_>| -> String {
        let text = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Group(group) => found.get(*group).map_or("", |it| it.as_str()).to_owned(),
        };
        replacement.iter().map(text).collect()
    };
    let new = old
        .split_inclusive('\n')
        .map(|line| {
            let (text, end) = match line.strip_suffix('\n') {
                Some(text) => (text, "\n"),
                None => (line, ""),
            };
            let limit = usize::from(!all);
            format!("{}{end}", pattern.replacen(text, limit, &filled))
        })
        .collect();
    Some(ShellEdit { path, old, new })
}

/// Pattern, replacement, and whether all matches of a line are replaced.
fn parts_of(script: &str) -> Option<(String, String, bool)> {
    let rest = script.strip_prefix('s')?;
    let delimiter = rest.chars().next()?;
    if delimiter.is_alphanumeric() || "\\\n".contains(delimiter) || script.contains('\n') {
        return None;
    }
    let mut parts = vec![String::new()];
    let mut letters = rest.chars().skip(1);
    while let Some(letter) = letters.next() {
        let part = parts.last_mut()?;
        match letter {
            '\\' => {
                let next = letters.next()?;
                if next != delimiter {
                    part.push('\\');
                }
                part.push(next);
            }
            letter if letter == delimiter => parts.push(String::new()),
            letter => part.push(letter),
        }
    }
    let [pattern, replacement, flags] = <[String; 3]>::try_from(parts).ok()?;
    let all = match flags.as_str() {
        "" => false,
        "g" => true,
        _ => return None,
    };
    (!pattern.is_empty()).then_some((pattern, replacement, all))
}

/// A basic regular expression in the language of `regex`. Back-references and GNU's anchors have no equal there.
fn basic_pattern(pattern: &str) -> Option<String> {
    let mut out = String::new();
    let mut letters = pattern.chars().peekable();
    let mut first = true;
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next()? {
                special @ ('(' | ')' | '{' | '}' | '+' | '?' | '|') => out.push(special),
                escaped => out.push_str(&escape(escaped)?),
            },
            '(' | ')' | '{' | '}' | '+' | '?' | '|' => {
                out.push('\\');
                out.push(letter);
            }
            '*' if first => out.push_str("\\*"),
            '^' if !first => out.push_str("\\^"),
            '$' if letters.peek().is_some() => out.push_str("\\$"),
            '[' => bracket(&mut letters, &mut out)?,
            letter => out.push(letter),
        }
        first = false;
    }
    Some(out)
}

fn extended_pattern(pattern: &str) -> Option<String> {
    let mut out = String::new();
    let mut letters = pattern.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next()? {
                special @ ('(' | ')' | '{' | '}' | '+' | '?' | '|') => {
                    out.push('\\');
                    out.push(special);
                }
                escaped => out.push_str(&escape(escaped)?),
            },
            '[' => bracket(&mut letters, &mut out)?,
            letter => out.push(letter),
        }
    }
    Some(out)
}

/// An escaped character that means the same in both languages.
fn escape(escaped: char) -> Option<String> {
    match escaped {
        '.' | '*' | '[' | ']' | '^' | '$' | '\\' => Some(format!("\\{escaped}")),
        'w' | 'W' | 's' | 'S' | 't' => Some(format!("\\{escaped}")),
        c if c.is_ascii_punctuation() && !matches!(c, '<' | '>' | '`' | '\'') => {
            Some(regex::escape(&c.to_string()))
        }
        _ => None,
    }
}

/// A set of characters. What `regex` would read differently is escaped; sets within it have no preview.
fn bracket(letters: &mut std::iter::Peekable<std::str::Chars<'_>>, out: &mut String) -> Option<()> {
    out.push('[');
    if letters.peek() == Some(&'^') {
        letters.next();
        out.push('^');
    }
    let mut first = true;
    loop {
        match letters.next()? {
            ']' if !first => {
                out.push(']');
                return Some(());
            }
            '[' => return None,
            special @ (']' | '\\' | '&' | '~') => {
                out.push('\\');
                out.push(special);
            }
            letter => out.push(letter),
        }
        first = false;
    }
}

enum Piece {
    Text(String),
    Group(usize),
}

/// The pieces of a replacement.
fn pieces(replacement: &str) -> Option<Vec<Piece>> {
    let mut out = Vec::new();
    let mut letters = replacement.chars();
    while let Some(letter) = letters.next() {
        out.push(match letter {
            '&' => Piece::Group(0),
            '\\' => match letters.next()? {
                digit @ '1'..='9' => Piece::Group(digit.to_digit(10)? as usize),
                'n' => Piece::Text("\n".to_owned()),
                't' => Piece::Text("\t".to_owned()),
                c if c.is_ascii_punctuation() => Piece::Text(c.to_string()),
                _ => return None,
            },
            letter => Piece::Text(letter.to_string()),
        });
    }
    Some(out)
}

/// `echo text > file`, `cat > file <<'END'`.
fn redirected(
    part: &Part,
    program: &str,
    words: &[&str],
    command: &str,
    cwd: &Path,
) -> Option<ShellEdit> {
    let mut target = None;
    let mut has_document = false;
    for redirection in &part.redirections {
        match redirection.kind {
            RedirectionKind::Write | RedirectionKind::Append
                if redirection.text.starts_with('>') && target.is_none() =>
            {
                let appends = redirection.kind == RedirectionKind::Append;
                target = Some((redirection.target.fixed()?, appends));
            }
            RedirectionKind::HereDocument if !redirection.text.starts_with("<<<") => {
                has_document = true;
            }
            _ => return None,
        }
    }
    let (file, appends) = target?;
    let text = match program {
        "cat" if words.is_empty() && has_document => document(command)?,
        "echo" if !has_document => {
            let is_plain = |word: &&str| !word.starts_with('-') && !word.contains('\\');
            if !words.iter().all(is_plain) {
                return None;
            }
            format!("{}\n", words.join(" "))
        }
        _ => return None,
    };
    let path = cwd.join(file);
    let old = if path.exists() {
        read(&path)?
    } else {
        String::new()
    };
    let new = if appends {
        format!("{old}{text}")
    } else {
        text
    };
    Some(ShellEdit { path, old, new })
}

/// The text of the only here-document of a command, if nothing in it is expanded.
fn document(command: &str) -> Option<String> {
    let (head, body) = command.split_once('\n')?;
    let (_, delimiter) = head.split_once("<<")?;
    let delimiter = delimiter.split_whitespace().next()?;
    let name = delimiter.trim_matches(['\'', '"']);
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    let is_quoted = name != delimiter;
    if !is_name || (!is_quoted && body.contains(['$', '`', '\\'])) {
        return None;
    }
    let mut text = String::new();
    let mut lines = body.lines();
    for line in lines.by_ref() {
        if line == name {
            return lines.all(|line| line.trim().is_empty()).then_some(text);
        }
        text.push_str(line);
        text.push('\n');
    }
    None
}

/// A command that writes this text to a file.
pub(crate) fn writing(path: &Path, text: &str) -> Option<String> {
    let name = path.to_str()?;
    if !text.is_empty() && !text.ends_with('\n') {
        return None;
    }
    let mut end = "END_OF_TEXT".to_owned();
    while text.lines().any(|line| line == end) {
        end.push('_');
    }
    let quoted = name.replace('\'', "'\\''");
    Some(format!("cat > '{quoted}' <<'{end}'\n{text}{end}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const TEXT: &str = "one (1)\ntwo two\n/usr/bin a.b+c\nname = \"x\"\nlast";

    /// The preview of a command, which must be what bash does.
    fn checked(command: &str) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.txt");
        std::fs::write(&file, TEXT).unwrap();
        let edit = of_command(command, folder.path())?;
        let mut bash = Command::new("bash");
        let status = bash
            .args(["-c", command])
            .current_dir(folder.path())
            .status();
        assert!(status.unwrap().success(), "{command}");
        let done = std::fs::read_to_string(&edit.path).unwrap();
        assert_eq!(edit.new, done, "{command}");
        Some(edit.new)
    }

    #[test]
    fn what_is_previewed_is_what_happens() {
        for command in [
            "sed -i 's/two/2/' a.txt",
            "sed -i 's/two/2/g' a.txt",
            "sed -i 's|/usr/bin|/opt|' a.txt",
            r"sed -i 's/\(one\) (1)/\1 [&]/' a.txt",
            r"sed -i 's/a\.b+c/a+b/' a.txt",
            r"sed -i 's/o\+/0/g' a.txt",
            "sed -i -E 's/(t)(wo)/\\2\\1/g' a.txt",
            "sed -i -e 's/[aeiou]/_/g' a.txt",
            "sed -i 's/^t/T/' a.txt",
            r"sed -i 's/two$/a\nb/' a.txt",
            "sed -i 's/name = \"x\"/name = \"y\"/' ./a.txt",
            "echo changed > a.txt",
            "echo 'more words' >> new.txt",
            "cat > a.txt <<'EOF'\n$HOME stays\nsecond\nEOF",
            "cat <<EOF > a.txt\nplain\nEOF\n",
        ] {
            assert!(checked(command).is_some(), "{command}");
        }
    }

    #[test]
    fn what_is_not_known_has_no_preview() {
        for command in [
            "sed 's/two/2/' a.txt",
            "sed -i.bak 's/two/2/' a.txt",
            "sed -i '2d' a.txt",
            "sed -i 's/two/2/e' a.txt",
            "sed -i 's/two/2/w other' a.txt",
            r"sed -i 's/\(o\)\1/x/' a.txt",
            r"sed -i 's/\<two/2/' a.txt",
            "sed -i 's/two/2/' a.txt b.txt",
            "sed -i \"s/two/$X/\" a.txt",
            "sed -i 's/nothing/2/' a.txt",
            "sed -i 's/two/2/' a.txt && rm b",
            "sudo sed -i 's/two/2/' a.txt",
            "echo -n x > a.txt",
            "echo $HOME > a.txt",
            "echo x 2> a.txt",
            "cat > a.txt <<EOF\n$HOME\nEOF",
            "cat b.txt > a.txt",
            "sed -i 's/two/2/' missing.txt",
        ] {
            assert_eq!(checked(command), None, "{command}");
        }
    }

    #[test]
    fn a_text_is_written_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("it's.txt");
        let text = "$HOME `x` \\\nEND_OF_TEXT\nlast\n";
        let command = writing(&path, text).unwrap();
        let status = Command::new("bash").args(["-c", &command]).status();
        assert!(status.unwrap().success());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        assert_eq!(writing(&path, "no end"), None);
    }
}
