//! Daily work, which must go on in the sandbox.

use crate::support::{Place, TIERS, text, users};

/// A piece of work: a name, in which tiers it can't be done (and the documentation says so), and a script.
struct Work {
    name: &'static str,
    not_in: &'static [&'static str],
    script: &'static str,
}

const fn work(name: &'static str, script: &'static str) -> Work {
    Work {
        name,
        not_in: &[],
        script,
    }
}

/// Work that needs what Landlock alone doesn't give.
const fn needs_namespaces(name: &'static str, script: &'static str) -> Work {
    Work {
        name,
        not_in: &["landlock"],
        script,
    }
}

const ALL: &[Work] = &[
    work(
        "files are made, changed and removed",
        "echo a > a && echo b >> a && sed -i s/a/c/ a && grep -q c a && mv a b && cp b c && rm b c",
    ),
    work(
        "folders are made and removed",
        "mkdir -p x/y/z && touch x/y/z/f && rm -r x",
    ),
    work(
        "links are made",
        "ln -s file l && cat l && ln file h && rm l h",
    ),
    work(
        "permissions are set",
        "touch s && chmod 755 s && test -x s && chmod 600 s && rm s",
    ),
    work(
        "times are set",
        "touch -d 2001-01-01 t && test $(stat -c %Y t) -lt 1000000000 && rm t",
    ),
    work(
        "extended attributes are set",
        "touch e && /usr/bin/python3 -c 'import os; os.setxattr(\"e\", \"user.a\", b\"b\")' && rm e",
    ),
    work(
        "a scratch file in /tmp or TMPDIR",
        "f=$(mktemp) && echo x > $f && cat $f && rm $f",
    ),
    work(
        "the home folder is read",
        "cat $HOME/.bashrc && cat $HOME/.cargo/registry/crate",
    ),
    work(
        "the system is read",
        "cat /etc/passwd && ls /usr/bin > /dev/null && uname -a && id && hostname",
    ),
    work(
        "processes are listed",
        "ps aux > /dev/null && ls /proc/self/fd > /dev/null",
    ),
    work(
        "pipes and jobs",
        "seq 1000 | sort -rn | head -1 && (sleep 0.01 & wait) && echo done",
    ),
    work(
        "here-documents and process substitution",
        "cat <(echo a) - <<< b && diff <(echo a) <(echo a)",
    ),
    work(
        "signals",
        "bash -c 'trap \"exit 3\" TERM; kill -TERM $$'; test $? = 3",
    ),
    work("exit codes", "bash -c 'exit 7'; test $? = 7"),
    work(
        "git status and diff",
        "git status --short && echo x >> file && git diff --stat && git checkout -q file",
    ),
    work(
        "git commit",
        "echo two > two && git add two && git commit -qm two && git log --oneline | grep -q two",
    ),
    work(
        "git branch and switch",
        "git branch side && git switch -q side && git switch -q main && git branch -D side",
    ),
    work(
        "git merge",
        "git switch -qc m1 && echo m > m && git add m && git commit -qm m && git switch -q main && git merge -q m1 && git branch -d m1",
    ),
    work(
        "git rebase",
        "git switch -qc r1 && echo r > r && git add r && git commit -qm r && git switch -q main && echo q > q && git add q && git commit -qm q && git switch -q r1 && git rebase -q main && git switch -q main",
    ),
    work(
        "git stash",
        "echo s >> file && git stash -q && git stash pop -q && git checkout -q file",
    ),
    work("git tag", "git tag v1 && git tag | grep -q v1"),
    work(
        "git worktree",
        "git worktree add -q tree -b tree && (cd tree && echo w > w && git add w && git commit -qm w) && git worktree remove tree",
    ),
    work(
        "git reset and clean",
        "echo x > untracked && git clean -qfd -e .claude -e .lathe -e .mcp.json && git reset -q --hard HEAD",
    ),
    work("git gc and fsck", "git gc -q && git fsck --no-progress"),
    work(
        "git reflog and bisect",
        "git reflog > /dev/null && git rev-parse --git-dir --git-common-dir --show-toplevel",
    ),
    work(
        "git cherry-pick and revert",
        "git switch -qc c1 && echo c > c && git add c && git commit -qm c && git switch -q main && git cherry-pick c1 && git revert --no-edit HEAD",
    ),
    work(
        "git apply",
        "echo p >> file && git diff > p.patch && git checkout -q file && git apply p.patch && git checkout -q file && rm p.patch",
    ),
    work(
        "git archive and show",
        "git archive HEAD | tar -t > /dev/null && git show HEAD > /dev/null && git blame file > /dev/null",
    ),
    work(
        "a C program",
        "printf '#include <stdio.h>\\nint main(void){puts(\"hi\");return 0;}' > a.c && gcc a.c -o a.out && ./a.out | grep -q hi",
    ),
    work(
        "make -j",
        "printf 'all: a b c d\\na b c d:\\n\\tsleep 0.01; touch $@\\n' > Makefile && make -sj4 && test -e d && make -s",
    ),
    work(
        "python",
        "/usr/bin/python3 -c 'import json,sqlite3,ssl,subprocess; print(subprocess.check_output([\"echo\",\"x\"]))'",
    ),
    work(
        "python modules are compiled",
        "mkdir -p pk && echo 'x=1' > pk/__init__.py && /usr/bin/python3 -c 'import pk' && ls pk/__pycache__",
    ),
    work(
        "python threads",
        "/usr/bin/python3 -c 'import concurrent.futures as f; print(sum(f.ThreadPoolExecutor(8).map(lambda x:x, range(100))))'",
    ),
    work(
        "python multiprocessing",
        "printf 'import multiprocessing as m\\ndef f(x):\\n    return x*x\\nif __name__==\"__main__\":\\n    with m.Pool(3) as p:\\n        assert sum(p.map(f, range(10)))==285\\n' > mp.py && /usr/bin/python3 mp.py",
    ),
    work(
        "python shared memory and locks",
        "/usr/bin/python3 -c 'from multiprocessing import shared_memory, Lock; l=Lock(); s=shared_memory.SharedMemory(create=True,size=10); s.buf[0]=1; s.close(); s.unlink()'",
    ),
    work(
        "python asyncio",
        "/usr/bin/python3 -c 'import asyncio; asyncio.run(asyncio.sleep(0))'",
    ),
    work(
        "a test runner",
        "printf 'import unittest\\nclass T(unittest.TestCase):\\n    def test_a(self):\\n        self.assertEqual(1,1)\\n' > test_a.py && /usr/bin/python3 -m unittest -q test_a",
    ),
    work(
        "a virtual environment",
        "/usr/bin/python3 -m venv --without-pip v && v/bin/python -c 'import sys; print(sys.prefix)'",
    ),
    work(
        "node",
        "node -e 'require(\"fs\").writeFileSync(\"n\",\"x\"); console.log(require(\"os\").cpus().length)'",
    ),
    work(
        "node workers and children",
        "node -e 'const {Worker}=require(\"worker_threads\"); new Worker(\"process.exit(0)\",{eval:true}).on(\"exit\",()=>{console.log(require(\"child_process\").execSync(\"echo c\").toString())})'",
    ),
    work(
        "node interfaces",
        "node -e 'try { require(\"os\").networkInterfaces() } catch (e) { process.exit(0) }'",
    ),
    work(
        "npm installs a local package",
        "mkdir -p lib app && echo '{\"name\":\"lib\",\"version\":\"1.0.0\"}' > lib/package.json && echo '{\"name\":\"app\",\"version\":\"1.0.0\"}' > app/package.json && cd app && npm install --offline --no-audit --no-fund ../lib && test -e node_modules/lib",
    ),
    work(
        "npm run",
        "mkdir -p run && echo '{\"name\":\"r\",\"version\":\"1.0.0\",\"scripts\":{\"x\":\"echo ran > out\"}}' > run/package.json && cd run && npm run -s x && grep -q ran out",
    ),
    work(
        "sqlite",
        "/usr/bin/python3 -c 'import sqlite3; d=sqlite3.connect(\"d.db\"); d.execute(\"pragma journal_mode=wal\"); d.execute(\"create table t(a)\"); d.execute(\"insert into t values(1)\"); d.commit()'",
    ),
    work(
        "tar and gzip",
        "tar -czf t.tgz file && mkdir -p ex && tar -xzf t.tgz -C ex && cmp file ex/file",
    ),
    work(
        "find, xargs and grep",
        "find . -name file | xargs grep -q one",
    ),
    work(
        "awk, sed, sort, uniq, diff, patch",
        "printf 'a\\nb\\n' > o && printf 'a\\nc\\n' > n && (diff -u o n > d || true) && patch -s o d && cmp o n",
    ),
    work("locks", "flock lockfile true"),
    work(
        "large files",
        "dd if=/dev/zero of=big bs=1M count=32 status=none && rm big",
    ),
    work(
        "memory maps",
        "/usr/bin/python3 -c 'import mmap; m=mmap.mmap(-1, 1<<26); m[0]=1'",
    ),
    needs_namespaces(
        "a server on the loopback",
        "/usr/bin/python3 -m http.server -b 127.0.0.1 8123 >/dev/null 2>&1 & p=$!; for i in $(seq 100); do /usr/bin/python3 -c 'import urllib.request as u; u.build_opener(u.ProxyHandler({})).open(\"http://127.0.0.1:8123/file\").read()' 2>/dev/null && kill $p && exit 0; done; exit 1",
    ),
    needs_namespaces(
        "node serves the loopback",
        "node -e 'const s=require(\"http\").createServer((q,r)=>r.end(\"ok\")).listen(0,()=>require(\"http\").get({port:s.address().port},r=>{r.on(\"data\",d=>{console.log(d.toString());s.close()})}))'",
    ),
    needs_namespaces(
        "a terminal",
        "/usr/bin/python3 -c 'import pty,sys; sys.exit(pty.spawn([\"/bin/echo\",\"x\"]))'",
    ),
    needs_namespaces(
        "script records a session",
        "script -qec 'echo x' /dev/null | grep -q x",
    ),
    needs_namespaces(
        "shared memory of the system",
        "/usr/bin/python3 -c 'import ctypes; l=ctypes.CDLL(None); raise SystemExit(0 if l.shmget(0,4096,0o1600)>=0 else 1)'",
    ),
    needs_namespaces(
        "caches of tools are written",
        "echo x > $HOME/.npm/x && mkdir -p $HOME/.cache/tool && echo y > $HOME/.cache/tool/y && echo z >> $HOME/.cargo/registry/crate && grep -q crate $HOME/.cargo/registry/crate && grep -q z $HOME/.cargo/registry/crate",
    ),
];

#[test]
fn there_is_enough_work() {
    assert!(ALL.len() >= 45, "{}", ALL.len());
}

#[test]
fn daily_work_goes_on() {
    for user in users() {
        for tier in TIERS {
            let place = Place::new(user);
            let mut script = String::new();
            for work in ALL.iter().filter(|work| !work.not_in.contains(&tier)) {
                let body = work.script.replace('\'', r"'\''");
                script.push_str(&format!(
                    "cd $WS; out=$(timeout 60 /bin/bash -c '{body}' 2>&1) || echo \"FAILED {}: $out\"\n",
                    work.name
                ));
            }
            script.push_str("echo ALL-DONE\n");
            let output = place.run(tier, &script);
            let all = text(&output);
            assert!(all.contains("ALL-DONE"), "{user:?} {tier}: {all}");
            assert!(!all.contains("FAILED"), "{user:?} {tier}: {all}");
        }
    }
}

#[test]
fn changes_of_caches_stay_in_the_session() {
    for user in users() {
        for tier in ["bubblewrap", "namespaces"] {
            let place = Place::new(user);
            let script = "test -e $HOME/.npm/n && exit 0; echo evil > $HOME/.cargo/registry/crate; echo n > $HOME/.npm/n; exit 1";
            // The second command of the session sees what the first one wrote.
            let output = place
                .sandboxed(tier, &["--times", "2"])
                .args(["/bin/bash", "-c", script])
                .output()
                .unwrap();
            assert!(
                output.status.success(),
                "{user:?} {tier}: {}",
                text(&output)
            );
            assert_eq!(
                std::fs::read_to_string(place.path("home/.cargo/registry/crate")).unwrap(),
                "crate\n"
            );
            assert!(!place.path("home/.npm/n").exists());
        }
    }
}

#[test]
fn a_cargo_project_is_built_and_tested() {
    let Some(user) = users()
        .into_iter()
        .find(|user| *user == crate::support::User::Root)
    else {
        return;
    };
    let cargo = std::env::var_os("CARGO").unwrap();
    let home = std::env::var_os("CARGO_HOME")
        .or_else(|| {
            std::env::var_os("HOME")
                .map(|home| std::path::PathBuf::from(home).join(".cargo").into())
        })
        .unwrap();
    let place = Place::new(user);
    for tier in TIERS {
        let script = "rm -rf p && \"$CARGO\" init -q --lib --vcs none p && cd p && \"$CARGO\" test -q --offline && \"$CARGO\" build -q --offline";
        let mut command = place.sandboxed(tier, &[]);
        command.env("CARGO", &cargo).env("CARGO_HOME", &home).env(
            "RUSTUP_HOME",
            std::path::Path::new(&home)
                .parent()
                .unwrap()
                .join(".rustup"),
        );
        let path = format!(
            "{}:{}",
            std::path::Path::new(&cargo).parent().unwrap().display(),
            crate::support::SEARCH
        );
        let output = command
            .env("PATH", path)
            .args(["/bin/bash", "-c", script])
            .output()
            .unwrap();
        assert!(output.status.success(), "{tier}: {}", text(&output));
    }
}
