//! The system's keyring, used through the system's own program: `secret-tool` (Secret Service of GNOME
//! and KDE) or `security` (the keychain of macOS).
//!
//! A secret is passed by standard input and output, never as an argument, which other users could read.
//! A keyring can be locked, or wait for the user who is not there: each request has a time limit, and
//! after one failure the keyring is not used again in this process, so that a session loses a few seconds
//! at most.
#![forbid(unsafe_code)]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use lathe_process::{Command, Ending, run_blocking};
use lathe_settings::{Environment, Variable};
use parking_lot::Mutex;
use std::path::PathBuf;
use std::time::Duration;

/// The time limit of a request.
const LIMIT: Duration = Duration::from_secs(5);
/// The maximum size of a keychain entry: the program reads lines of 4,096 bytes.
const PIECE: usize = 2_048;

/// Where credentials are to be stored (`LATHE_MCP_CREDENTIALS`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StorageChoice {
    /// In the keyring if it works, else in the file.
    #[default]
    Auto,
    /// Only in the keyring.
    Keyring,
    /// In the file.
    File,
}

impl StorageChoice {
    /// Reads the environment.
    #[must_use]
    pub fn of(environment: &Environment) -> Self {
        match environment.get(Variable::McpCredentials).map(str::trim) {
            Some("keyring") => Self::Keyring,
            Some("file") => Self::File,
            _ => Self::Auto,
        }
    }
}

/// The kind of keyring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// `secret-tool`.
    SecretService,
    /// `security`.
    Keychain,
}

impl Kind {
    fn program(self) -> &'static str {
        match self {
            Self::SecretService => "secret-tool",
            Self::Keychain => "security",
        }
    }
}

/// The name of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Service {
    /// The name by which they are found.
    pub name: &'static str,
    /// The label shown in the keyring.
    pub label: &'static str,
}

/// The keyring of this machine.
#[derive(Debug)]
pub struct Keyring {
    kind: Kind,
    service: Service,
    program: PathBuf,
    environment: Environment,
    limit: Duration,
    /// Why it is not used again.
    down: Mutex<Option<KeyringError>>,
}

/// The result of a program.
struct ProgramOutput {
    code: Option<i32>,
    output: String,
    complaint: String,
}

/// Why the keyring can't be used. Cloned, because it stays so for the life of the process.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyringError {
    /// Its program is missing.
    #[error("there is no program {0}")]
    NoProgram(&'static str),
    /// There is no desktop session.
    #[error("there is no session bus (DBUS_SESSION_BUS_ADDRESS)")]
    NoSessionBus,
    /// Its program can't be started.
    #[error("{program} can't be started: {reason}")]
    Start {
        /// The program.
        program: &'static str,
        /// Why.
        reason: String,
    },
    /// It took too long.
    #[error("{program} didn't answer within {} s", .limit.as_secs_f32())]
    Timeout {
        /// The program.
        program: &'static str,
        /// The limit.
        limit: Duration,
    },
    /// It failed.
    #[error("{program} failed ({}): {message}", ending(.code))]
    Failed {
        /// The program.
        program: &'static str,
        /// `None` if a signal ended it.
        code: Option<i32>,
        /// Its output.
        message: String,
    },
    /// It stored nothing.
    #[error("{program} stored nothing{}{message}", if .message.is_empty() { "" } else { ": " })]
    NotStored {
        /// The program.
        program: &'static str,
        /// Its output.
        message: String,
    },
}

fn ending(code: &Option<i32>) -> String {
    code.map_or("a signal".to_owned(), |code| format!("exit code {code}"))
}

impl Keyring {
    /// The keyring, if this machine has one.
    ///
    /// # Errors
    /// If there is none.
    pub fn find(service: Service, environment: &Environment) -> Result<Self, KeyringError> {
        let kind = if cfg!(target_os = "macos") {
            Kind::Keychain
        } else {
            Kind::SecretService
        };
        Self::of_kind(kind, service, environment, LIMIT)
    }

    fn of_kind(
        kind: Kind,
        service: Service,
        environment: &Environment,
        limit: Duration,
    ) -> Result<Self, KeyringError> {
        let name = kind.program();
        let path = environment.foreign("PATH").unwrap_or_default();
        let program = std::env::split_paths(path)
            // A relative folder could be the project's.
            .filter(|folder| folder.is_absolute())
            .map(|folder| folder.join(name))
            .find(|file| file.is_file())
            .ok_or(KeyringError::NoProgram(name))?;
        if kind == Kind::SecretService && !has_bus(environment) {
            // Without one, the program would try to start a desktop.
            return Err(KeyringError::NoSessionBus);
        }
        Ok(Self {
            kind,
            service,
            program,
            environment: environment.clone(),
            limit,
            down: Mutex::new(None),
        })
    }

    /// The program that is asked.
    #[must_use]
    pub fn program(&self) -> &'static str {
        self.kind.program()
    }

    /// Checks that it stores a secret; a locked one still answers lookups.
    ///
    /// # Errors
    /// When it doesn't work.
    pub fn check(&self) -> Result<(), KeyringError> {
        self.set("check", "nothing")?;
        self.remove("check")
    }

    /// The secret of an account; `None` if there is none.
    ///
    /// # Errors
    /// When it doesn't work.
    pub fn get(&self, account: &str) -> Result<Option<String>, KeyringError> {
        self.guarded(|| match self.kind {
            Kind::SecretService => self.secret_tool_get(account),
            Kind::Keychain => self.keychain_get(account),
        })
    }

    /// Stores or replaces a secret.
    ///
    /// # Errors
    /// When it doesn't work.
    pub fn set(&self, account: &str, secret: &str) -> Result<(), KeyringError> {
        self.guarded(|| match self.kind {
            Kind::SecretService => self.secret_tool_set(account, secret),
            Kind::Keychain => self.keychain_set(account, secret),
        })
    }

    /// Removes a secret, if there is one.
    ///
    /// # Errors
    /// When it doesn't work.
    pub fn remove(&self, account: &str) -> Result<(), KeyringError> {
        self.guarded(|| match self.kind {
            Kind::SecretService => {
                let said = self.run(
                    &["clear", "service", self.service.name, "account", account],
                    Vec::new(),
                )?;
                self.judge(&said).map(drop)
            }
            Kind::Keychain => self.keychain_remove(account, 0),
        })
    }

    /// After one failure the keyring is not used again.
    fn guarded<T>(&self, ask: impl FnOnce() -> Result<T, KeyringError>) -> Result<T, KeyringError> {
        if let Some(reason) = &*self.down.lock() {
            return Err(reason.clone());
        }
        ask().inspect_err(|reason| *self.down.lock() = Some(reason.clone()))
    }

    fn secret_tool_get(&self, account: &str) -> Result<Option<String>, KeyringError> {
        let said = self.run(
            &["lookup", "service", self.service.name, "account", account],
            Vec::new(),
        )?;
        Ok(self.judge(&said)?.then_some(said.output))
    }

    fn secret_tool_set(&self, account: &str, secret: &str) -> Result<(), KeyringError> {
        let label = format!("--label={}", self.service.label);
        let words = [
            "store",
            &label,
            "service",
            self.service.name,
            "account",
            account,
        ];
        let said = self.run(&words, secret.as_bytes().to_vec())?;
        match self.judge(&said)? {
            true => Ok(()),
            false => Err(self.not_stored(&said)),
        }
    }

    /// False if there is no entry: `secret-tool` then exits with 1 without a message.
    fn judge(&self, said: &ProgramOutput) -> Result<bool, KeyringError> {
        let complaint = line(&said.complaint);
        match said.code {
            Some(0) => Ok(true),
            Some(1) if complaint.is_empty() => Ok(false),
            // errSecItemNotFound
            Some(44) if self.kind == Kind::Keychain => Ok(false),
            code => Err(KeyringError::Failed {
                program: self.program(),
                code,
                message: complaint,
            }),
        }
    }

    fn not_stored(&self, said: &ProgramOutput) -> KeyringError {
        KeyringError::NotStored {
            program: self.program(),
            message: line(&said.complaint),
        }
    }

    fn piece(&self, account: &str, number: usize) -> Result<Option<String>, KeyringError> {
        let account = format!("{account}.{number}");
        let words = [
            "find-generic-password",
            "-s",
            self.service.name,
            "-a",
            &account,
            "-w",
        ];
        let said = self.run(&words, Vec::new())?;
        Ok(self
            .judge(&said)?
            .then(|| said.output.trim_end_matches('\n').to_owned()))
    }

    /// Reads a secret in pieces; the first begins with their number.
    fn keychain_get(&self, account: &str) -> Result<Option<String>, KeyringError> {
        let Some(first) = self.piece(account, 0)? else {
            return Ok(None);
        };
        let Some((count, start)) = first.split_once(':') else {
            return Ok(None);
        };
        let mut encoded = start.to_owned();
        for number in 1..count.parse().unwrap_or(1) {
            // Pieces of two writers don't make a secret.
            match self.piece(account, number)? {
                Some(piece) => encoded.push_str(&piece),
                None => return Ok(None),
            }
        }
        let secret = STANDARD_NO_PAD.decode(encoded).ok();
        Ok(secret.and_then(|bytes| String::from_utf8(bytes).ok()))
    }

    fn keychain_set(&self, account: &str, secret: &str) -> Result<(), KeyringError> {
        let encoded = STANDARD_NO_PAD.encode(secret);
        let service = self.service.name;
        let pieces: Vec<&str> = encoded
            .as_bytes()
            .chunks(PIECE)
            .filter_map(|piece| std::str::from_utf8(piece).ok())
            .collect();
        let mut commands = String::new();
        for (number, piece) in pieces.iter().enumerate() {
            let count = if number == 0 {
                format!("{}:", pieces.len())
            } else {
                String::new()
            };
            commands.push_str(&format!(
                "add-generic-password -U -s {service} -a {account}.{number} -w {count}{piece}\n"
            ));
        }
        let said = self.run(&["-i"], commands.into_bytes())?;
        self.judge(&said)?;
        // In interactive mode it always exits with 0.
        if self.keychain_get(account)?.as_deref() != Some(secret) {
            return Err(self.not_stored(&said));
        }
        self.keychain_remove(account, pieces.len())
    }

    /// Removes the pieces from a number on.
    fn keychain_remove(&self, account: &str, from: usize) -> Result<(), KeyringError> {
        for number in from.. {
            let account = format!("{account}.{number}");
            let words = [
                "delete-generic-password",
                "-s",
                self.service.name,
                "-a",
                &account,
            ];
            let said = self.run(&words, Vec::new())?;
            if !self.judge(&said)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Runs the program within the time limit.
    fn run(&self, words: &[&str], input: Vec<u8>) -> Result<ProgramOutput, KeyringError> {
        let name = self.program();
        let command = Command::new(&self.program)
            .arguments(words)
            .without_inherited_environment()
            .variables(&self.environment.variables);
        let finished =
            run_blocking(command, input, self.limit).map_err(|error| KeyringError::Start {
                program: name,
                reason: error.reason().to_string(),
            })?;
        let code = match finished.ending {
            Ending::Exited(code) => Some(code),
            Ending::TimedOut => {
                return Err(KeyringError::Timeout {
                    program: name,
                    limit: self.limit,
                });
            }
            Ending::Signalled | Ending::Flooded | Ending::Cancelled => None,
        };
        Ok(ProgramOutput {
            code,
            output: finished.stdout,
            complaint: finished.stderr,
        })
    }
}

/// The first 200 characters of what a program said, as one line that is safe to show.
fn line(text: &str) -> String {
    let text: Vec<&str> = text.split_whitespace().collect();
    let text = text.join(" ");
    let shown = text.chars().filter(|letter| !letter.is_control());
    shown.take(200).collect()
}

fn has_bus(environment: &Environment) -> bool {
    if environment.foreign("DBUS_SESSION_BUS_ADDRESS").is_some() {
        return true;
    }
    let folder = environment.foreign("XDG_RUNTIME_DIR");
    folder.is_some_and(|folder| PathBuf::from(folder).join("bus").exists())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    const LONG: Duration = Duration::from_secs(120);
    const SERVICE: Service = Service {
        name: "lathe-test",
        label: "A test",
    };

    /// A machine whose keyring is a script.
    #[expect(
        clippy::disallowed_methods,
        reason = "the stand-in for a keyring runs real programs"
    )]
    fn machine(folder: &Path, program: &str, script: &str) -> Environment {
        let file = folder.join(program);
        std::fs::write(&file, format!("#!/bin/bash\n{script}")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
        let variables = [
            ("PATH", path),
            ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere".to_owned()),
            ("VAULT", folder.display().to_string()),
        ];
        Environment {
            variables: variables
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            home: None,
            cwd: folder.to_owned(),
            ..Environment::default()
        }
    }

    /// Keeps passwords in files, with the words and exit codes of `security`.
    const SECURITY: &str = r#"
account() { while [ $# -gt 0 ]; do [ "$1" = -a ] && echo "$2"; shift; done; }
echo "$*" >>"$VAULT/arguments"
case $1 in
-i) while read -r line; do
      [ ${#line} -lt 4096 ] || { echo "too long" >&2; continue; }
      set -- $line; printf '%s' "${!#}" >"$VAULT/item.$(account "$@")"
    done ;;
find-generic-password) cat "$VAULT/item.$(account "$@")" 2>/dev/null || exit 44; echo ;;
delete-generic-password) rm "$VAULT/item.$(account "$@")" 2>/dev/null || exit 44 ;;
esac
"#;

    #[test]
    fn a_secret_goes_into_a_keychain_in_pieces_and_comes_back_whole() {
        let folder = tempfile::tempdir().unwrap();
        let environment = machine(folder.path(), "security", SECURITY);
        let keychain = Keyring::of_kind(Kind::Keychain, SERVICE, &environment, LONG).unwrap();
        assert_eq!(keychain.get("a").unwrap(), None);
        let long = "tøken ".repeat(2_000);
        keychain.set("a", &long).unwrap();
        assert_eq!(keychain.get("a").unwrap().as_deref(), Some(long.as_str()));
        // A shorter one leaves nothing of the longer.
        keychain.set("a", "short").unwrap();
        assert_eq!(keychain.get("a").unwrap().as_deref(), Some("short"));
        assert!(!folder.path().join("item.a.1").exists());
        keychain.remove("a").unwrap();
        assert_eq!(keychain.get("a").unwrap(), None);
        keychain.remove("a").unwrap();
        let arguments = std::fs::read_to_string(folder.path().join("arguments")).unwrap();
        let encoded = STANDARD_NO_PAD.encode("short");
        assert!(!arguments.contains(&encoded), "{arguments}");
    }

    #[test]
    fn a_keyring_that_hangs_is_given_up_for_good() {
        let folder = tempfile::tempdir().unwrap();
        let script = "echo $$ >>\"$VAULT/started\"; sleep 1000 & wait";
        let environment = machine(folder.path(), "secret-tool", script);
        let limit = Duration::from_millis(200);
        let keyring = Keyring::of_kind(Kind::SecretService, SERVICE, &environment, limit).unwrap();
        let reason = keyring.set("a", "x").unwrap_err();
        assert_eq!(reason.to_string(), "secret-tool didn't answer within 0.2 s");
        assert_eq!(keyring.get("a").unwrap_err(), reason);
        // Asked once; it may have been ended before it could note that.
        let started = std::fs::read_to_string(folder.path().join("started"));
        assert!(started.unwrap_or_default().lines().count() <= 1);
    }

    #[test]
    fn the_reason_for_a_missing_keyring_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let mut environment = machine(folder.path(), "secret-tool", "exit 1");
        let found = |environment: &Environment| {
            Keyring::of_kind(Kind::SecretService, SERVICE, environment, LONG)
                .map(drop)
                .unwrap_err()
        };
        environment.variables.remove("DBUS_SESSION_BUS_ADDRESS");
        assert!(found(&environment).to_string().contains("session bus"));
        environment
            .variables
            .insert("PATH".to_owned(), "/nowhere".to_owned());
        assert!(
            found(&environment)
                .to_string()
                .contains("no program secret-tool")
        );
        let broken = machine(folder.path(), "secret-tool", "echo locked >&2; exit 1");
        let keyring = Keyring::of_kind(Kind::SecretService, SERVICE, &broken, LONG).unwrap();
        let reason = keyring.check().unwrap_err();
        assert_eq!(
            reason.to_string(),
            "secret-tool failed (exit code 1): locked"
        );
    }
}
