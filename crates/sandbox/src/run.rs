//! Running a program to see whether it works: the probe of a tier.

use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;

/// Why a probe failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProbeError {
    /// The program could not be started.
    #[error("it can't be started: {0}")]
    Start(io::Error),
    /// It failed.
    #[error("it failed here (status {0}); namespaces may be switched off")]
    Failed(i32),
}

/// Runs a program without input, output and environment, and waits for it.
pub(crate) fn succeeds(words: &[OsString]) -> Result<(), ProbeError> {
    let texts = words
        .iter()
        .map(|word| CString::new(word.as_bytes()))
        .collect::<Result<Vec<CString>, _>>()
        .map_err(|_| ProbeError::Start(io::Error::from(io::ErrorKind::InvalidInput)))?;
    let mut arguments: Vec<*mut libc::c_char> =
        texts.iter().map(|text| text.as_ptr().cast_mut()).collect();
    arguments.push(std::ptr::null_mut());
    let environment: [*mut libc::c_char; 1] = [std::ptr::null_mut()];
    let Some(program) = texts.first() else {
        return Err(ProbeError::Start(io::Error::from(
            io::ErrorKind::InvalidInput,
        )));
    };
    let mut child: libc::pid_t = 0;
    // SAFETY: terminated texts and null-terminated lists that outlive the calls; the actions are initialised
    // before they are used and destroyed after.
    let (started, status) = unsafe {
        let mut actions: libc::posix_spawn_file_actions_t = std::mem::zeroed();
        libc::posix_spawn_file_actions_init(&raw mut actions);
        for descriptor in 0..3 {
            libc::posix_spawn_file_actions_addopen(
                &raw mut actions,
                descriptor,
                c"/dev/null".as_ptr(),
                libc::O_RDWR,
                0,
            );
        }
        let started = libc::posix_spawn(
            &raw mut child,
            program.as_ptr(),
            &raw const actions,
            std::ptr::null(),
            arguments.as_ptr(),
            environment.as_ptr(),
        );
        libc::posix_spawn_file_actions_destroy(&raw mut actions);
        let mut status = 0;
        if started == 0 {
            while libc::waitpid(child, &raw mut status, 0) < 0
                && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
            {}
        }
        (started, status)
    };
    if started != 0 {
        return Err(ProbeError::Start(io::Error::from_raw_os_error(started)));
    }
    if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0 {
        Ok(())
    } else {
        Err(ProbeError::Failed(status))
    }
}
