//! Commands that run other commands.
//!
//! An allow rule for `npm test` should also allow `timeout 60 npm test`; a deny rule for `rm` must catch
//! `sudo env A=1 xargs rm`. The first needs care not to strip anything that changes what runs, the
//! second must not overlook any way of running something. Hence two functions: [`strip_harmless`] knows
//! five wrappers and their options exactly, [`through_every_wrapper`] knows as many as possible and
//! guesses on the strict side.

use super::argument::Argument;
use super::options::{Order, sort};
use crate::syntax::{Command, CompoundKind, List, ShellKind, Word, parse};

/// Takes off `timeout`, `nice`, `nohup`, `time` and `stdbuf`. Gives the names taken off and the rest.
pub(super) fn strip_harmless(argv: &[Argument]) -> (Vec<String>, &[Argument]) {
    let mut names = Vec::new();
    let mut rest = argv;
    while let Some((first, words)) = rest.split_first() {
        let Some(name) = first.fixed() else { break };
        let Some(after) = strip_one(name, words) else {
            break;
        };
        // A bare wrapper, or one around a word that isn't fixed, stays what it is.
        if after
            .first()
            .and_then(Argument::fixed)
            .is_none_or(|next| next.starts_with('-'))
        {
            break;
        }
        names.push(name.to_owned());
        rest = after;
    }
    (names, rest)
}

fn strip_one<'a>(name: &str, words: &'a [Argument]) -> Option<&'a [Argument]> {
    let (table, own_operands) = match name {
        "timeout" | "gtimeout" => (
            "-k= -s= -v -p -f --kill-after= --signal= --preserve-status --foreground --verbose",
            1,
        ),
        "nice" => ("-n= -# --adjustment=", 0),
        "nohup" => ("", 0),
        "time" => ("-p -v -l --portability --verbose", 0),
        "stdbuf" | "gstdbuf" => ("-i= -o= -e= --input= --output= --error=", 0),
        _ => return None,
    };
    // Only the words before the first operand are the wrapper's own.
    let sorted = sort(words, table, Order::OperandsLast).ok()?;
    let own_options_fixed = sorted
        .options
        .iter()
        .all(|option| option.word.is_none_or(|word| word.fixed().is_some()));
    let after = words.get(words.len() - sorted.operands.len()..)?;
    if !own_options_fixed {
        return None;
    }
    if own_operands == 1 {
        let (duration, rest) = after.split_first()?;
        let plain = duration.fixed()?.trim_end_matches(['s', 'm', 'h', 'd']);
        if plain.is_empty()
            || !plain
                .bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b'.')
        {
            return None;
        }
        return Some(rest);
    }
    Some(after)
}

/// Programs that run the command in their words, with the options that take a value and how many words
/// of their own come before it.
const WRAPPERS: &[(&str, &str, usize)] = &[
    (
        "env",
        "-u= -C= -S= --unset= --chdir= --split-string= -P=",
        0,
    ),
    (
        "sudo",
        "-u= -g= -h= -p= -C= -r= -t= -T= -U= -D= -R= --user= --group= --host= --prompt= --chdir= --chroot=",
        0,
    ),
    ("doas", "-u= -C=", 0),
    ("su", "-c= -s= -g= -G= -w= --command= --shell=", usize::MAX),
    ("runuser", "-u= -g= -G= -c= -s= --user= --command=", 0),
    ("pkexec", "--user=", 0),
    (
        "xargs",
        "-n= -L= -P= -d= -s= -I= -E= -a= --max-args= --max-procs= --delimiter= --max-chars= --arg-file= --process-slot-var= -J= -R= -S=",
        0,
    ),
    (
        "parallel",
        "-j= --jobs= -a= -S= -I= --colsep= -N= -n= -L= --joblog=",
        0,
    ),
    ("timeout", "-k= -s= --kill-after= --signal=", 1),
    ("gtimeout", "-k= -s= --kill-after= --signal=", 1),
    ("nice", "-n= --adjustment=", 0),
    ("ionice", "-c= -n= -p= --class= --classdata=", 0),
    ("chrt", "-T= -P= -D=", 1),
    ("taskset", "-p=", 1),
    (
        "numactl",
        "-m= -N= -C= --membind= --cpunodebind= --physcpubind=",
        0,
    ),
    ("nohup", "", 0),
    ("setsid", "", 0),
    ("stdbuf", "-i= -o= -e= --input= --output= --error=", 0),
    ("gstdbuf", "-i= -o= -e=", 0),
    ("unbuffer", "", 0),
    ("time", "-o= -f= --output= --format=", 0),
    ("command", "", 0),
    ("builtin", "", 0),
    ("exec", "-a=", 0),
    ("busybox", "", 0),
    ("toybox", "", 0),
    ("chroot", "--userspec= --groups=", 1),
    ("unshare", "-S= -G= -R= -w= --root= --wd=", 0),
    ("nsenter", "-t= -S= -G= -r= -w= --target=", 0),
    ("firejail", "", 0),
    (
        "bwrap",
        "--ro-bind= --bind= --dev= --proc= --tmpfs= --chdir=",
        0,
    ),
    ("proot", "-r= -b= -w=", 0),
    ("fakeroot", "-l= -s= -i= -b=", 0),
    ("faketime", "-f= --exclude-monotonic=", 1),
    (
        "strace",
        "-e= -o= -p= -s= -a= -b= -E= -I= -O= -P= -S= -u= -X=",
        0,
    ),
    ("ltrace", "-e= -o= -p= -s= -a= -n= -u= -l= -x=", 0),
    ("gdb", "-ex= -x=", 0),
    ("valgrind", "", 0),
    ("perf", "", 1),
    ("watch", "-n= -d= --interval=", 0),
    ("entr", "", 0),
    ("script", "-c= --command=", usize::MAX),
    ("flock", "-w= -E= -c= --timeout= --command=", 1),
    ("setarch", "", 1),
    ("linux64", "", 0),
    ("linux32", "", 0),
    ("setpriv", "", 0),
    ("capsh", "", 0),
    ("prlimit", "", 0),
    ("cpulimit", "-l= -p= -e=", 0),
    (
        "systemd-run",
        "-p= -u= --unit= -M= -E= --property= --uid= --gid= --slice=",
        0,
    ),
    ("dbus-run-session", "", 0),
    ("dbus-launch", "", 0),
    ("xvfb-run", "-n= -s= -e= -f= -p= -w=", 0),
    (
        "ssh",
        "-p= -i= -l= -o= -F= -J= -L= -R= -D= -b= -c= -E= -e= -I= -m= -O= -Q= -S= -W= -w= -B=",
        1,
    ),
    ("rsh", "-l=", 1),
    ("kubectl", "", usize::MAX),
    ("npx", "-p= --package= -c= --call=", 0),
    ("bunx", "", 0),
    ("uvx", "--from= --with=", 0),
    ("pipx", "", 1),
    ("pnpx", "", 0),
    ("direnv", "", 2),
    ("dotenv", "-e= -f=", 0),
    ("chpst", "-u= -U= -b= -/= -n= -l= -L=", 0),
    ("softlimit", "", 0),
    ("catchsegv", "", 0),
    ("noglob", "", 0),
    ("nocorrect", "", 0),
    ("-", "", 0),
    ("coproc", "", 0),
    ("then", "", 0),
    ("do", "", 0),
    ("!", "", 0),
    (
        "hyperfine",
        "-w= -r= -m= -M= -p= -c= -n= --warmup= --runs=",
        0,
    ),
    ("eatmydata", "", 0),
    ("torsocks", "", 0),
    ("proxychains", "-f=", 0),
    ("proxychains4", "-f=", 0),
    ("rlwrap", "", 0),
    ("winpty", "", 0),
    ("caffeinate", "-t= -w=", 0),
    ("arch", "", 0),
    ("op", "", 1),
    ("aws-vault", "", 2),
    ("poetry", "", 1),
    ("pipenv", "", 1),
    ("bundle", "", 1),
    ("uv", "", 1),
    ("mise", "", 1),
    ("nix", "", 1),
    ("nix-shell", "-p=", 0),
    ("docker", "", usize::MAX),
    ("tini", "-e= -p=", 0),
    ("dumb-init", "-r=", 0),
    ("gosu", "", 1),
    ("su-exec", "", 1),
    ("chronic", "", 0),
    ("conda", "-n= --name= -p= --prefix=", 1),
    ("mamba", "-n= --name= -p= --prefix=", 1),
    ("ld.so", "--library-path= --preload=", 0),
    ("tmux", "-L= -S= -f= -t= -n= -s= -c=", 1),
    ("screen", "-S= -c= -t= -L=", 0),
    ("start-stop-daemon", "-p= -u= -g= -n= -d= -c=", 0),
    ("daemonize", "-p= -u= -c= -o= -e=", 0),
    ("ts", "", 0),
    ("doctl", "", usize::MAX),
];

/// Programs whose `-c` takes a script.
pub(super) const SHELLS: &[&str] = &[
    "bash", "sh", "zsh", "dash", "ksh", "ash", "fish", "csh", "tcsh", "mksh", "rbash", "yash",
    "pwsh", "elvish", "nu",
];

/// Every command that this one could run, itself first, for deny rules.
pub(super) fn through_every_wrapper(argv: &[Argument], shell: ShellKind) -> Vec<Vec<Argument>> {
    let mut found = Vec::new();
    collect(argv, shell, 0, &mut found);
    found
}

const MOST_COMMANDS: usize = 64;

fn collect(argv: &[Argument], shell: ShellKind, depth: usize, found: &mut Vec<Vec<Argument>>) {
    let Some((first, words)) = argv.split_first() else {
        return;
    };
    if depth > 8 || found.len() >= MOST_COMMANDS {
        return;
    }
    let mut whole = argv.to_vec();
    let Some(name) = first.fixed() else {
        found.push(whole);
        return;
    };
    // A program is the same program by any path.
    let base = name.rsplit(['/', '\\']).next().unwrap_or(name);
    if base != name && !base.is_empty() {
        found.push(whole.clone());
        whole = std::iter::once(Argument::Fixed(base.to_owned()))
            .chain(words.iter().cloned())
            .collect();
    }
    found.push(whole);
    // File systems that ignore case, and Windows, find the same program by other spellings.
    let plain = base.to_ascii_lowercase();
    let plain = plain.strip_suffix(".exe").unwrap_or(&plain);
    if plain != base {
        let renamed =
            std::iter::once(Argument::Fixed(plain.to_owned())).chain(words.iter().cloned());
        found.push(renamed.collect());
    }
    let base = plain;
    without_global_options(base, words, found);
    if SHELLS.contains(&base)
        || matches!(
            base,
            "su" | "script"
                | "runuser"
                | "flock"
                | "npx"
                | "watch"
                | "ssh"
                | "parallel"
                | "hyperfine"
                | "env"
                | "eval"
                | "nix-shell"
                | "trap"
                | "tmux"
                | "screen"
                | "capsh"
                | "entr"
                | "conda"
                | "split"
        )
    {
        scripts(base, words, shell, depth, found);
    }
    if let Some((_, table, own)) = WRAPPERS.iter().find(|(wrapper, _, _)| *wrapper == base)
        && *own != usize::MAX
    {
        wrapped(words, table, *own, shell, depth, found);
    }
    if matches!(base, "find" | "fd" | "fdfind") {
        found_actions(words, shell, depth, found);
    }
    if base.starts_with("ld-linux") || base.starts_with("ld-musl") {
        wrapped(
            words,
            "--library-path= --preload= --argv0=",
            0,
            shell,
            depth,
            found,
        );
    }
    // `coreutils --coreutils-prog=rm` is rm.
    if let Some((Argument::Fixed(option), rest)) = words.split_first()
        && let Some(program) = option.strip_prefix("--coreutils-prog=")
    {
        let argv: Vec<Argument> = std::iter::once(Argument::Fixed(program.to_owned()))
            .chain(rest.iter().cloned())
            .collect();
        collect(&argv, shell, depth + 1, found);
    }
    commands_in_words(base, words, shell, depth, found);
}

/// Commands that stand in the words of programs with sub-commands: what follows an option that takes a command, or a
/// sub-command that runs one.
fn commands_in_words(
    base: &str,
    words: &[Argument],
    shell: ShellKind,
    depth: usize,
    found: &mut Vec<Vec<Argument>>,
) {
    let fixed: Vec<&str> = words.iter().map(Argument::text).collect();
    let mut texts: Vec<String> = Vec::new();
    let runs_rest = |after: &[&str]| {
        fixed
            .windows(after.len())
            .position(|window| window == after)
    };
    let rest_after: &[&[&str]] = match base {
        "git" => &[
            &["bisect", "run"],
            &["submodule", "foreach"],
            &["submodule", "foreach", "--recursive"],
        ],
        "npm" | "pnpm" | "yarn" => &[&["exec"], &["exec", "--"], &["x"], &["dlx"]],
        "capsh" => &[&["--"]],
        "start-stop-daemon" => &[&["--"], &["--exec"], &["-x"], &["--startas"], &["-a"]],
        _ => &[],
    };
    for after in rest_after {
        if let Some(at) = runs_rest(after) {
            let rest = words.get(at + after.len()..).unwrap_or_default();
            collect(rest, shell, depth + 1, found);
            texts.extend(rest.first().and_then(Argument::fixed).map(str::to_owned));
        }
    }
    for (index, text) in fixed.iter().enumerate() {
        let value = text.split_once('=').map(|(_, value)| value);
        let next = fixed.get(index + 1).copied();
        match base {
            "git" => {
                // An alias or a setting that starts with `!` is a command, and so are some settings by themselves.
                texts.extend(value.map(|value| value.trim_start_matches('!').to_owned()));
                if matches!(
                    *text,
                    "--exec" | "-x" | "--extcmd" | "--tree-filter" | "--index-filter"
                ) {
                    texts.extend(next.map(str::to_owned));
                }
            }
            "make" | "gmake" => {
                let rules = text
                    .strip_prefix("--eval=")
                    .or_else(|| (*text == "--eval").then_some(next.unwrap_or_default()));
                texts.extend(
                    rules
                        .and_then(|rules| rules.split_once([';', '\t']))
                        .map(|(_, recipe)| recipe.to_owned()),
                );
            }
            _ => {}
        }
    }
    for text in texts {
        for argv in commands_in_text(&text, shell) {
            collect(&argv, shell, depth + 1, found);
        }
    }
}

/// The simple commands in a text that a shell runs.
pub(super) fn commands_in_text(text: &str, shell: ShellKind) -> Vec<Vec<Argument>> {
    let parsed = parse(text, shell);
    let mut simple = Vec::new();
    simple_commands(&parsed.list, &mut simple);
    simple
        .into_iter()
        .take(MOST_COMMANDS)
        .map(|words| words.iter().map(Argument::from_word).collect())
        .collect()
}

/// Programs with sub-commands, and their options that take a value and stand before the sub-command.
const SUB_COMMANDS: &[(&str, &str)] = &[
    (
        "git",
        "-C -c --git-dir --work-tree --namespace --exec-path --super-prefix --config-env --attr-source",
    ),
    (
        "docker",
        "-H --host -c --context --config -l --log-level --tlscacert --tlscert --tlskey",
    ),
    (
        "podman",
        "-H --host -c --connection --url --log-level --root --runroot",
    ),
    (
        "kubectl",
        "-n --namespace --context --cluster --kubeconfig -s --server --user --as --as-group --token -v --request-timeout",
    ),
    ("helm", "-n --namespace --kube-context --kubeconfig"),
    (
        "npm",
        "--prefix -C -w --workspace --registry --userconfig --loglevel",
    ),
    ("pnpm", "--dir -C --filter -F --prefix"),
    ("yarn", "--cwd"),
    (
        "cargo",
        "-C -Z --config --color --manifest-path --target-dir",
    ),
    ("gh", "-R --repo"),
    (
        "systemctl",
        "-H --host -M --machine -t --type -p --property",
    ),
    ("terraform", "-chdir"),
    ("go", "-C"),
    ("pip", "--python --log --proxy --timeout --cache-dir"),
    ("pip3", "--python --log --proxy --timeout --cache-dir"),
    ("aws", "--profile --region --endpoint-url --output"),
    ("gcloud", "--project --account --configuration"),
    ("apt", "-o -c -t"),
    ("apt-get", "-o -c -t"),
    ("brew", ""),
];

/// A rule for `git push` also means `git -C folder push`: adds the command without such options.
fn without_global_options(base: &str, words: &[Argument], found: &mut Vec<Vec<Argument>>) {
    let Some((_, valued)) = SUB_COMMANDS.iter().find(|(name, _)| *name == base) else {
        return;
    };
    let mut position = 0;
    while let Some(word) = words.get(position) {
        let text = word.text();
        let option = text.starts_with('-') || (base == "cargo" && text.starts_with('+'));
        if !option {
            break;
        }
        position += if valued.split(' ').any(|name| name == text) {
            2
        } else {
            1
        };
    }
    if position == 0 {
        return;
    }
    // An option that isn't known to take a value may still have taken the next word.
    for skip in [position, position + 1] {
        let rest = words.get(skip..).unwrap_or_default();
        if !rest.is_empty() {
            let command =
                std::iter::once(Argument::Fixed(base.to_owned())).chain(rest.iter().cloned());
            found.push(command.collect());
        }
    }
}

/// The words after a wrapper's own. Unknown options are taken to have no value, and with a value in doubt
/// both readings are followed.
fn wrapped(
    words: &[Argument],
    table: &str,
    own: usize,
    shell: ShellKind,
    depth: usize,
    found: &mut Vec<Vec<Argument>>,
) {
    let mut position = 0;
    let mut left = own;
    while let Some(word) = words.get(position) {
        let text = word.text();
        if text == "--" {
            position += 1;
            continue;
        }
        let assignment = text.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty()
                && !name.starts_with('-')
                && name
                    .bytes()
                    .all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
        });
        if text.len() > 1 && text.starts_with('-') {
            let takes_value = table
                .split_ascii_whitespace()
                .any(|entry| entry.strip_suffix('=') == Some(text));
            position += if takes_value { 2 } else { 1 };
            continue;
        }
        if assignment {
            position += 1;
            continue;
        }
        if left > 0 {
            left -= 1;
            position += 1;
            continue;
        }
        break;
    }
    let rest = words.get(position..).unwrap_or_default();
    collect(rest, shell, depth + 1, found);
    // An option that isn't in the table may have taken the first word as its value.
    let unsure = words
        .get(..position)
        .unwrap_or_default()
        .iter()
        .any(|word| {
            let text = word.text();
            text.len() > 1
                && text.starts_with('-')
                && !table
                    .split_ascii_whitespace()
                    .any(|entry| entry.trim_end_matches('=') == text)
        });
    if unsure && rest.len() > 1 {
        collect(rest.get(1..).unwrap_or_default(), shell, depth + 1, found);
    }
}

/// Texts that a program hands to a shell: the values of `-c`, and what stands where a command belongs.
fn scripts(
    base: &str,
    words: &[Argument],
    shell: ShellKind,
    depth: usize,
    found: &mut Vec<Vec<Argument>>,
) {
    let mut texts: Vec<String> = Vec::new();
    let mut previous_gives_script = false;
    for word in words {
        let Some(text) = word.fixed() else {
            previous_gives_script = false;
            continue;
        };
        if previous_gives_script {
            texts.push(text.to_owned());
        }
        let is_option = text.starts_with('-') && text.len() > 1 && !text.starts_with("--");
        previous_gives_script = (is_option && text.contains('c'))
            || matches!(
                text,
                "--command" | "--call" | "-S" | "--split-string" | "--run" | "--filter"
            );
        if is_option && SHELLS.contains(&base) {
            // Further options can stand between `-c` and the script.
            previous_gives_script |= text.contains('c');
        }
        if let Some((option, value)) = text.split_once('=')
            && matches!(
                option,
                "--command" | "--call" | "--split-string" | "--filter"
            )
        {
            texts.push(value.to_owned());
        }
        if let Some(value) = text
            .strip_prefix("-S")
            .filter(|value| base == "env" && !value.is_empty())
        {
            texts.push(value.to_owned());
        }
    }
    if SHELLS.contains(&base)
        && words.iter().any(|word| {
            word.fixed().is_some_and(|text| {
                text.starts_with('-') && !text.starts_with("--") && text.contains('c')
            })
        })
    {
        texts.extend(
            words
                .iter()
                .filter_map(Argument::fixed)
                .filter(|text| !text.starts_with('-'))
                .map(str::to_owned),
        );
    }
    // These run their words as one line of shell.
    if matches!(
        base,
        "watch" | "ssh" | "parallel" | "hyperfine" | "eval" | "trap"
    ) {
        texts.extend(
            words
                .iter()
                .filter_map(Argument::fixed)
                .filter(|text| text.contains([' ', ';', '|', '&']))
                .map(str::to_owned),
        );
        let joined: Vec<&str> = words.iter().map(Argument::text).collect();
        if base == "eval" {
            texts.push(joined.join(" "));
        }
    }
    texts.dedup();
    for text in texts {
        if found.len() >= MOST_COMMANDS {
            return;
        }
        let parsed = parse(&text, shell);
        let mut simple = Vec::new();
        simple_commands(&parsed.list, &mut simple);
        for words in simple {
            let argv: Vec<Argument> = words.iter().map(Argument::from_word).collect();
            collect(&argv, shell, depth + 1, found);
        }
    }
}

/// The commands of `find -exec` and its relatives.
fn found_actions(
    words: &[Argument],
    shell: ShellKind,
    depth: usize,
    found: &mut Vec<Vec<Argument>>,
) {
    const ACTIONS: [&str; 8] = [
        "-exec",
        "-execdir",
        "-ok",
        "-okdir",
        "-x",
        "-X",
        "--exec",
        "--exec-batch",
    ];
    for (index, word) in words.iter().enumerate() {
        if word.fixed().is_some_and(|text| ACTIONS.contains(&text)) {
            let rest = words.get(index + 1..).unwrap_or_default();
            let end = rest
                .iter()
                .position(|word| matches!(word.fixed(), Some(";" | "+")))
                .unwrap_or(rest.len());
            collect(rest.get(..end).unwrap_or_default(), shell, depth + 1, found);
        }
    }
}

/// Every simple command in a list, with those in substitutions.
fn simple_commands<'a>(list: &'a List, found: &mut Vec<&'a [Word]>) {
    for item in &list.items {
        for command in &item.pipeline.commands {
            match command {
                Command::Simple(simple) => {
                    found.push(&simple.words);
                    for word in &simple.words {
                        substitutions(word, found);
                    }
                }
                Command::Compound(compound) => compound_commands(&compound.kind, found),
                Command::Function(function) => compound_commands(&function.body.kind, found),
            }
        }
    }
}

fn substitutions<'a>(word: &'a Word, found: &mut Vec<&'a [Word]>) {
    for part in &word.parts {
        match part {
            crate::syntax::WordPart::Command { list, .. }
            | crate::syntax::WordPart::Process(list) => {
                simple_commands(list, found);
            }
            _ => {}
        }
    }
}

fn compound_commands<'a>(kind: &'a CompoundKind, found: &mut Vec<&'a [Word]>) {
    match kind {
        CompoundKind::Subshell(list) | CompoundKind::Group(list) => simple_commands(list, found),
        CompoundKind::If { clauses, otherwise } => {
            for (condition, body) in clauses {
                simple_commands(condition, found);
                simple_commands(body, found);
            }
            if let Some(list) = otherwise {
                simple_commands(list, found);
            }
        }
        CompoundKind::For { body, .. } | CompoundKind::ArithmeticFor { body, .. } => {
            simple_commands(body, found);
        }
        CompoundKind::While { condition, body } => {
            simple_commands(condition, found);
            simple_commands(body, found);
        }
        CompoundKind::Case { arms, .. } => {
            for (_, body) in arms {
                simple_commands(body, found);
            }
        }
        CompoundKind::Conditional { .. } | CompoundKind::Arithmetic { .. } => {}
    }
}
