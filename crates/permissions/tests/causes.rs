//! Every example of an adversarial review of permissions and its siblings, one table for each cause. What stands in a
//! table asks, or is denied, however it is written.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod common;

use common::{World, add_rule, decide_on, shell, verdict};
use lathe_permissions::PermissionContext;
use lathe_protocol::permission::{Behavior, PermissionMode, RuleSource};
use std::path::Path;
use std::process::{Command, Stdio};

fn git(folder: &Path, words: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=a", "-c", "user.email=a@b"])
        .args(words)
        .current_dir(folder)
        .stderr(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "git {words:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A project with a real repository, in which `.env` was committed once and isn't tracked any more.
fn world() -> World {
    let world = World::new();
    let project = world.project();
    std::fs::remove_dir_all(project.join(".git")).unwrap();
    git(&project, &["init", "-q", "-b", "main"]);
    git(&project, &["add", "-f", ".env", "src"]);
    git(&project, &["commit", "-qm", "one"]);
    git(&project, &["rm", "-q", "--cached", ".env"]);
    git(&project, &["commit", "-qm", "two"]);
    world
}

fn judge(command: &str, world: &World, context: &PermissionContext) -> &'static str {
    let decision = decide_on("Bash", &shell(command, &world.project()), context);
    verdict(&decision).0
}

/// The lines of a table, with `\n` as a line break.
fn lines(table: &str) -> impl Iterator<Item = String> {
    table
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(|line| line.replace("\\n", "\n"))
}

/// No line of a table gets one of these verdicts.
fn none_is(unwanted: &[&str], table: &str, world: &World, context: &PermissionContext) {
    let wrong: Vec<String> = lines(table)
        .filter(|command| unwanted.contains(&judge(command, world, context)))
        .collect();
    assert!(wrong.is_empty(), "{unwanted:?}: {wrong:#?}");
}

fn all_are(wanted: &str, table: &str, world: &World, context: &PermissionContext) {
    let wrong: Vec<String> = lines(table)
        .filter(|command| judge(command, world, context) != wanted)
        .map(|command| {
            let decision = decide_on("Bash", &shell(&command, &world.project()), context);
            format!("{command}: {decision:?}")
        })
        .collect();
    assert!(wrong.is_empty(), "not {wanted}: {wrong:#?}");
}

/// Cause 1: what obeys the folder's configuration asks where nobody trusted the folder.
#[test]
fn tools_that_obey_the_folder_ask_in_an_untrusted_one() {
    let world = world();
    let mut context = world.context();
    context.trusted = false;
    none_is(
        &["allow"],
        "cargo --version
        cargo tree --locked
        rustc --version
        rustup which cargo
        npm ls
        npm --version
        node --version
        yarn --version
        pnpm -v
        bun -v
        deno --version
        mvn --version
        mvn -v
        gradle --version
        ./gradlew --version
        sbt --version
        dotnet --version
        uv --version
        uv pip list
        poetry --version
        composer --version
        php --version
        ruby --version
        gem list
        erl -version
        elixir --version
        brew list
        asdf current
        mise ls
        go version
        java -version
        swift --version
        valgrind --version
        terraform version
        docker compose ps
        gh pr list
        make -n
        git submodule status
        git ls-remote
        cd nothing/here && cargo --version",
        &world,
        &context,
    );
    all_are(
        "allow",
        "git status
        git diff
        git log -3
        git show
        git blame src/main.rs
        cd src && git log -1
        rg x src
        jq --version",
        &world,
        &context,
    );
    // Files that would name a program are not edited by a mode alone.
    context.trusted = true;
    context.mode = PermissionMode::AcceptEdits;
    none_is(
        &["allow"],
        "touch .cargo/config.toml
        cp src/config .npmrc
        mv src/config rust-toolchain.toml
        touch .mvn/extensions.xml
        touch .envrc
        touch .git/config
        touch docs/theme/HEAD
        touch sub/.yarnrc.yml
        echo x > .gitattributes
        touch .tool-versions",
        &world,
        &context,
    );
}

/// Cause 1: a program that a version manager stands for obeys the folder, whatever it is called.
#[test]
fn shims_of_version_managers_ask_in_an_untrusted_folder() {
    let world = world();
    let tools = world.base.join("tools");
    for name in ["shims/jq", "bin/mise", "system/rg"] {
        let path = tools.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
    }
    std::os::unix::fs::symlink(tools.join("bin/mise"), tools.join("bin/tree")).unwrap();
    let mut context = world.context();
    let folders = ["shims", "bin", "system"].map(|name| tools.join(name).display().to_string());
    context.set_search_path(&folders.join(":"));
    let shims = "jq . src/config
        tree src
        timeout 5 jq . src/config
        find src -name '*.json' -exec jq . {} +
        cat src/config | jq .";
    all_are("allow", shims, &world, &context);
    context.trusted = false;
    none_is(&["allow"], shims, &world, &context);
    all_are("allow", "rg x src\nls\ncat src/config", &world, &context);
}

/// Cause 2: a file that is named in any way is read.
#[test]
fn every_way_to_read_a_secret_asks() {
    let world = world();
    let context = world.context();
    std::fs::write(world.project().join("--files0-from=.env"), "").unwrap();
    let file = git(&world.project(), &["rev-parse", "HEAD~1:.env"]);
    git(&world.project(), &["tag", "by-tag", &file]);
    let annotated = ["tag", "-a", "-m", "x", "by-annotated-tag", &file];
    git(&world.project(), &annotated);
    git(&world.project(), &["tag", "-a", "-m", "x", "v1"]);
    let table = include_str!("causes/secrets.txt").replace("{OBJECT}", &file);
    let table = table.replace("{SHORT}", &file[..9]);
    none_is(&["allow"], &table, &world, &context);
    let commit = git(&world.project(), &["rev-parse", "HEAD"]);
    all_are(
        "allow",
        &format!(
            "git show --stat {commit}\ngit show {}\ngit cat-file -p {commit}\ngit show v1\ngit diff v1 main\n\
            git diff v1..main\ngit show main\ngit grep x v1 -- src",
            &commit[..8]
        ),
        &world,
        &context,
    );
}

/// Causes 2 and 6: programs, options and ways to name a file, a variable or a host, one by one. Options that take a value
/// only when it is attached, values that are operands where options end at the first operand, and names that are files
/// are among them.
#[test]
fn no_program_or_option_reads_what_nobody_named() {
    let world = world();
    let context = world.context();
    none_is(
        &["allow"],
        include_str!("causes/reads.txt"),
        &world,
        &context,
    );
    all_are(
        "allow",
        "git diff -U5 HEAD
        git diff --unified=1
        git blame --abbrev=8 src/main.rs
        git blame --reverse HEAD~1..HEAD -- src/main.rs
        git branch --abbrev=7 -v
        iconv -f latin1 -t ASCII//TRANSLIT src/main.rs
        cargo tree --locked -i serde
        npm ls -w web --depth 1
        brew info jq
        docker image inspect --format '{{.Architecture}} {{json .RepoTags}}' nginx
        gh pr view 3 -R owner/name
        gh pr view https://github.com/owner/name/pull/3
        head src/main.rs -n 5
        grep -n x src -A 3 --include '*.rs'
        sort src/main.rs -k 2
        go version",
        &world,
        &context,
    );
}

/// Cause 2: what writes, runs something or opens a connection isn't a read.
#[test]
fn nothing_that_writes_or_runs_passes_as_a_read() {
    let world = world();
    let context = world.context();
    none_is(
        &["allow"],
        include_str!("causes/effects.txt"),
        &world,
        &context,
    );
}

/// Causes 2 and 6: programs that print environments ask.
#[test]
fn programs_that_print_environments_ask() {
    let world = world();
    let context = world.context();
    none_is(
        &["allow"],
        include_str!("causes/environments.txt"),
        &world,
        &context,
    );
    all_are(
        "allow",
        "printenv HOME
        echo $HOME $USER
        jq -n '{env: 1, include: 2}'
        jq '.env | {env: .a, b: .[1:2]}' src/config
        gh pr list --json number --jq '.[].number'
        docker inspect --format '{{.State.Status}} {{json .NetworkSettings.Ports}}' web
        docker compose config --services
        docker top web
        systemctl show -p MainPID ssh
        ps aux",
        &world,
        &context,
    );
}

/// Causes 2 and 6: settings that hold passwords are not shown, wherever they are.
#[test]
fn settings_with_passwords_are_not_shown() {
    let world = world();
    let context = world.context();
    let shown = "git remote -v
        git remote get-url origin
        git config --list
        git config -l --show-origin
        git config list
        git config --get-regexp .
        git config --get remote.origin.url
        git config get --all http.extraheader
        git config --get-urlmatch http https://example.com
        git var -l
        timeout 5 git remote -v
        git --no-pager config -l | head -3
        cd src && git remote -v";
    let read = "cat .git/config
        grep url .git/config
        grep -r url .git
        find .git -name config -exec cat {} +
        cat .git/c*
        while read l; do echo $l; done < .git/config
        cd .git && cat config";
    all_are("allow", shown, &world, &context);
    all_are("allow", read, &world, &context);
    git(
        &world.project(),
        &[
            "remote",
            "add",
            "origin",
            "https://me:word@example.com/x.git",
        ],
    );
    none_is(&["allow"], shown, &world, &context);
    none_is(&["allow"], read, &world, &context);
    all_are(
        "allow",
        "git config user.name
        git remote
        git status
        npm config get registry
        yarn config get registry",
        &world,
        &context,
    );
    none_is(
        &["allow"],
        "yarn config get npmAuthToken
        yarn config get npmScopes
        yarn config list
        pnpm config list
        pnpm config get _authToken
        npm config get _auth
        npm config get https-proxy
        pip config list
        pip config get global.index-url
        git show HE*
        git show src/*
        git cat-file -p src/*",
        &world,
        &context,
    );
}

/// Cause 4: dangers behind other programs, and targets that can't be known, ask in every mode.
#[test]
fn dangers_ask_in_every_mode_however_they_are_wrapped() {
    let world = world();
    let mut context = world.context();
    add_rule(
        &mut context,
        Behavior::Allow,
        "Bash",
        RuleSource::UserSettings,
    );
    for mode in [
        PermissionMode::BypassPermissions,
        PermissionMode::AcceptEdits,
        PermissionMode::Default,
    ] {
        context.mode = mode;
        all_are("hard", include_str!("causes/dangers.txt"), &world, &context);
        all_are("hard", include_str!("causes/wrapped.txt"), &world, &context);
    }
    context.mode = PermissionMode::BypassPermissions;
    all_are(
        "allow",
        "rm -rf target
        rm -r build/*.o
        find . -name '*.o' -delete
        find target -type f -name '*.d' | xargs rm
        chmod -R u+w .
        chmod +x script.sh
        rsync -a --delete src/ backup/
        tar xf archive.tar -C out
        python3 -c 'print(\"rm -rf is bad\")'
        python3 -c 'import shutil; shutil.rmtree(\"build\")'
        node -e 'console.log(1)'
        git commit -m 'rm -rf ~ is bad'
        git config user.email a@b
        git config pull.rebase false
        git config alias.co checkout
        bash script.sh
        make test
        npm test -- --grep 'removes files'
        docker run --rm image ls
        echo 'rm -rf ~' > notes.txt
        cat > script.sh <<'E'\\nrm -rf build\\nE
        smartctl -a /dev/sda",
        &world,
        &context,
    );
    all_are(
        "allow",
        include_str!("causes/ordinary.txt"),
        &world,
        &context,
    );
}

/// Cause 4: links lead to what they lead to, those that the same command makes among them.
#[test]
fn dangers_behind_links_ask_in_every_mode() {
    let world = world();
    let project = world.project();
    let home = world.home();
    for (target, name) in [
        (home.as_path(), "home-link"),
        (&home.join(".bashrc"), "rc-link"),
        (Path::new("/"), "root-link"),
        (Path::new("/dev/sda"), "disk-link"),
        (&project, "project-link"),
    ] {
        std::os::unix::fs::symlink(target, project.join(name)).unwrap();
    }
    let mut context = world.context();
    add_rule(
        &mut context,
        Behavior::Allow,
        "Bash",
        RuleSource::UserSettings,
    );
    for mode in [PermissionMode::BypassPermissions, PermissionMode::Default] {
        context.mode = mode;
        all_are("hard", include_str!("causes/links.txt"), &world, &context);
    }
    context.mode = PermissionMode::BypassPermissions;
    all_are(
        "allow",
        "ln -s src/main.rs l; cat l
        ln -s src l; rm -rf l/old
        ln -sfn ../other/x current; ls current
        ln -s target/release/x bin; rm -rf build
        mkdir -p out; ln -s ../src out/src; rm -rf target
        mv src/main.rs src/lib.rs; rm -rf src/old
        cp -r src copy; rm -rf copy
        mv link-in b; cat b
        chmod -R u+w out
        tar xf a.tar -C out
        git -C src clean -fd
        git clone -c user.name=me https://example.com/x
        find folder-out/ -name '*.o' -delete
        bash -c 'cd src && rm -rf old'
        python3 -c 'import os; os.symlink(\"a\", \"b\")'; rm -rf src",
        &world,
        &context,
    );
}

/// Cause 4: links that an archive, a checkout or a copy brings are there by the time the same command goes through them.
#[test]
fn dangers_behind_links_that_the_command_brings_ask_in_every_mode() {
    let world = world();
    let project = world.project();
    std::fs::create_dir(project.join("linked")).unwrap();
    std::os::unix::fs::symlink(world.home(), project.join("linked/l")).unwrap();
    let mut context = world.context();
    add_rule(
        &mut context,
        Behavior::Allow,
        "Bash",
        RuleSource::UserSettings,
    );
    for mode in [PermissionMode::BypassPermissions, PermissionMode::Default] {
        context.mode = mode;
        all_are("hard", include_str!("causes/brought.txt"), &world, &context);
    }
    context.mode = PermissionMode::BypassPermissions;
    all_are(
        "allow",
        include_str!("causes/brought_quiet.txt"),
        &world,
        &context,
    );
    // A rule that spells the command out was made by someone who saw it.
    add_rule(
        &mut context,
        Behavior::Allow,
        "Bash(tar xf a.tar; rm -rf l/x)",
        RuleSource::UserSettings,
    );
    all_are("allow", "tar xf a.tar; rm -rf l/x", &world, &context);
}

/// Causes 4 and 7: what a rule closes, or a secret, stays so in code, behind links and as a name that is read: a rule
/// for every command and bypassPermissions don't open it.
#[test]
fn rules_for_reading_see_through_code_links_and_input() {
    let world = world();
    let mut context = world.context();
    add_rule(
        &mut context,
        Behavior::Allow,
        "Bash",
        RuleSource::UserSettings,
    );
    let readers = "python3 -c 'print(open(\".env\").read())'
        node -e 'console.log(require(\"fs\").readFileSync(\"./.env\"))'
        perl -e 'open F, \".env\"; print <F>'
        ruby -e 'puts File.read(\".env\")'
        python3 - <<'E'\\nprint(open(\".env\").read())\\nE
        awk 'BEGIN { while ((getline l < \".env\") > 0) print l }'
        sed -n 'r .env' src/main.rs
        sed 'r.env' src/main.rs
        docker run -v ./.env:/x alpine cat /x
        xargs cat <<< .env
        echo .env | xargs cat
        ln .env made
        link .env made
        bash -c 'cat .env'";
    none_is(&["allow"], readers, &world, &context);
    let others = "echo .env >> .gitignore
        printf '.env' >> .gitignore
        git commit -m 'ignore .env'
        python3 -c 'print(\".env is ignored\")'
        ln src/main.rs made";
    all_are("allow", others, &world, &context);
    add_rule(
        &mut context,
        Behavior::Deny,
        "Read(.env)",
        RuleSource::UserSettings,
    );
    context.mode = PermissionMode::BypassPermissions;
    all_are("deny", readers, &world, &context);
    all_are("allow", others, &world, &context);
}

/// Cause 4: a deny rule sees through whatever runs a command, however the command is written.
#[test]
fn a_denied_program_passes_in_no_disguise() {
    let world = world();
    let mut context = world.context();
    context.mode = PermissionMode::BypassPermissions;
    for (behavior, rule) in [(Behavior::Allow, "Bash"), (Behavior::Deny, "Bash(frob:*)")] {
        add_rule(&mut context, behavior, rule, RuleSource::UserSettings);
    }
    none_is(
        &["allow"],
        include_str!("causes/denied.txt"),
        &world,
        &context,
    );
    all_are(
        "allow",
        "git commit -m 'frob x'
        gh pr create -b 'frob x'
        sed -i s/frob/x/ src/main.rs
        grep frob src/main.rs
        echo frob > notes.txt",
        &world,
        &context,
    );
}

/// Causes 1, 2 and 14: where edits pass, files that name programs, secrets, links and what lies outside still ask.
#[test]
fn edits_that_pass_touch_only_ordinary_files() {
    let world = world();
    let mut context = world.context();
    for mode in [PermissionMode::AcceptEdits, PermissionMode::Auto] {
        context.mode = mode;
        none_is(
            &["allow"],
            include_str!("causes/edits.txt"),
            &world,
            &context,
        );
        all_are(
            "allow",
            "mkdir -p docs/new
            touch src/new.rs
            cp src/main.rs src/copy.rs
            cp -r src backup
            mv src/main.rs src/lib.rs
            rm src/config
            sed -i s/a/b/ src/main.rs
            echo x > notes.txt",
            &world,
            &context,
        );
    }
}

/// Causes 2 and 14: a folder that is copied or moved takes along what a rule closes.
#[test]
fn a_copy_of_a_folder_is_a_read_of_its_files() {
    let world = world();
    let mut context = world.context();
    context.mode = PermissionMode::AcceptEdits;
    add_rule(
        &mut context,
        Behavior::Deny,
        "Read(src/config)",
        RuleSource::UserSettings,
    );
    none_is(
        &["allow"],
        "cp -r src copy
        cp -a src/. copy
        cp -R ./src copy
        mv src copy
        cp src/* copy
        cp -r . ../copy
        cp -r . copy",
        &world,
        &context,
    );
}

/// Cause 14: a copy that follows links reads what they lead to.
#[test]
fn copies_through_links_are_reads_of_their_targets() {
    let world = World::new();
    let mut context = world.context();
    let folder = world.project().join("linked");
    std::fs::create_dir(&folder).unwrap();
    std::os::unix::fs::symlink("../.env", folder.join("a")).unwrap();
    std::os::unix::fs::symlink("../../other/x", folder.join("b")).unwrap();
    for mode in [PermissionMode::AcceptEdits, PermissionMode::Auto] {
        context.mode = mode;
        none_is(
            &["allow"],
            "cp -rL linked copy
            cp -L linked/a copy
            cp --dereference -r linked copy
            cp -Lr linked copy
            cp linked/a copy
            cp linked/* .
            cp link-env copy
            cp -H link-env copy
            cp link-out copy
            cp folder-out/x copy
            cp -r folder-out/. copy
            rsync -aL linked/ copy
            rsync --copy-links -r linked copy
            tar -chf copy.tar linked
            tar --dereference -cf copy.tar linked
            tar chf copy.tar linked
            zip -r copy.zip linked
            install linked/a copy
            dd if=linked/a of=copy
            cat linked/b > copy",
            &world,
            &context,
        );
    }
}
