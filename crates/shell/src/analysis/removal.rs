//! Removals that no rule should wave through: the root, a top-level folder, home, the working folder.

use super::argument::{Argument, PathKind, PathOperand};

/// A removal that always needs a person's word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DangerousRemoval {
    /// The target as written.
    pub target: String,
    /// What it is.
    pub reason: String,
}

/// Looks at every command that could run for a removal of something vital.
pub(super) fn find_removal(commands: &[Vec<Argument>]) -> Option<DangerousRemoval> {
    commands.iter().find_map(|argv| removal_of(argv))
}

/// A removal behind another command that names nothing: what it removes comes from input.
pub(super) fn removes_input(commands: &[Vec<Argument>]) -> Option<DangerousRemoval> {
    let by_input = commands.first()?.first()?.fixed()?;
    let base = by_input.rsplit('/').next().unwrap_or(by_input);
    if !matches!(base, "xargs" | "parallel") {
        return None;
    }
    commands.iter().skip(1).find_map(|argv| {
        let name = argv.first()?.fixed()?;
        let removes = matches!(name, "rm" | "rmdir" | "unlink" | "shred" | "srm" | "trash");
        removes.then(|| DangerousRemoval {
            target: "what it reads from its input".to_owned(),
            reason: "it can't be known".to_owned(),
        })
    })
}

fn removal_of(argv: &[Argument]) -> Option<DangerousRemoval> {
    let (first, words) = argv.split_first()?;
    let name = first.fixed()?;
    let targets: Vec<&Argument> = match name {
        "rm" | "rmdir" | "unlink" | "shred" | "srm" | "trash" | "rimraf" | "del" | "rd"
        | "erase" | "zf_rm" => words
            .iter()
            .filter(|word| word.fixed().is_none_or(|text| !text.starts_with('-')))
            .collect(),
        "find" => {
            let removes = words.iter().any(|word| word.fixed() == Some("-delete"))
                || words.windows(2).any(|pair| {
                    matches!(pair, [action, command]
                        if action.fixed().is_some_and(|text| text.starts_with("-exec") || text.starts_with("-ok"))
                        && command.fixed().is_some_and(|text| matches!(text.rsplit('/').next(), Some("rm" | "unlink" | "shred" | "rmdir"))))
                });
            if !removes {
                return None;
            }
            // A filter makes it an ordinary clean-up, which is asked about as any other change.
            let filtered = words.iter().any(|word| {
                matches!(
                    word.fixed(),
                    Some(
                        "-name"
                            | "-iname"
                            | "-path"
                            | "-regex"
                            | "-newer"
                            | "-mtime"
                            | "-mmin"
                            | "-size"
                            | "-empty"
                    )
                )
            });
            let starts: Vec<&Argument> = words
                .iter()
                .take_while(|word| {
                    word.fixed()
                        .is_none_or(|text| !text.starts_with(['-', '(', '!']))
                })
                .collect();
            if filtered {
                starts
                    .into_iter()
                    .filter(|word| is_system(&word.path()))
                    .collect()
            } else if starts.is_empty() {
                return Some(DangerousRemoval {
                    target: ".".to_owned(),
                    reason: "the working folder".to_owned(),
                });
            } else {
                starts
            }
        }
        "dd" => {
            return words
                .iter()
                .filter_map(Argument::fixed)
                .find(|word| {
                    word.starts_with("of=/dev/")
                        && !matches!(*word, "of=/dev/null" | "of=/dev/stdout")
                })
                .map(|word| DangerousRemoval {
                    target: word.to_owned(),
                    reason: "a device".to_owned(),
                });
        }
        _ if name == "mkfs" || name.starts_with("mkfs.") || name == "wipefs" => {
            return Some(DangerousRemoval {
                target: name.to_owned(),
                reason: "a file system".to_owned(),
            });
        }
        _ => return None,
    };
    targets.into_iter().find_map(|word| {
        vital(&word.path()).map(|reason| DangerousRemoval {
            target: word.text().to_owned(),
            reason: reason.to_owned(),
        })
    })
}

fn is_system(path: &PathOperand) -> bool {
    matches!(
        vital(path),
        Some("the root" | "a top-level folder" | "a drive")
    )
}

/// What a path is, if losing it would be a disaster.
fn vital(path: &PathOperand) -> Option<&'static str> {
    let text = path.text.as_str();
    match path.kind {
        PathKind::Home | PathKind::HomePattern => {
            let first_level = text.trim_matches('/');
            let normal = normalise(first_level);
            // Home itself, everything in it, or a step out of it.
            let whole = normal.is_empty()
                || matches!(normal.as_str(), "*" | ".*" | "{")
                || normal.starts_with("..");
            whole.then_some("the home folder")
        }
        PathKind::Literal | PathKind::Pattern => {
            if is_drive(text) {
                return Some("a drive");
            }
            if text.starts_with('/') {
                let normal = normalise(text);
                let parts: Vec<&str> = normal.split('/').filter(|part| !part.is_empty()).collect();
                return match parts.as_slice() {
                    [] => Some("the root"),
                    [one] if one.starts_with(['*', '?', '[', '{', '.']) => Some("the root"),
                    [_] | [_, "*" | ".*" | "{"] => Some("a top-level folder"),
                    ["home" | "Users", _] | ["home" | "Users", _, "*" | ".*" | "{"] => {
                        Some("a home folder")
                    }
                    _ => None,
                };
            }
            let normal = normalise(text);
            match normal.as_str() {
                "" | "*" | ".*" | "**" | "{*" | "?*" | "*.*" => Some("the working folder"),
                ".git" => Some("the repository"),
                up if up == ".."
                    || up.starts_with("../")
                        && up.split('/').all(|part| matches!(part, ".." | "*" | ".*")) =>
                {
                    Some("a folder above the working folder")
                }
                _ => None,
            }
        }
        PathKind::Pipe | PathKind::Listed => None,
        PathKind::Unbounded => {
            // A pattern that can reach upwards is at least as bad as its text looks.
            if !text.contains(['$', '`', '"', '\'', '\\', '(']) {
                let (kind, text) = match text.strip_prefix("~/") {
                    Some(rest) => (PathKind::HomePattern, rest),
                    None => (PathKind::Pattern, text),
                };
                let reason = vital(&PathOperand {
                    kind,
                    text: text.to_owned(),
                });
                if reason.is_some() {
                    return reason;
                }
            }
            // `rm -rf "$x/"` is `rm -rf /` when the variable is empty.
            let tail = text.trim_matches(['"', '\'']);
            let variable_then_slash = tail.starts_with('$') && {
                let after = tail.trim_start_matches(['$', '{']);
                let rest = after.trim_start_matches(|character: char| {
                    character.is_ascii_alphanumeric() || character == '_'
                });
                matches!(
                    rest.trim_start_matches(['}', '"', '\'']),
                    "/" | "/*" | "/.*" | "/**"
                )
            };
            let user_home = tail.starts_with('~') && !tail.trim_end_matches('/').contains('/');
            if variable_then_slash {
                Some("the root when the variable is empty")
            } else if user_home {
                Some("a home folder")
            } else {
                None
            }
        }
    }
}

fn is_drive(text: &str) -> bool {
    let mut bytes = text.bytes();
    let letter = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic());
    letter
        && bytes.next() == Some(b':')
        && text
            .get(2..)
            .is_some_and(|rest| rest.trim_matches(['/', '\\', '*', '.']).is_empty())
}

/// Resolves `.` and `..` and repeated slashes by their text.
fn normalise(text: &str) -> String {
    let absolute = text.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in text.split('/') {
        match part {
            "" | "." => {}
            ".." => match parts.last() {
                Some(&"..") | None if !absolute => parts.push(".."),
                _ => {
                    parts.pop();
                }
            },
            other => parts.push(other),
        }
    }
    let joined = parts.join("/");
    if absolute {
        format!("/{joined}")
    } else {
        joined
    }
}
