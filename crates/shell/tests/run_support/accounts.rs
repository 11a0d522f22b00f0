//! A user with a password, in files of accounts that only the processes of a test see.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) struct Accounts {
    folder: tempfile::TempDir,
    pub(crate) user: &'static str,
}

pub(crate) struct SshServer {
    process: Child,
    pub(crate) port: u16,
}

impl Drop for SshServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

const ID: &str = "54321";

impl Accounts {
    pub(crate) fn new(password: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let hashed = Command::new("openssl")
            .args(["passwd", "-6", password])
            .output()
            .unwrap();
        let hashed = String::from_utf8(hashed.stdout).unwrap();
        let known = std::fs::read_to_string("/etc/passwd").unwrap();
        let write = |name: &str, text: String| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(match name {
                "passwd" => 0o644,
                _ => 0o440,
            });
            std::fs::set_permissions(path, mode).unwrap();
        };
        let entry = format!("lathetest:x:{ID}:{ID}::/tmp:/bin/sh");
        write("passwd", format!("{}\n{entry}\n", known.trim_end()));
        write(
            "shadow",
            format!(
                "lathetest:{}:19000:0:99999:7:::\nroot:*:19000::::::\n",
                hashed.trim()
            ),
        );
        write(
            "sudoers",
            "lathetest ALL=(ALL) ALL\nDefaults timestamp_timeout=0\n".to_owned(),
        );
        Self {
            folder,
            user: "lathetest",
        }
    }

    /// Runs words as root where the files are seen.
    fn inside(&self, words: &str) -> String {
        let folder = self.folder.path().display();
        let mounts: Vec<String> = ["passwd", "shadow", "sudoers"]
            .iter()
            .map(|name| {
                format!("chown root:root {folder}/{name}; mount --bind {folder}/{name} /etc/{name}")
            })
            .collect();
        // Where the tests don't run as root they need one who becomes root without a password, as on build machines.
        let root = if nix::unistd::geteuid().is_root() {
            ""
        } else {
            "sudo -n "
        };
        let script = format!("{} && exec {words}", mounts.join(" && "));
        format!("{root}unshare -m --propagation private sh -c '{script}'")
    }

    /// A command line that runs words as the user.
    pub(crate) fn as_user(&self, words: &str) -> String {
        self.inside(&format!(
            "setpriv --reuid {ID} --regid {ID} --clear-groups {words}"
        ))
    }

    /// A server for ssh on this machine that asks for the password.
    pub(crate) fn ssh_server(&self) -> SshServer {
        let key = self.folder.path().join("host");
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
            .arg(&key)
            .status();
        assert!(made.unwrap().success());
        let _ = std::fs::create_dir_all("/run/sshd");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let config: PathBuf = self.folder.path().join("config");
        let text = format!(
            "ListenAddress 127.0.0.1\nPort {port}\nHostKey {}\nPidFile none\nStrictModes no\nUsePAM no\n\
             PasswordAuthentication yes\nKbdInteractiveAuthentication no\nPrintMotd no\nPrintLastLog no\n",
            key.display()
        );
        std::fs::write(&config, text).unwrap();
        let command = self.inside(&format!("/usr/sbin/sshd -D -e -f {}", config.display()));
        let process = Command::new("sh")
            .args(["-c", &format!("exec {command}")])
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("sshd: {error}; run scripts/setup-tests"));
        let start = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "sshd never listened"
            );
            std::thread::yield_now();
        }
        SshServer { process, port }
    }
}
