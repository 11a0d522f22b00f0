//! Allow rules that would let anything run: what auto mode sets aside and 'always allow' never
//! offers.

use crate::ruleset::{Kind, Rule, kind_of};

/// Programs that run whatever they are given: allowing them is allowing everything.
const RUNS_ANYTHING: &[&str] = &[
    // Shells.
    "sh",
    "bash",
    "zsh",
    "dash",
    "ksh",
    "fish",
    "csh",
    "tcsh",
    "busybox",
    "pwsh",
    "powershell",
    "nu",
    "cmd",
    // Interpreters.
    "python",
    "python2",
    "python3",
    "pypy",
    "pypy3",
    "ipython",
    "node",
    "nodejs",
    "deno",
    "bun",
    "ruby",
    "irb",
    "perl",
    "php",
    "lua",
    "luajit",
    "tclsh",
    "expect",
    "osascript",
    "Rscript",
    "R",
    "julia",
    "ghci",
    "scala",
    "groovy",
    "awk",
    "gawk",
    "mawk",
    "nawk",
    "sed",
    "jshell",
    "elixir",
    "iex",
    "erl",
    "swift",
    "tsx",
    "ts-node",
    // Runners that start another program, or fetch one and start it.
    "npx",
    "bunx",
    "pnpx",
    "uvx",
    "pipx",
    "env",
    "xargs",
    "parallel",
    "sudo",
    "doas",
    "su",
    "runuser",
    "pkexec",
    "ssh",
    "mosh",
    "eval",
    "exec",
    "source",
    ".",
    "command",
    "builtin",
    "nohup",
    "nice",
    "timeout",
    "time",
    "stdbuf",
    "setsid",
    "chroot",
    "unshare",
    "nsenter",
    "strace",
    "ltrace",
    "gdb",
    "lldb",
    "watch",
    "entr",
    "script",
    "screen",
    "tmux",
    "at",
    "batch",
    "crontab",
    "systemd-run",
    "flock",
    "find",
    "fd",
    "make",
    "just",
    "task",
    "docker",
    "podman",
    "kubectl",
    "vagrant",
    "ansible",
    "curl",
    "wget",
    "nc",
    "ncat",
    "socat",
    "git",
    "npm",
    "yarn",
    "pnpm",
    "cargo",
    "go",
];

/// Sub-commands of a program that run whatever they are given.
const RUNS_ANYTHING_WITH: &[&[&str]] = &[
    &["npm", "exec"],
    &["npm", "x"],
    &["npm", "run"],
    &["yarn", "dlx"],
    &["yarn", "exec"],
    &["yarn", "run"],
    &["pnpm", "dlx"],
    &["pnpm", "exec"],
    &["pnpm", "run"],
    &["bun", "x"],
    &["bun", "run"],
    &["uv", "run"],
    &["poetry", "run"],
    &["pipenv", "run"],
    &["hatch", "run"],
    &["conda", "run"],
    &["deno", "run"],
    &["deno", "eval"],
    &["cargo", "run"],
    &["go", "run"],
    &["go", "generate"],
    &["dotnet", "run"],
    &["docker", "run"],
    &["docker", "exec"],
    &["podman", "run"],
    &["podman", "exec"],
    &["docker", "compose"],
    &["kubectl", "exec"],
    &["kubectl", "run"],
    &["bundle", "exec"],
    &["mix", "run"],
    &["direnv", "exec"],
    &["nix", "run"],
    &["nix", "shell"],
    &["nix", "develop"],
    &["git", "config"],
    &["git", "-c"],
    &["aws", "ssm"],
    &["gcloud", "compute"],
];

/// Whether an allow rule lets more pass than anyone can foresee.
pub(crate) fn is_too_broad(rule: &Rule) -> bool {
    let tool = rule.value.tool_name.as_str();
    if kind_of(tool) == Kind::Shell {
        return match rule.command() {
            None => true,
            Some(pattern) => words_are_too_broad(&pattern.leading_words(), pattern.is_exact()),
        };
    }
    // A sub-agent gets its own orders; allowing all agents allows whatever they are told.
    matches!(tool, "Agent" | "Task") && rule.value.rule_content.is_none()
}

/// Whether a rule that starts with these words lets anything run. A whole command that is spelt out
/// (`exact`) runs only itself.
pub(crate) fn words_are_too_broad(words: &[&str], exact: bool) -> bool {
    if exact {
        return false;
    }
    match words {
        [] => true,
        [program] => RUNS_ANYTHING.contains(&base_name(program)) || program.contains('/'),
        [program, rest @ ..] => {
            let program = base_name(program);
            let runs = RUNS_ANYTHING_WITH
                .iter()
                .any(|known| known[0] == program && rest == &known[1..]);
            // `python -c:*` is as broad as `python:*`: the words so far don't say what runs.
            runs || (RUNS_ANYTHING.contains(&program)
                && rest.iter().all(|word| word.starts_with('-')))
        }
    }
}

pub(crate) fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}
