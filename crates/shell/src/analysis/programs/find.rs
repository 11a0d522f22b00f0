//! Commands that look for files, and those that run a command on what was found.

use super::super::argument::{Argument, PathOperand, VariableArgument};
use super::super::options::{Order, sort};
use super::{Reading, Surroundings, Verdict, judge as judge_inner, paths_of, takes_anything};

/// Tests and actions without a value.
const PLAIN: &[&str] = &[
    "-print",
    "-print0",
    "-ls",
    "-prune",
    "-not",
    "!",
    "-a",
    "-and",
    "-o",
    "-or",
    "(",
    ")",
    ",",
    "-follow",
    "-depth",
    "-d",
    "-mount",
    "-xdev",
    "-x",
    "-false",
    "-true",
    "-daystart",
    "-warn",
    "-nowarn",
    "-noleaf",
    "-quit",
    "-empty",
    "-executable",
    "-readable",
    "-writable",
    "-nouser",
    "-nogroup",
    "-ignore_readdir_race",
    "-noignore_readdir_race",
    "-L",
    "-H",
    "-P",
    "-E",
    "-X",
    "-s",
    "-O0",
    "-O1",
    "-O2",
    "-O3",
    "--",
    "-nowarn",
    "-version",
    "--version",
    "-help",
];

/// Tests and actions with one value.
const VALUED: &[&str] = &[
    "-name",
    "-iname",
    "-path",
    "-ipath",
    "-wholename",
    "-iwholename",
    "-regex",
    "-iregex",
    "-regextype",
    "-lname",
    "-ilname",
    "-type",
    "-xtype",
    "-maxdepth",
    "-mindepth",
    "-size",
    "-mtime",
    "-mmin",
    "-atime",
    "-amin",
    "-ctime",
    "-cmin",
    "-newer",
    "-anewer",
    "-cnewer",
    "-perm",
    "-user",
    "-group",
    "-uid",
    "-gid",
    "-links",
    "-inum",
    "-samefile",
    "-fstype",
    "-used",
    "-printf",
    "-context",
    "-flags",
    "-Btime",
    "-Bmin",
];

pub(super) fn judge(words: &[Argument], surroundings: Surroundings<'_>) -> Verdict {
    let mut reading = Reading::default();
    let mut position = 0;
    // Starting points come first, after `-L`, `-H`, `-P`.
    while let Some(word) = words.get(position) {
        match word.fixed() {
            Some("-L" | "-H" | "-P" | "-E" | "-X" | "-s" | "-x" | "--") => {}
            Some(text) if text.starts_with(['-', '(', ')', ',', '!']) => break,
            _ if word.is_surely_operand() => reading.paths.push(word.path()),
            _ => return Err(format!("{} could turn into an action", word.text())),
        }
        position += 1;
    }
    while let Some(word) = words.get(position) {
        let Some(text) = word.fixed() else {
            return Err(format!("{} could turn into an action", word.text()));
        };
        position += 1;
        if PLAIN.contains(&text) {
            continue;
        }
        if VALUED.contains(&text) || text.starts_with("-newer") {
            match words.get(position) {
                Some(value) if value.is_one_word() => position += 1,
                _ => return Err(format!("the value of {text} could become several words")),
            }
            continue;
        }
        if matches!(text, "-exec" | "-execdir") {
            position = judge_exec(words, position, &mut reading, surroundings)?;
            continue;
        }
        return Err(format!("find's {text} isn't known to only read"));
    }
    Ok(reading)
}

/// `-exec command {} ;` where the command itself only reads, whatever file it is given.
fn judge_exec(
    words: &[Argument],
    start: usize,
    reading: &mut Reading,
    surroundings: Surroundings<'_>,
) -> Result<usize, String> {
    let rest = words.get(start..).unwrap_or_default();
    // `;` ends it, and so does `{} +`, whichever comes first.
    let end = rest
        .iter()
        .enumerate()
        .position(|(index, word)| match word.fixed() {
            Some(";") => true,
            Some("+") => index > 0 && rest.get(index - 1).and_then(Argument::fixed) == Some("{}"),
            _ => false,
        });
    let Some(end) = end else {
        return Err("find's -exec doesn't end".to_owned());
    };
    let mut argv = Vec::new();
    for word in rest.get(..end).unwrap_or_default() {
        match word.fixed() {
            // What find hands over starts with a starting point or `./`, which isn't an option.
            Some("{}") => argv.push(found_file()),
            Some(text) if text.contains("{}") => {
                return Err("find puts a file name inside another word".to_owned());
            }
            Some(_) => argv.push(word.clone()),
            None => return Err(format!("{} in find's -exec is not fixed", word.text())),
        }
    }
    let inner = judge_inner(&argv, surroundings.deeper())?;
    reading.needs_trust |= inner.needs_trust;
    reading
        .paths
        .extend(inner.paths.into_iter().filter(|path| path.text != FOUND));
    Ok(start + end + 1)
}

const FOUND: &str = "./\u{0}found";

fn found_file() -> Argument {
    Argument::Variable(VariableArgument {
        source: "{}".to_owned(),
        prefix: "./".to_owned(),
        splits: false,
        multiplies: true,
        path: PathOperand::literal(FOUND),
    })
}

const FD: &str = "-H -I -u -s -i -g -F -a -l -L -p -0 -d= -t= -e= -E= -S= -c= -j= -q -1 -h -V --hidden --no-ignore --unrestricted \
    --case-sensitive --ignore-case --glob --regex --fixed-strings --absolute-path --list-details --follow --full-path \
    --print0 --max-depth= --min-depth= --exact-depth= --prune --type= --extension= --exclude= --size= --changed-within= \
    --changed-before= --newer= --older= --owner= --color= --threads= --max-results= --quiet --show-errors --one-file-system \
    --strip-cwd-prefix? --no-ignore-vcs --no-ignore-parent --relative-path --path-separator= --version --and=";

pub(super) fn judge_fd(words: &[Argument]) -> Verdict {
    let sorted = sort(words, FD, Order::Mixed)?;
    Ok(Reading {
        paths: paths_of(sorted.operands.get(1..).unwrap_or_default()),
        needs_trust: false,
    })
}

/// `xargs` hands words of unknown content to a command, so that command must be one that no word can
/// turn into anything else.
pub(super) fn judge_xargs(words: &[Argument], surroundings: Surroundings<'_>) -> Verdict {
    const TABLE: &str = "-0 -r -t -x -n= -L= -P= -d= -s= -I= -i? -E= -e? -l? --null --no-run-if-empty --max-args= --max-lines? \
        --max-procs= --delimiter= --replace? --verbose --exit --max-chars=";
    let sorted = sort(words, TABLE, Order::OperandsLast)?;
    let Some((first, rest)) = sorted.operands.split_first() else {
        return Ok(Reading::default());
    };
    let Some(name) = first.fixed() else {
        return Err(format!("the command {} is not fixed", first.text()));
    };
    if !takes_anything(name) {
        return Err(format!(
            "words from input could turn into options of {name}"
        ));
    }
    // The replaced text can stand in the command's name.
    for option in ["-I", "-i", "--replace"] {
        for (given, word, attached) in &sorted.options {
            let replaced = match (word, attached) {
                _ if given != option => continue,
                (Some(word), _) => word.fixed(),
                (None, Some(text)) if !text.is_empty() => Some(text.as_str()),
                (None, _) => Some("{}"),
            };
            if replaced.is_none_or(|text| text.is_empty() || name.contains(text)) {
                return Err("xargs replaces the command itself".to_owned());
            }
        }
    }
    let mut argv = vec![Argument::Fixed(name.to_owned())];
    argv.extend(rest.iter().map(|word| (*word).clone()));
    let mut reading = judge_inner(&argv, surroundings.deeper())?;
    let opens_files = !matches!(
        name,
        "echo" | "basename" | "dirname" | "true" | "expr" | "seq" | "printenv"
    );
    match surroundings.piped_names {
        _ if !opens_files => {}
        Some(names) => reading.paths.extend(names.iter().cloned()),
        None => reading
            .paths
            .push(PathOperand::unbounded("words from input")),
    }
    Ok(reading)
}
