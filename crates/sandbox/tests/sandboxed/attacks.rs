//! Attacks on the sandbox. Each is a script that succeeds outside of it, if that can be tried, and fails inside.

use crate::attack_cases::{Case, LIMITS_OF_LANDLOCK, cases};
use crate::support::{Place, TIERS, User, text, users};
use std::io::Read as _;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::{Child, Command, Stdio};

/// The targets of attacks on the outside.
struct Targets {
    tcp: TcpListener,
    udp: UdpSocket,
    _unix: UnixListener,
    _abstract: UnixListener,
    name: String,
    victim: Child,
}

impl Targets {
    fn new(place: &Place) -> Self {
        let socket = place.path("out/socket");
        let _ = std::fs::remove_file(&socket);
        let unix = UnixListener::bind(&socket).unwrap();
        std::fs::set_permissions(&socket, std::os::unix::fs::PermissionsExt::from_mode(0o777))
            .unwrap();
        let name = format!("lathe-test{}", place.base.display());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let mut victim = place.command("/bin/sleep");
        victim
            .arg("600")
            .env("SECRET", "VICTIM-SECRET")
            .stdout(Stdio::null());
        Self {
            tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            udp: UdpSocket::bind("127.0.0.1:0").unwrap(),
            _unix: unix,
            _abstract: UnixListener::bind_addr(&address).unwrap(),
            name,
            victim: victim.spawn().unwrap(),
        }
    }

    fn aim(&self, command: &mut Command) {
        command
            .env("TCP", self.tcp.local_addr().unwrap().port().to_string())
            .env("UDP", self.udp.local_addr().unwrap().port().to_string())
            .env("ABSTRACT", &self.name)
            .env("VICTIM", self.victim.id().to_string());
    }
}

impl Drop for Targets {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
    }
}

/// One script that tries all cases, and prints the names of those that succeeded.
fn script(cases: &[&Case]) -> String {
    let mut script =
        String::from("py() { /usr/bin/python3 -I -c \"$1\"; }; export -f py\nexport PRELUDE='\n");
    script.push_str(crate::attack_cases::PRELUDE);
    script.push_str("'\n");
    for case in cases {
        let body = case.script.replace('\'', r"'\''");
        script.push_str(&format!(
            "cd $WS; timeout -k 1 20 /bin/bash -c '{body}' </dev/null >/dev/null 2>&1 && echo SUCCEEDED {}\n",
            case.name
        ));
    }
    script.push_str("echo ALL-TRIED\n");
    script
}

fn succeeded(output: &str) -> Vec<&str> {
    assert!(
        output.contains("ALL-TRIED"),
        "the script was cut short: {output}"
    );
    let lines = output.lines();
    lines
        .filter_map(|line| line.strip_prefix("SUCCEEDED "))
        .collect()
}

fn attack(user: User, tier: &str) -> Vec<String> {
    attack_with(user, tier, &[])
}

/// All attacks; these files in the home folder are hidden too.
fn attack_with(user: User, tier: &str, hidden: &[String]) -> Vec<String> {
    let place = Place::new(user);
    let targets = Targets::new(&place);
    let cases = cases();
    let mut options: Vec<String> = Vec::new();
    for name in hidden {
        let path = place.path("home").join(name);
        std::fs::write(&path, "x").unwrap();
        options.extend(["--hide".to_owned(), path.display().to_string()]);
    }
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let mut command = place.sandboxed(tier, &options);
    targets.aim(&mut command);
    // An open folder that a careless parent leaks.
    let leaked = std::fs::File::open("/").unwrap();
    leak(&mut command, &leaked);
    let output = command
        .args(["/bin/bash", "-c", &script(&cases)])
        .output()
        .unwrap();
    let all = text(&output);
    let found = succeeded(&all).into_iter().map(str::to_owned).collect();
    assert_eq!(
        std::fs::read_to_string(place.path("out/file")).unwrap(),
        "outside\n",
        "{user:?} {tier}"
    );
    let left: Vec<_> = std::fs::read_dir(place.path("out"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left.len(), 3, "{user:?} {tier}: {left:?}");
    if tier != "landlock" {
        let hooks = std::fs::read_dir(place.path("ws/.git/hooks")).unwrap();
        assert!(
            hooks
                .flatten()
                .all(|entry| entry.file_name() != "pre-commit"),
            "{user:?} {tier}"
        );
    }
    found
}

fn leak(command: &mut Command, file: &std::fs::File) {
    use std::os::fd::AsRawFd;
    use std::os::unix::process::CommandExt;
    let number = file.as_raw_fd();
    // SAFETY: duplicates a descriptor between fork and exec; plain system calls.
    unsafe {
        command.pre_exec(move || {
            if libc::dup2(number, 77) < 0 {
                return Err(std::io::Error::last_os_error());
            }
            Ok(())
        });
    }
}

#[test]
fn there_are_enough_attacks() {
    let cases = cases();
    assert!(cases.len() >= 150, "{}", cases.len());
    let mut names: Vec<&str> = cases.iter().map(|case| case.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), cases.len(), "two cases have one name");
}

#[test]
fn attacks_that_can_be_tried_outside_succeed_there() {
    let user = *users().last().unwrap();
    let cases: Vec<&Case> = cases().into_iter().filter(|case| case.control).collect();
    assert!(cases.len() >= 80, "{}", cases.len());
    // Each in a place of its own: they are meant to do damage.
    let failed: Vec<&str> = cases
        .iter()
        .filter(|case| {
            let place = Place::new(user);
            let targets = Targets::new(&place);
            let mut command = place.command("/bin/bash");
            targets.aim(&mut command);
            let output = command.args(["-c", &script(&[case])]).output().unwrap();
            succeeded(&text(&output)).is_empty()
        })
        .map(|case| case.name)
        .collect();
    assert!(
        failed.is_empty(),
        "these prove nothing, they fail without a sandbox too: {failed:?}"
    );
}

#[test]
fn no_attack_succeeds_where_there_are_namespaces() {
    for user in users() {
        for tier in ["bubblewrap", "namespaces"] {
            let found = attack(user, tier);
            assert!(found.is_empty(), "{user:?} in {tier}: {found:?}");
        }
    }
}

/// More mounts than the small helper makes: bubblewrap makes them, as it does where it keeps its rights to itself.
#[test]
fn no_attack_succeeds_where_bubblewrap_makes_the_mounts() {
    let hidden: Vec<String> = (0..260).map(|number| format!("secret-{number}")).collect();
    for user in users() {
        let found = attack_with(user, "bubblewrap", &hidden);
        assert!(found.is_empty(), "{user:?}: {found:?}");
    }
}

#[test]
fn a_command_with_a_terminal_finds_its_name() {
    let script =
        "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";
    for user in users() {
        let place = Place::new(user);
        let mut words = place.words("bubblewrap");
        words.extend(["--terminal", "--", "/usr/bin/tty"].map(Into::into));
        let output = place
            .command("/usr/bin/python3")
            .args(["-I", "-c", script])
            .args(words)
            .output()
            .unwrap();
        assert!(text(&output).contains("/dev/console"), "{}", text(&output));
        assert!(output.status.success(), "{}", text(&output));
    }
}

#[test]
fn without_namespaces_only_the_known_attacks_succeed() {
    for user in users() {
        let mut found = attack(user, "landlock");
        found.sort();
        let unknown: Vec<&String> = found
            .iter()
            .filter(|name| !LIMITS_OF_LANDLOCK.contains(&name.as_str()))
            .collect();
        assert!(unknown.is_empty(), "{user:?}: {unknown:?}");
        assert!(
            !found.is_empty(),
            "the limits that the documentation names are gone"
        );
    }
}

#[test]
fn root_in_other_peoples_folders_gets_no_further() {
    if !users().contains(&User::Root) {
        return;
    }
    // The workspace belongs to somebody else, so root keeps the right to use it.
    let place = Place::new(User::Other(31_337));
    let mut root = place;
    root.user = User::Root;
    for tier in ["bubblewrap", "namespaces"] {
        let output = root.run(tier, "echo mine > $WS/new && cat $WS/new && rm $WS/new");
        assert!(output.status.success(), "{tier}: {}", text(&output));
        let targets = Targets::new(&root);
        let cases = cases();
        let mut command = root.sandboxed(tier, &[]);
        targets.aim(&mut command);
        let output = command
            .args(["/bin/bash", "-c", &script(&cases)])
            .output()
            .unwrap();
        let all = text(&output);
        let found = succeeded(&all);
        assert!(found.is_empty(), "{tier}: {found:?}");
    }
}

#[test]
fn a_kill_of_everything_reaches_nothing_outside() {
    for user in users() {
        for tier in TIERS {
            let place = Place::new(user);
            let mut targets = Targets::new(&place);
            let mut command = place.sandboxed(tier, &[]);
            targets.aim(&mut command);
            let _ = command
                .args(["/bin/bash", "-c", "kill -9 $VICTIM; kill -9 -1; echo alive"])
                .output()
                .unwrap();
            assert!(
                targets.victim.try_wait().unwrap().is_none(),
                "{user:?} {tier}"
            );
        }
    }
}

#[test]
fn a_fork_bomb_ends_with_its_command() {
    for user in users() {
        if user == User::Root {
            // The kernel doesn't count root's processes: its commands end by their time limit.
            continue;
        }
        let place = Place::new(user);
        for tier in ["bubblewrap", "namespaces"] {
            let script = "bomb() { bomb | bomb & }; bomb 2>/dev/null; sleep 0.3; ls /proc | grep -c '^[0-9]'";
            let output = place
                .sandboxed(tier, &["--processes", "50"])
                .args(["/bin/bash", "-c", script])
                .output()
                .unwrap();
            let count: usize = text(&output)
                .lines()
                .filter_map(|line| line.trim().parse().ok())
                .next_back()
                .unwrap_or(0);
            assert!(count <= 60, "{user:?} {tier}: {count} processes");
        }
    }
}

#[test]
fn a_file_stays_below_its_limit() {
    for user in users() {
        let place = Place::new(user);
        for tier in TIERS {
            let script = "head -c 3000000 /dev/zero > big; stat -c %s big";
            let output = place
                .sandboxed(tier, &["--file-size", "1000000"])
                .args(["/bin/bash", "-c", script])
                .output()
                .unwrap();
            let size: u64 = text(&output)
                .lines()
                .filter_map(|line| line.trim().parse().ok())
                .next_back()
                .unwrap_or(0);
            assert_eq!(size, 1_000_000, "{user:?} {tier}: {}", text(&output));
        }
    }
}

#[test]
fn nothing_is_left_after_success_failure_and_a_kill() {
    for user in users() {
        for tier in ["bubblewrap", "namespaces"] {
            let place = Place::new(user);
            let stubs = ["ws/.lathe", "ws/.mcp.json", "ws/.git/commondir"];
            let none_left = |when: &str| {
                for stub in stubs {
                    assert!(
                        !place.path(stub).exists(),
                        "{user:?} {tier} {when}: {stub} is left"
                    );
                }
            };
            assert!(place.run(tier, "true").status.success());
            none_left("after success");
            assert!(!place.run(tier, "exit 3").status.success());
            none_left("after failure");
            // Killed outright while a command runs: the processes go, and the next one removes the rest.
            let mut child = place
                .sandboxed(tier, &[])
                .args(["/bin/bash", "-c", "echo started; exec sleep 987654"])
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut started = [0; 8];
            child
                .stdout
                .as_mut()
                .unwrap()
                .read_exact(&mut started)
                .unwrap();
            assert!(place.path("ws/.lathe").exists());
            child.kill().unwrap();
            child.wait().unwrap();
            let mut rest = Vec::new();
            // The pipe ends when the last process that holds it is gone.
            child.stdout.take().unwrap().read_to_end(&mut rest).unwrap();
            assert!(place.run(tier, "git status --short").status.success());
            none_left("after a kill");
            let left: Vec<_> = std::fs::read_dir(place.path("state")).unwrap().collect();
            assert!(left.is_empty(), "{user:?} {tier}: {left:?}");
            assert!(!mounted(&place), "{user:?} {tier}");
        }
    }
}

fn mounted(place: &Place) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    mounts.contains(&place.base.display().to_string())
}
