//! The sandbox of a session: probes what there is, and wraps commands.
//!
//! [`Sandbox::wrap`] turns a policy into a [`Wrapping`]: words that stand before a command, variables, and the
//! namespaces that its process enters. The wrapping must live for as long as the command: with it go the
//! stand-ins that protect absent files.

use crate::bubblewrap::{self, Privileges};
use crate::domains::UnixSockets;
use crate::mounts::{self, HELPER, Needs, PROXY_SOCKET, SMALL_HELPER};
use crate::overlay;
use crate::sandbox_policy::{FilterOptions, SandboxPolicy};
#[cfg(target_os = "linux")]
use crate::small_helper;
use crate::state::State;
use crate::stubs::Stubs;
use crate::tier::{Status, Tier, find_bubblewrap};
use crate::{Confinement, run};
use std::ffi::OsString;
use std::io;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The first word that makes our binary the helper inside a sandbox.
pub const HELPER_WORD: &str = "__sandbox";
/// The code with which the helper leaves if it could not set the sandbox up.
pub const HELPER_FAILED: i32 = 125;
/// Where the bridge to the proxy listens in a sandbox: HTTP, and SOCKS.
pub const PROXY_PORTS: (u16, u16) = (3128, 1080);

/// The parts of a sandbox.
#[derive(Debug, Clone)]
pub struct SandboxOptions {
    /// Our own binary.
    pub helper: PathBuf,
    /// Where sessions keep what they need while they run.
    pub state: PathBuf,
    /// The search path, to find bubblewrap.
    pub search_path: Option<OsString>,
    /// The only tier that may be used; `None` is the strongest that works.
    pub only: Option<Tier>,
}

/// The sandbox of a session. Nothing is probed or made until it is needed.
#[derive(Debug)]
pub struct Sandbox {
    options: SandboxOptions,
    status: OnceLock<Status>,
    state: Mutex<Option<Arc<State>>>,
    /// The namespace with the caches, by the folders that it was made for.
    caches: Mutex<Option<Caches>>,
    /// The small helper, if it works here. Set by the probe.
    small_helper: OnceLock<SmallHelper>,
}

/// The small helper of a session.
#[derive(Debug)]
struct SmallHelper {
    path: PathBuf,
    /// Whether it can make mounts.
    mounts: bool,
}

impl SmallHelper {
    /// Whether it makes these mounts.
    fn mounts_all(&self, plan: &[mounts::Mount]) -> bool {
        const MOST: usize = 256;
        self.mounts && plan.len() <= MOST
    }
}

#[derive(Debug)]
struct Caches {
    folders: Vec<PathBuf>,
    entry: Option<Arc<Confinement>>,
}

/// Why a command can't be run in the sandbox.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// There is no sandbox here.
    #[error("there is no sandbox on this machine: {reasons}")]
    Unavailable {
        /// Why not.
        reasons: String,
    },
    /// The session's folder can't be made.
    #[error("the sandbox can't keep its files in {}: {source}", folder.display())]
    State {
        /// Where.
        folder: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A protected path can't be held.
    #[error("a protected path can't be held: {0}")]
    Protect(io::Error),
    /// A protected path is a link, which bubblewrap can't hold.
    #[error(
        "{} is a link that commands could replace, and bubblewrap can't prevent that here; put what it leads to in its place",
        .0.display()
    )]
    Link(PathBuf),
}

/// A command to wrap.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// Where it runs.
    pub directory: &'a Path,
    /// Files outside that it must be able to read.
    pub files: &'a [PathBuf],
    /// Descriptors that it keeps beside the standard three.
    pub keeps: &'a [RawFd],
    /// Whether it has a terminal of its own to talk to.
    pub terminal: bool,
    /// The socket of the proxy, and the name of this command there.
    pub proxy: Option<(&'a Path, &'a str)>,
}

/// The prefix of a command.
#[derive(Debug)]
pub struct Wrapping {
    /// Words before the command.
    pub words: Vec<OsString>,
    /// Variables that the command gets.
    pub variables: Vec<(OsString, OsString)>,
    /// The confinement that the process enters before it runs the program.
    pub entry: Option<Arc<Confinement>>,
    /// How many processes stand between the one that is started and the command.
    pub processes_between: usize,
    /// Keeps the folder and the stand-ins.
    _held: (Arc<State>, Stubs),
}

impl Sandbox {
    /// A sandbox that nothing has been asked of yet.
    #[must_use]
    pub fn new(options: SandboxOptions) -> Self {
        Self {
            options,
            status: OnceLock::new(),
            state: Mutex::default(),
            caches: Mutex::default(),
            small_helper: OnceLock::new(),
        }
    }

    /// The sandboxes of this machine. Probed at the first call.
    pub fn status(&self) -> &Status {
        self.status.get_or_init(|| self.probe())
    }

    /// The tier that commands run in.
    pub fn tier(&self) -> Tier {
        self.status().tier
    }

    /// The sandbox of a session of the running program; `None` if the program is not a [helper](crate::offer_helper).
    #[must_use]
    pub fn of_program(config_home: &Path, search_path: Option<OsString>) -> Option<Self> {
        Some(Self::new(SandboxOptions {
            helper: crate::helper_program()?,
            state: config_home.join("sandbox"),
            search_path,
            only: None,
        }))
    }

    /// The folder that commands see as `/tmp`. Made if it isn't there yet.
    ///
    /// # Errors
    /// If it can't be made.
    pub fn temporary_folder(&self) -> Result<PathBuf, SandboxError> {
        self.state().map(|state| state.temporary())
    }

    /// A folder for sockets of the session, with a short path. Goes with the session.
    ///
    /// # Errors
    /// If it can't be made.
    pub fn socket_folder(&self) -> Result<PathBuf, SandboxError> {
        let state = self.state()?;
        state.sockets().map_err(|source| SandboxError::State {
            folder: std::env::temp_dir(),
            source,
        })
    }

    /// A new folder for files that commands see instead of others. Goes with the session.
    ///
    /// # Errors
    /// If it can't be made.
    pub fn mask_folder(&self) -> Result<PathBuf, SandboxError> {
        let state = self.state()?;
        state.masks().map_err(|source| SandboxError::State {
            folder: self.options.state.clone(),
            source,
        })
    }

    fn state(&self) -> Result<Arc<State>, SandboxError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(state) = &*state {
            return Ok(Arc::clone(state));
        }
        let made = State::new(&self.options.state).map_err(|source| SandboxError::State {
            folder: self.options.state.clone(),
            source,
        })?;
        Ok(Arc::clone(state.insert(Arc::new(made))))
    }

    /// Tries the tiers from the strongest on.
    fn probe(&self) -> Status {
        let mut status = Status {
            tier: Tier::None,
            missing: Vec::new(),
            bubblewrap: find_bubblewrap(self.options.search_path.as_deref()),
            caches: false,
        };
        if cfg!(target_os = "macos") {
            if Path::new(crate::seatbelt::PROGRAM).exists() {
                status.tier = Tier::Seatbelt;
            } else {
                status.missing.push("sandbox-exec is not there".to_owned());
            }
            return status;
        }
        let wanted = |tier: Tier| self.options.only.is_none_or(|only| only == tier);
        if wanted(Tier::Bubblewrap) {
            match &status.bubblewrap {
                Some(program) => match self.try_bubblewrap(program) {
                    Ok(()) => status.tier = Tier::Bubblewrap,
                    Err(reason) => status.missing.push(format!("bubblewrap: {reason}")),
                },
                None => status
                    .missing
                    .push("bubblewrap is not installed (package `bubblewrap`)".to_owned()),
            }
        }
        if status.tier == Tier::None && wanted(Tier::Namespaces) {
            match self.try_namespaces() {
                Ok(()) => status.tier = Tier::Namespaces,
                Err(reason) => status.missing.push(format!("user namespaces: {reason}")),
            }
        }
        let support = crate::support();
        if status.tier == Tier::None && wanted(Tier::Landlock) {
            if support.confines_reads() {
                status.tier = Tier::Landlock;
            } else {
                status
                    .missing
                    .push("the kernel has no Landlock or no seccomp".to_owned());
            }
        }
        status
    }

    fn try_bubblewrap(&self, program: &Path) -> Result<(), ProbeError> {
        if self.try_own_mounts(program) {
            return Ok(());
        }
        let mut words = vec![program.as_os_str().to_owned()];
        words.extend(
            bubblewrap::isolation(Privileges::of_process(), false)
                .into_iter()
                .map(Into::into),
        );
        words.extend(["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"].map(Into::into));
        // The helper too: a program that isn't one (an embedder) has no sandbox.
        words.extend(["--tmpfs", "/run", "--ro-bind"].map(Into::into));
        words.push(self.options.helper.clone().into_os_string());
        words.push(HELPER.into());
        let mut with_our_binary = words.clone();
        with_our_binary
            .extend(["--", HELPER, HELPER_WORD, "--inside", "--internet"].map(Into::into));
        with_our_binary.extend(["--", "/bin/true"].map(Into::into));
        run::succeeds(&with_our_binary)?;
        self.try_small_helper(words);
        Ok(())
    }

    /// Writes the small helper to the session's folder. Gives its path and its words for a policy without any folders.
    #[cfg(target_os = "linux")]
    fn write_small_helper(&self) -> Option<(PathBuf, Vec<OsString>)> {
        let policy = SandboxPolicy::default();
        let filter = filter_options(&policy, Tier::Bubblewrap);
        let mut words = small_helper::words(&policy, filter, false, None)?;
        words.extend(["--", "/bin/true"].map(OsString::from));
        let path = self.state().ok()?.folder().join("start");
        match small_helper::write(&path) {
            Ok(()) => Some((path, words)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Some((path, words)),
            Err(error) => {
                tracing::debug!(%error, "the small helper can't be written");
                None
            }
        }
    }

    /// Tries the small helper as the one that makes the mounts: the fastest way, and the only probe where it works.
    #[cfg(target_os = "linux")]
    fn try_own_mounts(&self, program: &Path) -> bool {
        let (Some((path, restrictions)), Ok(state)) = (self.write_small_helper(), self.state())
        else {
            return false;
        };
        let mut stubs = Stubs::new(state.folder());
        let policy = SandboxPolicy::default();
        let Ok(plan) = mounts::plan(&policy, &state, &Needs::default(), &mut stubs) else {
            return false;
        };
        let request = Request {
            directory: Path::new("/"),
            files: &[],
            keeps: &[],
            terminal: true,
            proxy: None,
        };
        let privileges = Privileges::of_process();
        let mut words = bubblewrap::without_mounts(program, &path, &plan, privileges, &request);
        words.extend(restrictions);
        match run::succeeds(&words) {
            Ok(()) => self
                .small_helper
                .set(SmallHelper { path, mounts: true })
                .is_ok(),
            Err(error) => {
                tracing::debug!(%error, "the small helper can't make mounts here");
                false
            }
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn try_own_mounts(&self, _program: &Path) -> bool {
        false
    }

    /// Tries the small helper, behind the words that make the sandbox. It is not needed, only faster.
    #[cfg(target_os = "linux")]
    fn try_small_helper(&self, mut words: Vec<OsString>) {
        let Some((path, restrictions)) = self.write_small_helper() else {
            return;
        };
        words.extend(["--ro-bind".into(), path.clone().into_os_string()]);
        words.extend([SMALL_HELPER, "--", SMALL_HELPER].map(OsString::from));
        words.extend(restrictions);
        let mounts = false;
        match run::succeeds(&words) {
            Ok(()) => drop(self.small_helper.set(SmallHelper { path, mounts })),
            Err(error) => tracing::debug!(%error, "the small helper doesn't work here"),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn try_small_helper(&self, _words: Vec<OsString>) {}

    fn try_namespaces(&self) -> Result<(), ProbeError> {
        let mut words = vec![self.options.helper.clone().into_os_string()];
        words.extend(
            [
                HELPER_WORD,
                "--namespaces",
                "user",
                "--internet",
                "--",
                "/bin/true",
            ]
            .map(Into::into),
        );
        run::succeeds(&words)
    }

    /// The namespace where changes of caches stay apart; `None` where that can't be had.
    fn cache_namespace(&self, folders: &[PathBuf], state: &State) -> Option<Arc<Confinement>> {
        let mut caches = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = caches.as_ref()
            && known.folders == folders
        {
            return known.entry.clone();
        }
        let made = overlay::make(folders, state.folder());
        let entry = match made {
            Ok(namespaces) => namespaces.map(|it| Arc::new(Confinement::entering(it))),
            Err(error) => {
                tracing::debug!(%error, "caches can only be read in the sandbox");
                None
            }
        };
        *caches = Some(Caches {
            folders: folders.to_vec(),
            entry: entry.clone(),
        });
        entry
    }

    /// The prefix of a command with this policy.
    ///
    /// # Errors
    /// If there is no sandbox, or it can't be prepared. The command must not run then.
    pub fn wrap(
        &self,
        policy: &SandboxPolicy,
        request: &Request<'_>,
    ) -> Result<Wrapping, SandboxError> {
        let status = self.status();
        if !status.tier.confines() {
            return Err(SandboxError::Unavailable {
                reasons: status.missing.join("; "),
            });
        }
        let policy = &policy.settled();
        let state = self.state()?;
        let mut stubs = Stubs::new(state.folder());
        let mut words;
        let mut entry = None;
        match status.tier {
            Tier::Seatbelt => {
                words = crate::seatbelt::words(policy, &state.temporary());
            }
            Tier::Landlock | Tier::None => {
                words = vec![
                    self.options.helper.clone().into_os_string(),
                    HELPER_WORD.into(),
                ];
                words.extend(bounds(policy, status.tier, Privileges::needed(policy)));
                words.extend(readable(policy, request, &self.options, &state));
            }
            Tier::Bubblewrap | Tier::Namespaces => {
                entry = self.cache_namespace(&policy.caches, &state);
                (words, stubs) = self.namespaced(policy, request, &state, entry.is_some())?;
            }
        }
        if status.tier != Tier::Seatbelt {
            for descriptor in request.keeps {
                words.extend(["--keep".into(), OsString::from(descriptor.to_string())]);
            }
            words.push("--".into());
        }
        Ok(Wrapping {
            words,
            variables: variables(status.tier, request, &state),
            entry,
            processes_between: match status.tier {
                Tier::Bubblewrap | Tier::Namespaces => 2,
                Tier::Landlock | Tier::Seatbelt | Tier::None => 0,
            },
            _held: (state, stubs),
        })
    }

    /// The words of a tier with namespaces, up to the end of the helper's own, and the stand-ins.
    fn namespaced(
        &self,
        policy: &SandboxPolicy,
        request: &Request<'_>,
        state: &State,
        caches: bool,
    ) -> Result<(Vec<OsString>, Stubs), SandboxError> {
        let status = self.status();
        let privileges = Privileges::needed(policy);
        let mut stubs = Stubs::new(state.folder());
        let bubblewrap = match (status.tier, &status.bubblewrap) {
            (Tier::Bubblewrap, Some(program)) => Some(program),
            _ => None,
        };
        let small = self.small_words(policy, request, privileges);
        let helper = small.as_ref().and(self.small_helper.get());
        let needs = Needs {
            files: request.files,
            // Beside the small helper only ssh needs ours, to get to the proxy.
            helper: (small.is_none() || request.proxy.is_some())
                .then_some(self.options.helper.as_path()),
            proxy: request.proxy.map(|(socket, _)| socket),
            caches,
        };
        let mut plan =
            mounts::plan(policy, state, &needs, &mut stubs).map_err(SandboxError::Protect)?;
        if let (Some(program), Some(small), Some(helper)) = (bubblewrap, small, helper) {
            let mut words = if helper.mounts_all(&plan) {
                bubblewrap::without_mounts(program, &helper.path, &plan, privileges, request)
            } else {
                plan.push(mounts::small_helper(&helper.path));
                let mut words = bubblewrap::with_mounts(program, &plan, privileges, request)
                    .map_err(SandboxError::Link)?;
                words.push(SMALL_HELPER.into());
                words
            };
            words.extend(small);
            return Ok((words, stubs));
        }
        let mut words = match bubblewrap {
            Some(program) => bubblewrap::with_mounts(program, &plan, privileges, request)
                .map_err(SandboxError::Link)?,
            None => self.namespace_words(&plan, privileges, request),
        };
        if bubblewrap.is_some() {
            words.extend([HELPER, HELPER_WORD, "--inside"].map(OsString::from));
        }
        words.extend(bounds(policy, status.tier, privileges));
        if let Some((_, name)) = request.proxy {
            words.extend(["--bridge", PROXY_SOCKET, "--name", name].map(OsString::from));
        }
        Ok((words, stubs))
    }

    /// The words of the small helper; `None` where it isn't used.
    #[cfg(target_os = "linux")]
    fn small_words(
        &self,
        policy: &SandboxPolicy,
        request: &Request<'_>,
        privileges: Privileges,
    ) -> Option<Vec<OsString>> {
        let tier = self.status().tier;
        self.small_helper
            .get()
            .filter(|_| tier == Tier::Bubblewrap)?;
        let name = request.proxy.map(|(_, name)| name);
        let root = privileges == Privileges::Root;
        small_helper::words(policy, filter_options(policy, tier), root, name)
    }

    #[cfg(not(target_os = "linux"))]
    fn small_words(
        &self,
        _policy: &SandboxPolicy,
        _request: &Request<'_>,
        _privileges: Privileges,
    ) -> Option<Vec<OsString>> {
        None
    }

    fn namespace_words(
        &self,
        plan: &[mounts::Mount],
        privileges: Privileges,
        request: &Request<'_>,
    ) -> Vec<OsString> {
        let users = match privileges {
            Privileges::Root => "none",
            Privileges::OwnNamespace => "user",
        };
        vec![
            self.options.helper.clone().into_os_string(),
            HELPER_WORD.into(),
            "--namespaces".into(),
            users.into(),
            "--mounts".into(),
            mounts::encode(plan),
            "--directory".into(),
            request.directory.into(),
        ]
    }
}

/// Why a probe failed.
pub(crate) use crate::run::ProbeError;

/// The calls that a policy allows in a tier.
fn filter_options(policy: &SandboxPolicy, tier: Tier) -> FilterOptions {
    let shared_system = tier == Tier::Landlock;
    FilterOptions {
        internet: !shared_system,
        unix: policy.network.unix_sockets != UnixSockets::None,
        no_listening: policy.network.no_listening,
        shared_system,
    }
}

/// The limits of a policy, as words of either helper.
pub(crate) fn limits(policy: &SandboxPolicy) -> Vec<OsString> {
    let limits = policy.limits;
    let mut words: Vec<OsString> = Vec::new();
    for (name, value) in [
        ("--processes", limits.processes),
        ("--memory", limits.memory),
        ("--file-size", limits.file_size),
    ] {
        if value > 0 {
            words.extend([name.into(), OsString::from(value.to_string())]);
        }
    }
    words
}

/// The restrictions by our own binary as the helper.
fn bounds(policy: &SandboxPolicy, tier: Tier, privileges: Privileges) -> Vec<OsString> {
    let filter = filter_options(policy, tier);
    let mut words: Vec<OsString> = Vec::new();
    for (name, is_set) in [
        ("--internet", filter.internet),
        ("--shared-system", filter.shared_system),
        ("--unix-sockets", filter.unix),
        ("--no-listening", filter.no_listening),
        ("--root", privileges == Privileges::Root),
    ] {
        if is_set {
            words.push(name.into());
        }
    }
    words.extend(limits(policy));
    let caches: &[PathBuf] = if filter.shared_system {
        &[]
    } else {
        &policy.caches
    };
    for path in policy.writable.iter().chain(caches) {
        words.extend(["--write".into(), path.clone().into_os_string()]);
    }
    words
}

/// The readable paths where nothing can be mounted, and the session's own folder for temporary files.
fn readable(
    policy: &SandboxPolicy,
    request: &Request<'_>,
    options: &SandboxOptions,
    state: &State,
) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    for path in policy.hidden.iter().chain([&options.state]) {
        words.extend(["--hide".into(), path.clone().into_os_string()]);
    }
    let temporary = state.temporary();
    let shown = policy.shown.iter().chain(request.files);
    for path in shown.chain([&options.helper, &temporary]) {
        words.extend(["--show".into(), path.clone().into_os_string()]);
    }
    words.extend(["--write".into(), temporary.into_os_string()]);
    words
}

fn variables(tier: Tier, request: &Request<'_>, state: &State) -> Vec<(OsString, OsString)> {
    let mut variables: Vec<(OsString, OsString)> = Vec::new();
    let temporary = match tier {
        Tier::Bubblewrap | Tier::Namespaces => OsString::from("/tmp"),
        Tier::Landlock | Tier::Seatbelt | Tier::None => state.temporary().into_os_string(),
    };
    variables.push(("TMPDIR".into(), temporary.clone()));
    if tier == Tier::Landlock {
        // Caches can only be read there; tools that insist on writing get a place.
        for (name, folder) in [
            ("XDG_CACHE_HOME", "cache"),
            ("npm_config_cache", "npm"),
            ("PIP_CACHE_DIR", "pip"),
            ("GOCACHE", "go"),
        ] {
            variables.push((name.into(), Path::new(&temporary).join(folder).into()));
        }
    }
    if request.proxy.is_some() {
        let (http, socks) = PROXY_PORTS;
        let http = format!("http://127.0.0.1:{http}");
        let socks = format!("socks5h://127.0.0.1:{socks}");
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
            variables.push((name.into(), http.clone().into()));
        }
        for name in ["ALL_PROXY", "all_proxy"] {
            variables.push((name.into(), socks.clone().into()));
        }
        for name in ["NO_PROXY", "no_proxy"] {
            variables.push((name.into(), "localhost,127.0.0.1,::1".into()));
        }
        // ssh knows no proxies; it runs a program that does.
        let connect = format!("{HELPER} {HELPER_WORD} --connect %h %p");
        variables.push((
            "GIT_SSH_COMMAND".into(),
            format!("ssh -o ProxyCommand='{connect}' -o ControlMaster=no").into(),
        ));
    }
    variables
}
