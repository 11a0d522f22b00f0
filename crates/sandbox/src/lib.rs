//! Confining processes with the kernel's own means: Landlock for files, seccomp for system calls.
//!
//! A command that runs without a question because the analyser found that it only reads is started
//! inside a [`Confinement`]: it can't write, can't reach the network, can't run programs that the
//! project brought along, and can't read outside the folders it was judged for. If the analyser was
//! wrong, the command fails with an error instead of doing harm.
//!
//! The rules are prepared in the parent ([`Confinement::new`]) and entered by the child between fork
//! and exec ([`Confinement::enter`]), which makes plain system calls only. [`support`] reports what
//! the running kernel offers; [`blocked`] tells a failure that the confinement caused from an
//! ordinary one.
//!
//! Every other command runs in the [`Sandbox`] of its session, if there is one: [`SandboxPolicy`] says what it may
//! do, [`Sandbox::wrap`] turns that into words before the command, and [`helper`] is what our own binary does as one
//! of them, unless the small helper (`src/small`) does it in less time. [`violations`] tells what the sandbox refused.
//!
//! This crate decides nothing: who is confined, and to what, is the caller's policy. Start with
//! [`ReadOnlyPolicy`] and [`SandboxPolicy`].

mod blocked;
mod bubblewrap;
mod domains;
#[cfg(target_os = "linux")]
mod filter;
mod git;
mod helper_program;
#[cfg(target_os = "linux")]
mod inner;
mod launch;
mod links;
mod mounts;
mod overlay;
mod policy;
mod receive;
#[cfg(target_os = "linux")]
mod rules;
mod run;
#[cfg(target_os = "linux")]
mod sandbox_filter;
mod sandbox_policy;
pub mod seatbelt;
#[cfg(target_os = "linux")]
mod small_helper;
mod state;
mod stubs;
mod system;
mod tier;
mod violations;

pub use blocked::{Block, blocked};
pub use domains::{
    Host, HostRule, HostRuleError, HostVerdict, NetworkPolicy, UnixSockets, is_private,
};
pub use git::{Repository, repository};
#[cfg(target_os = "linux")]
pub use helper_program::hide_process;
pub use helper_program::{helper_program, offer_helper};
#[cfg(target_os = "linux")]
pub use inner::helper;
pub use launch::{
    HELPER_FAILED, HELPER_WORD, PROXY_PORTS, Request, Sandbox, SandboxError, SandboxOptions,
    Wrapping,
};
pub use links::links_of;
pub use mounts::AUTHORITIES;
pub use policy::ReadOnlyPolicy;
pub use receive::receive_sockets;
pub use sandbox_policy::{
    Absent, CredentialPlace, CredentialSource, Masked, Protected, Refusal, ResourceLimits,
    SandboxPolicy,
};
pub use state::remove_everything;
pub use system::{SystemPaths, repository_folders};
pub use tier::{Status, Tier};
pub use violations::{Violation, violations};

/// Support of the running kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Support {
    /// The version of Landlock; 0 if it is absent or switched off.
    pub landlock: u32,
    /// Whether system calls can be filtered.
    pub seccomp: bool,
}

impl Support {
    /// Whether a command can be confined to reading.
    #[must_use]
    pub fn confines_reads(self) -> bool {
        self.landlock > 0 && self.seccomp
    }
}

/// Why a process can't be confined.
#[derive(Debug, thiserror::Error)]
pub enum ConfinementError {
    /// The kernel lacks the means.
    #[error(
        "this kernel can't confine commands (Landlock {landlock}, seccomp {seccomp})",
        landlock = if support.landlock > 0 { "available" } else { "missing" },
        seccomp = if support.seccomp { "available" } else { "missing" }
    )]
    Unsupported {
        /// The support.
        support: Support,
    },
    /// The kernel refused the rules.
    #[error("the kernel refused the confinement: {0}")]
    Refused(String),
}

/// Rules that a child process enters before it becomes another program. Prepared once, it can be
/// entered by any number of children.
#[derive(Debug)]
pub struct Confinement {
    #[cfg(target_os = "linux")]
    kind: Kind,
}

#[cfg(target_os = "linux")]
#[derive(Debug)]
enum Kind {
    /// Confined to reading.
    ReadOnly {
        ruleset: std::os::fd::OwnedFd,
        filter: &'static filter::Program,
    },
    /// In namespaces that exist already.
    Inside(overlay::Namespaces),
}

#[cfg(target_os = "linux")]
mod linux {
    use super::{
        Confinement, ConfinementError, Kind, ReadOnlyPolicy, Support, filter, overlay, rules,
    };
    use std::io;
    use std::os::fd::AsRawFd;
    use std::sync::OnceLock;

    /// Support of the running kernel, probed once.
    #[must_use]
    pub fn support() -> Support {
        static SUPPORT: OnceLock<Support> = OnceLock::new();
        *SUPPORT.get_or_init(|| Support {
            landlock: rules::landlock_version(),
            seccomp: filter::is_available(),
        })
    }

    impl Confinement {
        /// Prepares the confinement of a command that only reads.
        ///
        /// # Errors
        /// When the kernel can't confine, or refuses the rules.
        pub fn new(policy: &ReadOnlyPolicy) -> Result<Self, ConfinementError> {
            let support = support();
            if !support.confines_reads() {
                return Err(ConfinementError::Unsupported { support });
            }
            Ok(Self {
                kind: Kind::ReadOnly {
                    ruleset: rules::read_only(policy)?,
                    filter: filter::read_only(policy.network)
                        .ok_or(ConfinementError::Unsupported { support })?,
                },
            })
        }

        /// The namespaces of a sandbox, to be entered before its words run.
        pub(crate) fn entering(namespaces: overlay::Namespaces) -> Self {
            Self {
                kind: Kind::Inside(namespaces),
            }
        }

        /// Confines the calling process for good. For a child between fork and exec: it makes plain
        /// system calls, allocates nothing and takes no lock.
        ///
        /// # Errors
        /// When the kernel refuses. The child must not go on then.
        pub fn enter(&self) -> io::Result<()> {
            let (ruleset, filter) = match &self.kind {
                Kind::ReadOnly { ruleset, filter } => (ruleset, filter),
                Kind::Inside(namespaces) => return namespaces.enter(),
            };
            // SAFETY: plain system calls with valid arguments; the program outlives the call.
            unsafe {
                if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
                    || libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0u32)
                        != 0
                {
                    return Err(io::Error::last_os_error());
                }
            }
            filter.install()
        }
    }
}

#[cfg(target_os = "linux")]
pub use linux::support;

/// The features of the running kernel: none that this crate uses.
#[cfg(not(target_os = "linux"))]
#[must_use]
pub fn support() -> Support {
    Support {
        landlock: 0,
        seccomp: false,
    }
}

#[cfg(not(target_os = "linux"))]
impl Confinement {
    /// Prepares the confinement of a command that only reads.
    ///
    /// # Errors
    /// Always: this system has no means that are used here.
    pub fn new(_: &ReadOnlyPolicy) -> Result<Self, ConfinementError> {
        Err(ConfinementError::Unsupported { support: support() })
    }

    /// Confines the calling process.
    ///
    /// # Errors
    /// Never: such a value can't be made here.
    pub fn enter(&self) -> std::io::Result<()> {
        Ok(())
    }
}
