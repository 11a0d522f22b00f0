//! Commands for which a table of options is enough.

use super::super::argument::{Argument, PathOperand};
use super::super::options::{Order, Sorted, sort};
use super::entries::{ENTRIES, Entry, FOLLOWS_FOLDER, Operands, Trust, VERSIONED};
use super::{Reading, Verdict, all_fixed, paths_of};

fn entry(name: &str) -> Option<&'static Entry> {
    ENTRIES.iter().find(|entry| {
        entry
            .names
            .split_ascii_whitespace()
            .any(|known| known == name)
    })
}

pub(super) fn takes_anything(name: &str) -> bool {
    entry(name).is_some_and(|entry| entry.trust == Trust::Anything)
}

pub(super) fn judge(name: &str, words: &[Argument]) -> Verdict {
    if let [Argument::Fixed(only)] = words
        && VERSIONED.contains(&name)
    {
        let asks = matches!(only.as_str(), "--version")
            || (only == "-V" && matches!(name, "python" | "python3" | "ssh"))
            || (only == "-v" && matches!(name, "node" | "ruby" | "perl" | "php" | "nginx" | "tsc"))
            || (only == "-version"
                && matches!(name, "java" | "javac" | "ffmpeg" | "ant" | "scala"))
            || (only == "version"
                && matches!(name, "terraform" | "helm" | "openssl" | "hugo" | "zig"));
        if asks {
            return Ok(Reading {
                paths: Vec::new(),
                needs_trust: FOLLOWS_FOLDER.contains(&name),
            });
        }
    }
    let Some(entry) = entry(name) else {
        return Err(format!("{name} isn't known to only read"));
    };
    let without_bindings = if name == "jq" {
        Some(jq_without_bindings(words)?)
    } else {
        None
    };
    let words = without_bindings.as_deref().unwrap_or(words);
    // Where a second operand is written, a word after the first is one to programs that don't look for
    // options there.
    let order = match entry.operands {
        Operands::OneFile => Order::OperandsLast,
        _ => Order::Mixed,
    };
    match sort(words, entry.options, order) {
        Ok(sorted) => {
            special_cases(name, words, &sorted)?;
            let mut paths = operand_paths(name, entry.operands, &sorted)?;
            if matches!(name, "tar" | "bsdtar") && sorted.options.is_empty() {
                paths.extend(words.get(1).map(Argument::path));
            }
            paths.extend(sorted.files);
            Ok(Reading {
                paths,
                needs_trust: false,
            })
        }
        Err(_) if entry.trust == Trust::Anything => {
            let paths = match entry.operands {
                Operands::Words => Vec::new(),
                _ => words
                    .iter()
                    .filter(|word| word.fixed().is_none_or(|text| !text.starts_with('-')))
                    .map(Argument::path)
                    .collect(),
            };
            Ok(Reading {
                paths,
                needs_trust: false,
            })
        }
        Err(reason) => Err(reason),
    }
}

fn operand_paths(
    name: &str,
    operands: Operands,
    sorted: &Sorted<'_>,
) -> Result<Vec<PathOperand>, String> {
    match operands {
        Operands::Words => Ok(Vec::new()),
        Operands::None if sorted.operands.is_empty() => Ok(Vec::new()),
        Operands::None => Err(format!("{name} with an operand can change a setting")),
        Operands::Files => Ok(paths_of(&sorted.operands)),
        Operands::OneFile => match sorted.operands.as_slice() {
            [] => Ok(Vec::new()),
            [only] if only.is_one_word() => Ok(paths_of([only])),
            _ => Err(format!("{name} writes to its second operand")),
        },
        Operands::PatternThenFiles => {
            let given = [
                "-e",
                "-f",
                "--regexp",
                "--file",
                "--files",
                "--type-list",
                "-g",
            ]
            .iter()
            .any(|option| sorted.has(option) && (name != "rg" || *option != "-g"));
            let skip = usize::from(!given).min(sorted.operands.len());
            if skip == 1
                && !sorted
                    .operands
                    .first()
                    .is_some_and(|first| first.is_one_word())
            {
                // The pattern could become several words: every word may be a file.
                return Ok(paths_of(&sorted.operands));
            }
            Ok(paths_of(sorted.operands.get(skip..).unwrap_or_default()))
        }
    }
}

/// What a table of options can't say.
fn special_cases(name: &str, words: &[Argument], sorted: &Sorted<'_>) -> Result<(), String> {
    let fixed = || all_fixed(words).ok_or_else(|| format!("{name} with a word that isn't fixed"));
    match name {
        "date" => {
            // An operand without `+` sets the clock.
            let sets = sorted.operands.iter().any(|word| match word {
                Argument::Fixed(text) => !text.starts_with('+'),
                Argument::Variable(variable) => !variable.prefix.starts_with('+'),
            });
            if sets {
                Err("date with this operand sets the clock".to_owned())
            } else {
                Ok(())
            }
        }
        "tar" | "bsdtar" => {
            let words = fixed()?;
            let bundled = words.first().filter(|first| !first.starts_with('-'));
            let lists = sorted.has("-t") || sorted.has("--list");
            if bundled.is_some() {
                let letters = bundled.copied().unwrap_or_default();
                let archive = words.get(1).copied().unwrap_or("-");
                let plain = letters.contains('t')
                    && letters.chars().all(|letter| "tfvzjJa".contains(letter))
                    && !words
                        .iter()
                        .skip(1)
                        .any(|word| word.starts_with('-') && *word != "-");
                if !plain || archive.contains(':') {
                    return Err("tar does more than list".to_owned());
                }
                return Ok(());
            }
            if !lists || sorted.files.iter().any(|file| file.text.contains(':')) {
                return Err("tar does more than list".to_owned());
            }
            Ok(())
        }
        "gzip" | "gunzip" | "bzip2" | "bunzip2" | "xz" | "unxz" | "zstd" => {
            let any = |names: &[&str]| names.iter().any(|option| sorted.has(option));
            // Some of them take the last of several modes.
            let inspects = any(&["-l", "-t", "--list", "--test", "--version"])
                && !any(&["-d", "--decompress"]);
            if inspects || any(&["-c", "--stdout", "--to-stdout"]) {
                Ok(())
            } else {
                Err(format!("{name} replaces its files"))
            }
        }
        "unzip" => {
            if ["-l", "-t", "-v", "-z", "-p", "-c"]
                .iter()
                .any(|option| sorted.has(option))
            {
                return Ok(());
            }
            Err("unzip writes the files it finds".to_owned())
        }
        "ps" => check_ps(sorted),
        // They look up the names of hosts, which tells a name server whatever the name says.
        "lsof" | "ss" | "ip"
            if fixed()?.iter().any(|word| {
                word.contains('@')
                    || (word.contains('.') && word.bytes().any(|byte| byte.is_ascii_alphabetic()))
            }) && name != "lsof"
                || name == "lsof" && fixed()?.iter().any(|word| word.contains('@')) =>
        {
            Err(format!("{name} looks up the name of a host"))
        }
        // Binutils read further options from a file that is named after an `@`.
        "nm" | "objdump" | "readelf" | "size" | "strings"
            if sorted
                .operands
                .iter()
                .any(|word| word.text().starts_with('@')) =>
        {
            Err(format!("{name} reads options from a file"))
        }
        "bc" => fixed().map(|_| ()),
        "man" => {
            let words = fixed()?;
            let plain = words.iter().all(|word| {
                word.bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"-_.+:".contains(&byte))
            });
            if plain {
                Ok(())
            } else {
                Err("man can format any file".to_owned())
            }
        }
        "ip" => {
            let words = fixed()?;
            let plain: Vec<&str> = words
                .into_iter()
                .filter(|word| !word.starts_with('-'))
                .collect();
            match plain.as_slice() {
                [] => Ok(()),
                [object] | [object, "show" | "list" | "ls", ..]
                    if [
                        "a",
                        "addr",
                        "address",
                        "l",
                        "link",
                        "r",
                        "route",
                        "n",
                        "neigh",
                        "neighbour",
                        "rule",
                        "netns",
                    ]
                    .contains(object) =>
                {
                    Ok(())
                }
                _ => Err("ip can change the network".to_owned()),
            }
        }
        "sysctl" => {
            if fixed()?.iter().any(|word| word.contains('=')) {
                return Err("sysctl with '=' changes a setting".to_owned());
            }
            Ok(())
        }
        "base64" | "base32" | "basenc" | "xxd" if sorted.has("-r") => {
            Err(format!("{name} writes a file"))
        }
        _ => Ok(()),
    }
}

/// `jq --arg name value` takes two words, which no other option here does.
fn jq_without_bindings(words: &[Argument]) -> Result<Vec<Argument>, String> {
    let mut kept = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        if matches!(word.fixed(), Some("--arg" | "--argjson")) {
            for _ in 0..2 {
                if !rest.next().is_some_and(Argument::is_one_word) {
                    return Err("jq binds a word that isn't one".to_owned());
                }
            }
        } else {
            kept.push(word.clone());
        }
    }
    Ok(kept)
}

/// `ps aux`: letters without a dash. Without a dash, `e` shows the environment of every process.
fn check_ps(sorted: &Sorted<'_>) -> Result<(), String> {
    // `-aux` is read as `aux` where there is no user `x`, so what follows a `u` counts as letters too.
    let users = sorted
        .options
        .iter()
        .filter(|(name, _, _)| name == "-u" || name == "-U");
    if users
        .filter_map(|(_, _, attached)| attached.as_deref())
        .any(|text| text.contains('e'))
    {
        return Err("ps with words that could show environments".to_owned());
    }
    let plain = sorted.operands.iter().all(|word| {
        word.fixed().is_some_and(|text| {
            text.bytes()
                .all(|byte| b"aAuxwflmsvXLTHhgrnkcCj0123456789,".contains(&byte))
        })
    });
    if plain {
        Ok(())
    } else {
        Err("ps with words that could show environments".to_owned())
    }
}
