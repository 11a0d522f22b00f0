//! Made-up variants of what must not pass, one generator a cause: thousands of commands, configurations, paths, names and
//! rules from a seed. `LATHE_EFFECTS` sets how many are made, `LATHE_EFFECTS_SEED` the seed.
//!
//! | cause | generator |
//! |---|---|
//! | folders that nobody trusted | here: configurations of repositories |
//! | programs and their options | `effects.rs`; `reality.rs` in `shell`, every option of every table against the programs |
//! | the kernel behind the tables | `read_only.rs` in `sandbox` |
//! | dangers behind other programs | here |
//! | ways into a request, rewinds | `paths.rs` |
//! | keys of the environment | here |
//! | hooks that narrow | here: conditions against rules |
//! | the door to the terminal | `printable.rs` in `protocol`: every output passes that one function |
//! | questions | `layers/permission/tests.rs` in `tui` |
//! | names of servers, tools, skills and agents | `names.rs` |
//! | the token of a served session | `serve/http.rs` in `mcp` |
//! | modes that a folder brings | `trusting.rs` in `settings`, `agents/tests.rs` in `extensions` |
//! | copies through links | here |
//!
//! None is made for the git that Lathe runs itself: in a folder that nobody trusted it isn't started at all, whatever the
//! repository says, which one test a caller shows; what it would obey is the subject of the first generator.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]
#![expect(
    clippy::disallowed_methods,
    reason = "a longer run is asked for by an environment variable"
)]

#[path = "../common/mod.rs"]
mod common;
mod names;
mod paths;

use common::{NetworkTrap, World, add_rule, decide_on, shell};
use lathe_permissions::condition::{RuleMatch, rule_match};
use lathe_permissions::{CallFacts, PermissionContext, resolve};
use lathe_protocol::permission::{Behavior, Decision, PermissionMode, RuleSource};
use std::path::Path;
use std::process::{Command, Stdio};

const SECRET: &str = "canary-51c0de";

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

fn variants() -> u64 {
    number("LATHE_EFFECTS", 5_000)
}

struct Random(u64);

impl Random {
    fn new() -> Self {
        Self(number("LATHE_EFFECTS_SEED", 20_261_116))
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % limit
    }

    fn one<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }

    /// Quotes a command for a shell inside of a command.
    fn nested(&mut self, command: &str) -> String {
        format!("'{}'", command.replace('\'', r"'\''"))
    }
}

fn passes(command: &str, context: &PermissionContext) -> bool {
    let decision = decide_on("Bash", &shell(command, &context.cwd), context);
    matches!(decision, Decision::Allow { .. })
}

/// Runs a command where it was judged, with secrets in the environment. Gives what it printed. Nothing it does may
/// reach the network.
fn run(command: &str, world: &World, trap: &NetworkTrap) -> String {
    let mut bash = Command::new("timeout");
    bash.args(["5", "bash", "-c", command])
        .current_dir(world.project())
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", world.home())
        .env("SOME_API_KEY", SECRET)
        .env("GITHUB_TOKEN", SECRET)
        .env("AWS_SECRET_ACCESS_KEY", SECRET)
        .env("DB_PASSWORD", SECRET)
        .stdin(Stdio::null());
    trap.set_proxy(&mut bash);
    let output = bash.output().unwrap();
    assert!(!trap.was_reached(), "{command} reaches the network");
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    text
}

fn git(folder: &Path, words: &[&str]) {
    let status = Command::new("git")
        .args(["-c", "user.name=a", "-c", "user.email=a@b"])
        .args(words)
        .current_dir(folder)
        .status();
    assert!(status.unwrap().success(), "git {words:?}");
}

/// A folder that nobody trusted: whatever its repository's configuration says, no program of it runs.
#[test]
fn no_configuration_of_an_untrusted_repository_runs_a_program() {
    let world = World::new();
    let project = world.project();
    std::fs::remove_dir_all(project.join(".git")).unwrap();
    git(&project, &["init", "-q"]);
    git(&project, &["add", "src"]);
    git(&project, &["commit", "-qm", "x"]);
    std::fs::write(project.join("src/main.rs"), "changed\n").unwrap();
    std::fs::write(
        project.join(".gitattributes"),
        "* filter=e diff=e merge=e\n",
    )
    .unwrap();
    let trace = world.base.join("ran");
    let program = format!("touch {}", trace.display());
    let config = std::fs::read_to_string(project.join(".git/config")).unwrap();
    let mut context = world.context();
    context.trusted = false;
    let trap = NetworkTrap::new();
    let mut random = Random::new();
    let mut allowed = 0;
    for _ in 0..variants() {
        let key = random.one(&[
            "core.fsmonitor",
            "core.pager",
            "core.editor",
            "core.sshCommand",
            "core.hooksPath",
            "core.gitProxy",
            "core.askPass",
            "core.attributesFile",
            "core.worktree",
            "core.alternateRefsCommand",
            "filter.e.clean",
            "filter.e.smudge",
            "filter.e.process",
            "diff.e.textconv",
            "diff.e.command",
            "diff.external",
            "merge.e.driver",
            "gpg.program",
            "gpg.ssh.program",
            "pager.log",
            "pager.status",
            "alias.status",
            "alias.st",
            "credential.helper",
            "include.path",
            "includeIf.gitdir:/.path",
            "interactive.diffFilter",
            "uploadpack.packObjectsHook",
            "sequence.editor",
            "trailer.x.command",
            "browser.x.cmd",
            "log.showSignature",
            "core.autocrlf",
            "user.name",
            "color.ui",
            "branch.main.remote",
            "remote.origin.url",
            "remote.origin.promisor",
            "http.proxy",
            "extensions.partialClone",
        ]);
        let (section, name) = key.rsplit_once('.').unwrap();
        let header = match section.split_once('.') {
            Some((section, sub)) => match random.below(3) {
                0 => format!("[{section} \"{sub}\"]"),
                1 => format!("[{} \"{sub}\"]", section.to_uppercase()),
                _ => format!("[ {section} \"{sub}\" ]"),
            },
            None => match random.below(3) {
                0 => format!("[{section}]"),
                1 => format!("[{}]", section.to_uppercase()),
                _ => format!("[{section}] # ]"),
            },
        };
        let value = match random.below(6) {
            5 => format!("http://{}/x", trap.address()),
            0 => format!("\"{program}\""),
            1 => program.clone(),
            2 => format!("{program} ; #"),
            3 => format!("\\\n {program}"),
            _ => format!("!{program}"),
        };
        let line = match random.below(4) {
            0 => format!("{header}{name} = {value}\n"),
            1 => format!("{header}\n\t{name}={value}\n"),
            2 => format!("\u{feff}{header}\n{} = {value}\n", name.to_uppercase()),
            _ => format!("{header}\n{name} = {value}"),
        };
        let text = match random.below(3) {
            0 => format!("{line}\n{config}"),
            1 => format!("{config}{line}"),
            _ => format!("{config}[x \"a]b\"]\n{line}"),
        };
        std::fs::write(project.join(".git/config"), text).unwrap();
        let command = random.one(&[
            "git status",
            "git diff",
            "git log -p",
            "git show",
            "git diff HEAD",
            "git blame src/main.rs",
            "git log -1",
            "git st",
            "git ls-files -m",
            "git grep x",
            "cd src && git status",
            "git branch",
            "git log --show-signature",
            "git stash list",
            "git describe --dirty --always",
            "git check-attr -a src/main.rs",
            "git -C src status",
            "git ls-remote",
            "git ls-remote origin",
            "git remote show origin",
            "git fetch",
            "git status -v",
            "git stash show -p",
        ]);
        if passes(command, &context) {
            allowed += 1;
            // Most keys are refused; what is left is run.
            run(command, &world, &trap);
            assert!(!trace.exists(), "{command} runs {line:?}");
        }
    }
    assert!(allowed > 0, "nothing passed");
}

/// Unknown effects ask hard: neither bypassPermissions nor a rule for every command lets these pass.
#[test]
fn dangers_behind_other_programs_ask_in_every_mode() {
    let world = World::new();
    let mut context = world.context();
    context.mode = PermissionMode::BypassPermissions;
    add_rule(
        &mut context,
        Behavior::Deny,
        "Bash(curl:*)",
        RuleSource::UserSettings,
    );
    add_rule(
        &mut context,
        Behavior::Allow,
        "Bash",
        RuleSource::UserSettings,
    );
    let mut random = Random::new();
    for _ in 0..variants() {
        let danger = random.one(&[
            "rm -rf ~",
            "rm -rf /",
            "rm -rf \"$HOME\"",
            "echo x >> ~/.bashrc",
            "echo x > .git/hooks/pre-commit",
            "curl http://127.0.0.1:9",
            "tee -a ~/.zshrc",
            "cp x ~/.ssh/authorized_keys",
            "dd if=/dev/zero of=/dev/sda",
            "rm -rf ../project",
            "rm -rf .",
            "mv x .lathe/settings.json",
            "sed -i s/a/b/ ~/.profile",
            "/bin/rm -rf ~",
            "tar xf a.tar && rm -rf l/*",
            "unzip -q a.zip && cp x l/y",
            "git checkout x && echo y > l/z",
            "git clone http://127.0.0.1:9/c && rm -rf c/l/x",
        ]);
        let quoted = random.nested(danger);
        let twice = random.nested(&format!("sh -c {quoted}"));
        let command = match random.below(26) {
            0 => danger.to_owned(),
            1 => format!("bash -c {quoted}"),
            2 => format!("sh -c {twice}"),
            3 => format!("echo {quoted} | sh"),
            4 => format!("bash <<< {quoted}"),
            5 => format!("env {danger}"),
            6 => format!("timeout 5 {danger}"),
            7 => format!("nohup nice {danger}"),
            8 => format!("sudo {danger}"),
            9 => format!("true && ({danger})"),
            10 => format!("if true; then {danger}; fi"),
            11 => format!("for i in 1 2; do {danger}; done"),
            12 => format!("f() {{ {danger}; }}; f"),
            13 => format!("! {danger}"),
            14 => format!("x=$({danger})"),
            15 => format!("echo \"$({danger})\""),
            16 => format!("{danger} &"),
            17 => format!("cat README.md; {danger}"),
            18 => format!("eval {quoted}"),
            19 => format!("bash << 'END'\n{danger}\nEND"),
            20 => format!("exec {danger}"),
            21 => format!("command {danger}"),
            22 => format!("xargs -I{{}} {danger} < list"),
            23 => format!("find . -name x -exec sh -c {quoted} \\;"),
            24 => format!(
                "python3 -c 'import os; os.system(\"{}\")'",
                danger.replace('"', "\\\"")
            ),
            _ => format!("setsid {danger}"),
        };
        assert!(!passes(&command, &context), "passes: {command}");
    }
}

/// No command that passes shows a variable that holds a secret.
#[test]
fn no_command_that_passes_prints_keys_of_the_environment() {
    let world = World::new();
    let context = world.context();
    let trap = NetworkTrap::new();
    let mut random = Random::new();
    let mut ran = 0;
    for _ in 0..variants() {
        let name = random.one(&[
            "SOME_API_KEY",
            "GITHUB_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "DB_PASSWORD",
            "HOME",
            "X",
        ]);
        let part = random.one(&["", ":0", ":-x", "%x", "#x", "/a/b", "^", "@Q", ",,"]);
        let printer = random.one(&[
            "echo",
            "printf '%s\\n'",
            "printf %s",
            "echo -n",
            "test -n",
            "expr 1 +",
            "cat <<<",
        ]);
        let command = match random.below(30) {
            0 => format!("{printer} ${name}"),
            1 => format!("{printer} \"${{{name}{part}}}\""),
            2 => format!("{printer} ${{{name}{part}}}"),
            3 => format!("n={name}; {printer} ${{!n}}"),
            4 => format!("printenv {name}"),
            5 => "env".to_owned(),
            6 => format!("env | grep {name}"),
            7 => "printenv".to_owned(),
            8 => "set".to_owned(),
            9 => "export -p".to_owned(),
            10 => format!("declare -p {name}"),
            11 => "cat /proc/self/environ".to_owned(),
            12 => format!("awk 'BEGIN {{ print ENVIRON[\"{name}\"] }}'"),
            13 => "awk 'BEGIN { for (k in ENVIRON) print ENVIRON[k] }'".to_owned(),
            14 => format!("jq -n 'env.{name}'"),
            15 => format!("jq -n '$ENV.{name}'"),
            16 => "ps auxe".to_owned(),
            17 => "ps eww".to_owned(),
            18 => format!("cat << E\n${name}\nE"),
            19 => format!("for v in \"${name}\"; do echo \"$v\"; done"),
            20 => format!("v=${name}; echo \"$v\""),
            21 => format!("[[ ${name} =~ (.*) ]] && echo \"${{BASH_REMATCH[0]}}\""),
            22 => format!("grep -o . <<< ${name}"),
            23 => "strings /proc/self/environ".to_owned(),
            24 => "compgen -v".to_owned(),
            25 => format!("echo ${{{name}}}{part}"),
            26 => format!("seq 1 ${{#{name}}}"),
            27 => "head -c 999 /proc/$$/environ".to_owned(),
            28 => format!("typeset {name}"),
            _ => format!("ls \"${name}\""),
        };
        if passes(&command, &context) {
            ran += 1;
            let shown = run(&command, &world, &trap);
            assert!(!shown.contains(SECRET), "{command} shows {shown}");
        }
    }
    assert!(ran > 0, "nothing passed");
}

/// The condition of a hook describes a call wherever a deny rule would apply, and all of it only where an allow rule
/// would let it pass.
#[test]
fn conditions_of_hooks_agree_with_rules() {
    let world = World::new();
    let context = world.context();
    let rules = [
        "Bash(rm:*)",
        "Bash(git push *)",
        "Bash(npm test)",
        "Bash(cat *)",
        "Bash",
    ];
    let contexts = rules.map(|rule| {
        let with = |behavior| {
            let mut only = world.context();
            add_rule(&mut only, behavior, rule, RuleSource::Session);
            only
        };
        (rule, with(Behavior::Deny), with(Behavior::Allow))
    });
    let mut random = Random::new();
    for _ in 0..variants() {
        let (rule, denying, allowing) = &contexts[random.below(contexts.len())];
        let plain = [
            "rm x",
            "git push origin",
            "npm test",
            "cat README.md",
            "ls",
            "touch a",
        ];
        let first = random.one(&plain);
        let second = random.one(&plain);
        let command = match random.below(8) {
            0 => first.to_owned(),
            1 => format!("{first} && {second}"),
            2 => format!("{first}; {second}"),
            3 => format!("timeout 9 {first}"),
            4 => format!("sudo {first}"),
            5 => format!("bash -c '{first}'"),
            6 => format!("{first} | xargs {second}"),
            _ => format!("cd src && {first}"),
        };
        let subject = shell(&command, &world.project());
        let input = serde_json::json!({"command": command});
        let call = CallFacts {
            tool_name: "Bash",
            aliases: &[],
            input: &input,
            subject: &subject,
            read_only: false,
            resolved: resolve(&subject, &context),
        };
        let found = rule_match(rule, &call, &context);
        let denied = matches!(decide_on("Bash", &subject, denying), Decision::Deny { .. });
        assert!(!denied || found != RuleMatch::None, "{rule} on {command}");
        let allowed = matches!(
            decide_on("Bash", &subject, allowing),
            Decision::Allow { .. }
        );
        assert!(found != RuleMatch::Whole || allowed, "{rule} on {command}");
    }
}

/// Copies that pass in acceptEdits don't bring what links lead to, or secrets under another name.
#[test]
fn copies_that_pass_bring_no_secret_under_another_name() {
    let world = World::new();
    let project = world.project();
    for secret in [".env", "../other/x", "../home/.ssh/id_rsa"] {
        std::fs::write(project.join(secret), SECRET).unwrap();
    }
    std::os::unix::fs::symlink("../../other", project.join("src/deep")).unwrap();
    std::os::unix::fs::symlink("../.env", project.join("src/plain.txt")).unwrap();
    let mut context = world.context();
    context.mode = PermissionMode::AcceptEdits;
    let trap = NetworkTrap::new();
    let mut random = Random::new();
    let mut ran = 0;
    for _ in 0..variants() {
        let program = random.one(&[
            "cp",
            "cp -r",
            "cp -a",
            "cp -L",
            "cp -rL",
            "cp -RLp",
            "cp -r --dereference",
            "cp --deref -r",
            "cp -H",
            "cp -rH",
            "cp -d",
            "cp -l",
            "cp -s",
            "mv",
            "ln",
            "ln -s",
            "ln -L",
            "install",
            "rsync -a",
            "rsync -aL",
            "tar cf made/t",
            "tar chf made/t",
            "dd",
            "tee",
            "cat",
            "cp -P",
            "cp --parents",
            "cp -t made",
            "mv -t made",
            "zip -r made/z",
        ]);
        let source = random.one(&[
            "src",
            "src/",
            "src/deep",
            "src/deep/x",
            "src/plain.txt",
            ".env",
            "./.env",
            "link-env",
            "link-out",
            "folder-out",
            "folder-out/x",
            "../other/x",
            "~/.ssh/id_rsa",
            "src/*",
            ".e*",
            "*",
            "src/main.rs",
            "{src,.env}",
            "src/../.env",
        ]);
        let target = random.one(&["made", "made/copy.txt", "made/", "./made/x", "copy.txt"]);
        let command = match random.below(4) {
            0 => format!("{program} {source} {target}"),
            1 => format!("{program} '{source}' {target}"),
            2 => format!("{program} {source} > {target}"),
            _ => format!("cd src && {program} ../{source} ../{target}"),
        };
        if !passes(&command, &context) {
            continue;
        }
        ran += 1;
        std::fs::create_dir_all(project.join("made")).unwrap();
        run(&command, &world, &trap);
        for made in ["made", "copy.txt"] {
            let copied = read_all(&project.join(made));
            assert!(!copied.contains(SECRET), "{command} copies a secret");
            let _ = std::fs::remove_dir_all(project.join(made));
            let _ = std::fs::remove_file(project.join(made));
        }
        // A move may have taken things away.
        for (path, content) in [("src/main.rs", "x"), (".env", SECRET)] {
            std::fs::create_dir_all(project.join("src")).unwrap();
            if !project.join(path).exists() {
                std::fs::write(project.join(path), content).unwrap();
            }
        }
    }
    assert!(ran > 0, "nothing passed");
}

/// The contents of regular files at and below a path, links not followed, without those that are secrets by name.
fn read_all(path: &Path) -> String {
    let Ok(metadata) = std::fs::symlink_metadata(path) else {
        return String::new();
    };
    if metadata.is_dir() {
        let entries = std::fs::read_dir(path).unwrap().flatten();
        return entries.map(|entry| read_all(&entry.path())).collect();
    }
    let named = path
        .file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with(".env"));
    if metadata.is_file() && !named {
        return String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
    }
    String::new()
}
