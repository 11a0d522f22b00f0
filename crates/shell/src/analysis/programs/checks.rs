//! Checks that a table of options can't express.

use super::super::argument::{Argument, PathKind};
use super::super::options::Sorted;
use super::super::reading::{FolderReading, NamesAsWords};
use super::{Listing, Refusal, all_fixed, refuse};

type Checked = Result<(), Refusal>;

fn fixed<'a>(name: &str, words: &'a [Argument]) -> Result<Vec<&'a str>, Refusal> {
    match all_fixed(words) {
        Some(words) => Ok(words),
        None => refuse(format!("{name} with a word that isn't fixed")),
    }
}

pub(super) fn all_words_fixed(_: &Sorted<'_>, words: &[Argument]) -> Checked {
    fixed("the command", words).map(|_| ())
}

/// Binutils read further options from a file that is named after an `@`.
pub(super) fn no_option_files(sorted: &Sorted<'_>, words: &[Argument]) -> Checked {
    let names = words.iter().any(|word| word.text().starts_with('@'));
    if names || !sorted.names.is_empty() {
        return refuse("a word that starts with @ names a file of options");
    }
    Ok(())
}

/// xxd doesn't combine letters: `-ps` is one option.
pub(super) fn xxd(_: &Sorted<'_>, words: &[Argument]) -> Checked {
    for word in fixed("xxd", words)? {
        let Some(option) = word.strip_prefix('-').filter(|option| !option.is_empty()) else {
            continue;
        };
        let value = option.get(1..).unwrap_or_default();
        let numbered = option.starts_with(['c', 'g', 'l', 'o', 's'])
            && value
                .bytes()
                .all(|byte| byte.is_ascii_hexdigit() || byte == b'x');
        if option.len() > 1 && !numbered && !option.bytes().all(|byte| byte.is_ascii_digit()) {
            return refuse(format!("xxd's option {word} isn't known to be harmless"));
        }
    }
    Ok(())
}

/// An encoding with a slash in its name is a file that describes one; only what follows two slashes is none.
pub(super) fn iconv(sorted: &Sorted<'_>, _: &[Argument]) -> Checked {
    let options = ["-f", "--from-code", "-t", "--to-code"];
    let plain = |name: &str| {
        let name = name
            .strip_suffix("//TRANSLIT")
            .or_else(|| name.strip_suffix("//IGNORE"))
            .unwrap_or(name);
        name.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.:+".contains(&byte))
    };
    for value in options.iter().flat_map(|option| sorted.values(option)) {
        if !value.is_some_and(plain) {
            return refuse("iconv reads an encoding from a file");
        }
    }
    Ok(())
}

/// An operand without `+` sets the clock.
pub(super) fn date(sorted: &Sorted<'_>, _: &[Argument]) -> Checked {
    let sets = sorted.operands.iter().any(|word| match word {
        Argument::Fixed(text) => !text.starts_with('+'),
        Argument::Variable(variable) => !variable.prefix.starts_with('+'),
    });
    if sets {
        return refuse("date with this operand sets the clock");
    }
    Ok(())
}

pub(super) fn tar(sorted: &Sorted<'_>, words: &[Argument]) -> Checked {
    fixed("tar", words)?;
    let lists = sorted.has_any(&["-t", "--list"]);
    // `host:file` is fetched from another machine.
    if !lists || sorted.files.iter().any(|file| file.text.contains(':')) {
        return refuse("tar does more than list");
    }
    Ok(())
}

/// `tar tzf archive` with the dash that it may have: the same where only the last letter takes a value.
pub(super) fn with_dash(name: &str, words: &[Argument]) -> Option<Vec<Argument>> {
    let (first, rest) = words.split_first()?;
    let letters = first.fixed().filter(|text| !text.starts_with('-'))?;
    let plain = letters.chars().all(|letter| "tvzjJaf".contains(letter))
        && letters.find('f').is_none_or(|at| at + 1 == letters.len());
    (name == "tar" && plain).then(|| {
        std::iter::once(Argument::Fixed(format!("-{letters}")))
            .chain(rest.iter().cloned())
            .collect()
    })
}

pub(super) fn compressor(sorted: &Sorted<'_>, _: &[Argument]) -> Checked {
    // Some of them take the last of several modes.
    let inspects = sorted.has_any(&["-l", "-t", "--list", "--test", "--version"])
        && !sorted.has_any(&["-d", "--decompress"]);
    if inspects || sorted.has_any(&["-c", "--stdout", "--to-stdout"]) {
        return Ok(());
    }
    refuse("it replaces its files")
}

pub(super) fn unzip(sorted: &Sorted<'_>, words: &[Argument]) -> Checked {
    if !sorted.has_any(&["-l", "-t", "-v", "-z", "-p", "-c"]) {
        return refuse("unzip writes the files it finds");
    }
    zip_patterns(sorted, words)
}

/// The name of an archive is a pattern to these programs themselves.
pub(super) fn zip_patterns(_: &Sorted<'_>, words: &[Argument]) -> Checked {
    if words
        .iter()
        .any(|word| word.text().contains(['*', '?', '[']))
    {
        return refuse("it opens every archive that the pattern matches");
    }
    Ok(())
}

/// tree reads on after a letter that takes a value, which is the next word then: `-Po x y` writes to `y`.
pub(super) fn tree(sorted: &Sorted<'_>, _: &[Argument]) -> Checked {
    let goes_on = sorted.options.iter().any(|option| {
        let attached = option.attached.as_deref().unwrap_or_default();
        match option.name.as_str() {
            "-L" => !attached.bytes().all(|byte| byte.is_ascii_digit()),
            "-P" | "-I" => !attached.is_empty(),
            _ => false,
        }
    });
    if goes_on {
        return refuse("tree reads the letters after an option with a value as further options");
    }
    Ok(())
}

/// A name is looked up, which tells a name server whatever the name says.
pub(super) fn no_host_names(_: &Sorted<'_>, words: &[Argument]) -> Checked {
    let names = fixed("the command", words)?.iter().any(|word| {
        word.contains('@')
            || (word.contains('.')
                && !word.contains('/')
                && word.bytes().any(|byte| byte.is_ascii_alphabetic()))
    });
    if names {
        return refuse("it looks up the name of a host");
    }
    Ok(())
}

/// ip's options are whole words, and its objects are a language of their own.
pub(super) fn ip(_: &Sorted<'_>, words: &[Argument]) -> Checked {
    const OPTIONS: [&str; 14] = [
        "-4", "-6", "-s", "-d", "-o", "-j", "-p", "-c", "-h", "-br", "-brief", "-json", "-stats",
        "-oneline",
    ];
    const OBJECTS: [&str; 12] = [
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
    ];
    let words = fixed("ip", words)?;
    let rest: Vec<&str> = words
        .into_iter()
        .skip_while(|word| OPTIONS.contains(word))
        .collect();
    match rest.as_slice() {
        [] => Ok(()),
        [object] | [object, "show" | "list" | "ls"] if OBJECTS.contains(object) => Ok(()),
        [object, "show" | "list" | "ls", "dev", device] | [object, "show", device]
            if OBJECTS.contains(object)
                && device
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"-_@".contains(&byte)) =>
        {
            Ok(())
        }
        _ => refuse("ip can change the network"),
    }
}

pub(super) fn sysctl(_: &Sorted<'_>, words: &[Argument]) -> Checked {
    if fixed("sysctl", words)?
        .iter()
        .any(|word| word.contains('='))
    {
        return refuse("sysctl with '=' changes a setting");
    }
    Ok(())
}

pub(super) fn man(_: &Sorted<'_>, words: &[Argument]) -> Checked {
    let plain = fixed("man", words)?.iter().all(|word| {
        word.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.+:".contains(&byte))
    });
    if plain {
        return Ok(());
    }
    refuse("man can format any file")
}

/// The only modes for folders and devices that don't read what is below them.
pub(super) fn grep(sorted: &Sorted<'_>, _: &[Argument]) -> Checked {
    let options = ["-d", "--directories", "-D", "--devices"];
    for value in options.iter().flat_map(|option| sorted.values(option)) {
        if !matches!(value, Some("read" | "skip")) {
            return refuse("grep could read every file below a folder");
        }
    }
    Ok(())
}

/// Patterns for names that every implementation reads alike; none when one of them is anything else.
fn plain_patterns<'s>(values: impl Iterator<Item = Option<&'s str>>) -> Option<Vec<String>> {
    values
        .map(|value| {
            value
                .filter(|value| {
                    value
                        .bytes()
                        .all(|byte| byte.is_ascii_alphanumeric() || b"._-*?".contains(&byte))
                })
                .map(str::to_owned)
        })
        .collect()
}

pub(super) fn grep_below(sorted: &Sorted<'_>) -> Option<FolderReading> {
    let dereferences = sorted.has_any(&["-R", "--dereference-recursive"]);
    if !dereferences && !sorted.has_any(&["-r", "--recursive"]) {
        return None;
    }
    // Where files are both taken in and left out, the order decides.
    let excludes = sorted.has_any(&["--exclude", "--exclude-from"]);
    let names = plain_patterns(sorted.values("--include")).filter(|_| !excludes);
    Some(FolderReading {
        names: names.unwrap_or_default(),
        follows_links: dereferences,
        enters_links: dereferences,
        ..FolderReading::everything()
    })
}

pub(super) fn grep_lists(sorted: &Sorted<'_>) -> Option<Listing> {
    let lists = sorted.has_any(&["-l", "-L", "--files-with-matches", "--files-without-match"]);
    lists.then(|| Listing {
        rooted: false,
        names_only: false,
        with_nul: sorted.has_any(&["-Z", "--null"]),
    })
}

pub(super) fn rg_below(sorted: &Sorted<'_>) -> Option<FolderReading> {
    let globs: Vec<Option<&str>> = ["-g", "--glob", "--iglob"]
        .iter()
        .flat_map(|option| sorted.values(option))
        .collect();
    let unrestricted = sorted.has_any(&["-u", "--unrestricted"]);
    let leaves_out = |glob: &Option<&str>| glob.is_none_or(|glob| glob.starts_with('!'));
    // A glob that takes files in also takes in hidden and ignored ones.
    let takes_in = !globs.iter().all(leaves_out);
    let names = if takes_in {
        plain_patterns(globs.into_iter()).unwrap_or_default()
    } else {
        Vec::new()
    };
    let types: Option<Vec<String>> = ["-t", "--type"]
        .iter()
        .flat_map(|option| sorted.values(option))
        .map(|value| value.map(str::to_owned))
        .collect();
    // An ignore file can take in hidden files, so where only some of them count, any file may be read.
    let some_count = sorted.options.iter().any(|option| {
        let name = option.name.as_str();
        matches!(name, "--ignore-file" | "--no-require-git") || name.starts_with("--no-ignore-")
    });
    Some(FolderReading {
        tracked: false,
        hidden: takes_in || unrestricted || some_count || sorted.has_any(&["-.", "--hidden"]),
        ignored: takes_in || unrestricted || some_count || sorted.has("--no-ignore"),
        names,
        types: types.filter(|_| !takes_in).unwrap_or_default(),
        follows_links: sorted.has_any(&["-L", "--follow"]),
        enters_links: sorted.has_any(&["-L", "--follow"]),
        names_as_words: NamesAsWords::Any,
    })
}

pub(super) fn rg_lists(sorted: &Sorted<'_>) -> Option<Listing> {
    let files = sorted.has("--files");
    let matching = sorted.has_any(&["-l", "--files-with-matches", "--files-without-match"]);
    let decorated = sorted.has_any(&["--json", "-p", "--pretty", "--path-separator", "--colors"]);
    (files || matching)
        .then(|| Listing {
            rooted: false,
            names_only: files && !matching,
            with_nul: sorted.has_any(&["-0", "--null"]),
        })
        .filter(|_| !decorated)
}

pub(super) fn ag_below(sorted: &Sorted<'_>) -> Option<FolderReading> {
    Some(FolderReading {
        hidden: sorted.has_any(&["-a", "-u", "-U", "--hidden"]),
        // It doesn't know ignore files of the folders above, and reads those it knows in its own way.
        ignored: true,
        follows_links: sorted.has_any(&["-f", "--follow"]),
        enters_links: sorted.has_any(&["-f", "--follow"]),
        ..FolderReading::everything()
    })
}

pub(super) fn fd_lists(sorted: &Sorted<'_>) -> Option<Listing> {
    let decorated = sorted.has_any(&["-c", "--color", "--path-separator"]);
    (!decorated).then(|| Listing {
        rooted: false,
        names_only: true,
        with_nul: sorted.has_any(&["-0", "--print0"]),
    })
}

/// Bare names of the folder that it runs in.
pub(super) fn ls_lists(sorted: &Sorted<'_>) -> Option<Listing> {
    let bare = sorted
        .options
        .iter()
        .all(|option| matches!(option.name.as_str(), "-1" | "-A" | "-r" | "-t" | "-S"));
    (bare && sorted.operands.is_empty()).then_some(Listing {
        rooted: false,
        names_only: true,
        with_nul: false,
    })
}

/// Two folders are compared file by file, links followed, with or without `-r`. Pipes are no folders.
pub(super) fn diff_below(sorted: &Sorted<'_>) -> Option<FolderReading> {
    let names = |word: &&Argument| word.path().kind != PathKind::Pipe && word.fixed() != Some("-");
    let any = sorted.operands.iter().any(names);
    any.then(FolderReading::everything)
}
