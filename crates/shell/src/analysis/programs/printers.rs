//! Programs that show what processes have in their environment: keys and passwords may be among it.

use super::super::argument::Argument;
use super::super::options::{Order, sort};
use super::super::variables::may_hold_secret;
use super::{Reading, Verdict, all_fixed, refuse};

/// `printenv NAME` shows what it names; without a name it shows everything.
pub(super) fn judge_printenv(words: &[Argument]) -> Verdict {
    match all_fixed(words) {
        Some(names)
            if !names.is_empty()
                && names.iter().all(|name| {
                    super::shell_words::is_identifier(name) && !may_hold_secret(name)
                }) =>
        {
            Ok(Reading::default())
        }
        _ => refuse("printenv shows the environment, which can hold keys"),
    }
}

/// Columns of `ps` that say nothing about the environment.
const COLUMNS: &[&str] = &[
    "pid", "ppid", "pgid", "sid", "user", "uid", "euser", "ruser", "group", "gid", "comm", "cmd",
    "args", "command", "ucmd", "stat", "state", "s", "start", "stime", "lstart", "etime", "etimes",
    "time", "cputime", "pcpu", "%cpu", "c", "pmem", "%mem", "rss", "rssize", "vsz", "vsize", "sz",
    "nice", "ni", "pri", "tty", "tt", "tname", "wchan", "nlwp", "lwp", "tid", "psr", "flags", "f",
    "majflt", "minflt", "ucomm", "size", "cls", "rtprio", "threads",
];

/// Letters without a dash that don't show environments and take no value.
const LETTERS: &str = "axuwfjlmhrTcvSgn";

/// `ps`: where words with a dash can't be read, it reads them again as letters without one, and the letter `e`
/// then shows the environment of every process. So no word that could be read so may have an `e`.
pub(super) fn judge_ps(words: &[Argument]) -> Verdict {
    const OPTIONS: &str = "-e -f -a -A -d -F -H -j -l -L -N -T -w -y -Z -c -m -p= -o= -C= -u= -U= -g= -G= -t= --pid= \
        --ppid= --user= --sort= --format= --forest --no-headers --headers --cols= --columns= --width= --rows= --lines= \
        --deselect --group= --tty= --sid=";
    let environments = || refuse("ps with words that could show environments");
    let Some(fixed) = all_fixed(words) else {
        return environments();
    };
    // With an `e` among them, no word may be one that ps could fail to read.
    let has_e = fixed
        .iter()
        .any(|word| word.starts_with('-') && !word.starts_with("--") && word.contains('e'));
    // Known to be read as letters: there is no user `x`.
    let habit = |word: &&str| matches!(*word, "-aux" | "-auxw" | "-auxww" | "-ef" | "-eaf");
    let rest: Vec<Argument> = words
        .iter()
        .zip(&fixed)
        .filter(|(_, text)| !habit(text))
        .map(|(word, _)| word.clone())
        .collect();
    let sorted = sort(&rest, OPTIONS, Order::Mixed)?;
    let may_fail = sorted.has_any(&[
        "-u",
        "-U",
        "-g",
        "-G",
        "-t",
        "-C",
        "-N",
        "--user",
        "--group",
        "--tty",
        "--sid",
        "--deselect",
    ]) || !sorted.operands.is_empty();
    if has_e && may_fail {
        return environments();
    }
    for option in &sorted.options {
        let value = option.value().unwrap_or_default();
        let plain = match option.name.as_str() {
            "-o" | "--format" => value.split(',').all(|column| {
                let column = column.split(['=', ':']).next().unwrap_or_default();
                COLUMNS.contains(&column.trim())
            }),
            "--sort" => value
                .split(',')
                .all(|key| COLUMNS.contains(&key.trim_start_matches(['-', '+']))),
            "-u" | "-U" | "-g" | "-G" | "-t" | "--user" | "--group" | "--tty" | "--sid" => {
                !value.contains('e')
            }
            "-p" | "--pid" | "--ppid" => value
                .bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b','),
            _ => true,
        };
        if !plain {
            return environments();
        }
    }
    let letters = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b',')
            || text.chars().all(|letter| LETTERS.contains(letter))
    };
    if sorted
        .operands
        .iter()
        .all(|word| word.fixed().is_some_and(letters))
    {
        return Ok(Reading::default());
    }
    environments()
}
