//! seccomp: which system calls a process can make.
//!
//! Landlock doesn't cover everything that changes the world: modes, owners, times and extended
//! attributes of files, sockets other than TCP, other processes' memory, and the kernel itself.
//! Those calls fail with `EPERM`. A call of a foreign architecture ends the process.
//!
//! The program is assembled here: what a general compiler makes of the same list is three times as long. The kernel runs it
//! once for each call that there is, at the start of every command, so the refused calls are sorted and stand in groups,
//! and a call is compared with those of one group only.

use libc::sock_filter;
use std::io;
use std::sync::OnceLock;

/// A compiled filter.
#[derive(Debug)]
pub(crate) struct Program {
    instructions: Vec<sock_filter>,
}

impl Program {
    /// The instructions as hexadecimal digits, sixteen for each, as the small helper takes them.
    pub(crate) fn digits(&self) -> String {
        use std::fmt::Write as _;
        let mut digits = String::with_capacity(self.instructions.len() * 16);
        for instruction in &self.instructions {
            // The four fields in the order in which they lie in memory, read as one number.
            let mut bytes = [0; 8];
            bytes[..2].copy_from_slice(&instruction.code.to_ne_bytes());
            bytes[2] = instruction.jt;
            bytes[3] = instruction.jf;
            bytes[4..].copy_from_slice(&instruction.k.to_ne_bytes());
            let _ = write!(digits, "{:016x}", u64::from_ne_bytes(bytes));
        }
        digits
    }

    /// Installs the filter for the calling thread. Plain system calls only.
    pub(crate) fn install(&self) -> io::Result<()> {
        let program = libc::sock_fprog {
            len: u16::try_from(self.instructions.len())
                .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?,
            filter: self.instructions.as_ptr().cast_mut(),
        };
        // SAFETY: the program points at instructions that outlive the call, which only reads them.
        let result = unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                0u32,
                &raw const program,
            )
        };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

/// Whether the kernel can filter system calls.
pub(crate) fn is_available() -> bool {
    let action: u32 = libc::SECCOMP_RET_ERRNO;
    // SAFETY: only asks whether an action is known; reads the number it is given.
    unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_GET_ACTION_AVAIL,
            0u32,
            &raw const action,
        ) == 0
    }
}

/// The filter of commands that only read; `None` on an architecture without one.
pub(crate) fn read_only(network: bool) -> Option<&'static Program> {
    static OFFLINE: OnceLock<Option<Program>> = OnceLock::new();
    static ONLINE: OnceLock<Option<Program>> = OnceLock::new();
    let cell = if network { &ONLINE } else { &OFFLINE };
    cell.get_or_init(|| assemble(network)).as_ref()
}

/// Calls that no ordinary work needs: they look into or change other processes, or change the system.
pub(crate) const NEVER: &[libc::c_long] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_fanotify_init,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fspick,
    libc::SYS_fsmount,
    libc::SYS_mount_setattr,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_open_by_handle_at,
];

/// Calls that a reader doesn't need beside those: they change files' attributes, and what processes share.
const REFUSED: &[libc::c_long] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchmodat2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    libc::SYS_name_to_handle_at,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_shmctl,
    libc::SYS_semctl,
    libc::SYS_msgctl,
];

/// `setxattrat`, `removexattrat` and `file_setattr`, which libc doesn't name yet; the numbers are the
/// same on all architectures.
const REFUSED_BY_NUMBER: &[libc::c_long] = &[463, 466, 469];

/// Older calls that some architectures don't have.
#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[libc::c_long] = &[
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[libc::c_long] = &[];

/// Requests to a terminal that type for its user: `TIOCSTI` and `TIOCLINUX`.
pub(crate) const TYPES_FOR_THE_USER: [u32; 2] = [0x5412, 0x541C];

/// Sockets that a command with network access may open: names are looked up, addresses listed,
/// connections made; nothing below that.
const FAMILIES: [libc::c_int; 4] = [
    libc::AF_UNIX,
    libc::AF_INET,
    libc::AF_INET6,
    libc::AF_NETLINK,
];

/// `AUDIT_ARCH_…` of the architecture that this program is built for.
const ARCHITECTURE: Option<u32> = if cfg!(target_arch = "x86_64") {
    Some(0xC000_003E)
} else if cfg!(target_arch = "aarch64") {
    Some(0xC000_00B7)
} else {
    None
};

/// From here on x86-64 has a second numbering of its system calls (x32), which the rules don't name.
const SECOND_NUMBERING: Option<u32> = if cfg!(target_arch = "x86_64") {
    Some(0x4000_0000)
} else {
    None
};

// Offsets in `struct seccomp_data`, with the lower half of an argument first.
const CALL_NUMBER: u32 = 0;
const CALL_ARCHITECTURE: u32 = 4;
pub(crate) const FIRST_ARGUMENT: u32 = 16;
pub(crate) const SECOND_ARGUMENT: u32 = 24;

/// Where a comparison goes when it holds.
#[derive(Clone, Copy)]
pub(crate) enum Then {
    /// The call is made.
    Allow,
    /// The call fails with `EPERM`.
    Refuse,
    /// The process ends.
    Kill,
    /// The call fails as if the kernel didn't have it, so that programs use another one.
    Missing,
    /// This many instructions are skipped.
    Skip(u8),
}

pub(crate) enum Instruction {
    Load(u32),
    /// Continues with the next instruction unless the loaded value is equal.
    IfEqual(u32, Then),
    /// Continues with the next instruction unless the loaded value is at least this.
    IfAtLeast(u32, Then),
    /// Continues with the next instruction if the loaded value is equal.
    UnlessEqual(u32, Then),
    /// Continues with the next instruction unless the loaded value has one of these bits.
    IfAnyBit(u32, Then),
    /// Continues with the next instruction if the loaded value has one of these bits.
    UnlessAnyBit(u32, Then),
    Always(Then),
}

/// The number of a call, as a filter sees it.
pub(crate) fn number(call: libc::c_long) -> u32 {
    u32::try_from(call).unwrap_or(u32::MAX)
}

/// How every filter begins: foreign architectures end the process, and calls are refused. `None` on an architecture
/// without a filter.
pub(crate) fn beginning<'a>(
    more: impl Iterator<Item = &'a libc::c_long>,
) -> Option<Vec<Instruction>> {
    use Instruction::{IfAtLeast, Load, UnlessEqual};
    let mut code = vec![
        Load(CALL_ARCHITECTURE),
        UnlessEqual(ARCHITECTURE?, Then::Kill),
        Load(CALL_NUMBER),
    ];
    code.extend(SECOND_NUMBERING.map(|first| IfAtLeast(first, Then::Refuse)));
    let mut refused: Vec<u32> = NEVER.iter().chain(more).map(|&call| number(call)).collect();
    refused.sort_unstable();
    refused.dedup();
    code.extend(refuse_each(&refused)?);
    Some(code)
}

/// Refuses these calls, which are sorted. `None` if there are too many of them.
fn refuse_each(refused: &[u32]) -> Option<Vec<Instruction>> {
    use Instruction::{Always, IfAtLeast, IfEqual};
    /// How many calls a group has: about as many as there are groups.
    const GROUP: usize = 8;
    let mut groups: Vec<Vec<Instruction>> = Vec::new();
    let mut behind = 0u8;
    // From the last to the first: how far it is to the end is known then.
    for (index, calls) in refused.chunks(GROUP).enumerate().rev() {
        let mut group: Vec<Instruction> = Vec::new();
        let compared = calls.iter().map(|&call| IfEqual(call, Then::Refuse));
        if let Some(&next) = refused.get((index + 1) * GROUP) {
            group.push(IfAtLeast(
                next,
                Then::Skip(u8::try_from(calls.len()).ok()? + 1),
            ));
            group.extend(compared);
            group.push(Always(Then::Skip(behind)));
        } else {
            group.extend(compared);
        }
        behind = behind.checked_add(u8::try_from(group.len()).ok()?)?;
        groups.push(group);
    }
    Some(groups.into_iter().rev().flatten().collect())
}

fn assemble(network: bool) -> Option<Program> {
    use Instruction::{Always, IfEqual, Load, UnlessEqual};
    let more = REFUSED.iter().chain(REFUSED_BY_NUMBER).chain(REFUSED_HERE);
    let mut code = beginning(more)?;
    if network {
        // A load, the families and a last word.
        code.push(UnlessEqual(number(libc::SYS_socket), Then::Skip(2 + 4)));
        code.push(Load(FIRST_ARGUMENT));
        code.extend(FAMILIES.map(|family| IfEqual(family.cast_unsigned(), Then::Allow)));
        code.push(Always(Then::Refuse));
    } else {
        code.push(IfEqual(number(libc::SYS_socket), Then::Refuse));
    }
    code.push(UnlessEqual(number(libc::SYS_ioctl), Then::Allow));
    code.push(Load(SECOND_ARGUMENT));
    code.extend(TYPES_FOR_THE_USER.map(|request| IfEqual(request, Then::Refuse)));
    code.push(Always(Then::Allow));
    encode(&code)
}

/// Encodes the instructions, with the ways to end behind them. `None` if one lies too far away.
pub(crate) fn encode(code: &[Instruction]) -> Option<Program> {
    const LOAD: u16 = 0x20;
    const JUMP: u16 = 0x05;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const JUMP_IF_ANY_BIT: u16 = 0x45;
    const RETURN: u16 = 0x06;
    let instruction = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    let mut instructions = Vec::with_capacity(code.len() + 4);
    for (index, step) in code.iter().enumerate() {
        let distance = |then: Then| -> Option<u8> {
            let behind = code.len() - index - 1;
            match then {
                Then::Skip(count) => Some(count),
                Then::Allow => u8::try_from(behind).ok(),
                Then::Refuse => u8::try_from(behind + 1).ok(),
                Then::Kill => u8::try_from(behind + 2).ok(),
                Then::Missing => u8::try_from(behind + 3).ok(),
            }
        };
        instructions.push(match *step {
            Instruction::Load(offset) => instruction(LOAD, 0, 0, offset),
            Instruction::IfEqual(value, then) => {
                instruction(JUMP_IF_EQUAL, distance(then)?, 0, value)
            }
            Instruction::IfAtLeast(value, then) => {
                instruction(JUMP_IF_AT_LEAST, distance(then)?, 0, value)
            }
            Instruction::UnlessEqual(value, then) => {
                instruction(JUMP_IF_EQUAL, 0, distance(then)?, value)
            }
            Instruction::IfAnyBit(bits, then) => {
                instruction(JUMP_IF_ANY_BIT, distance(then)?, 0, bits)
            }
            Instruction::UnlessAnyBit(bits, then) => {
                instruction(JUMP_IF_ANY_BIT, 0, distance(then)?, bits)
            }
            Instruction::Always(then) => instruction(JUMP, 0, 0, u32::from(distance(then)?)),
        });
    }
    let refusal = libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned();
    for action in [
        libc::SECCOMP_RET_ALLOW,
        refusal,
        libc::SECCOMP_RET_KILL_PROCESS,
        libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned(),
    ] {
        instructions.push(instruction(RETURN, 0, 0, action));
    }
    Some(Program { instructions })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result of a filter for a call without arguments, and how many instructions that took.
    fn run(program: &Program, call: u32) -> (u32, usize) {
        let (mut at, mut loaded, mut steps) = (0, 0, 0);
        loop {
            let step = program.instructions[at];
            steps += 1;
            at += 1;
            let holds = match step.code {
                0x06 => return (step.k, steps),
                0x20 => {
                    loaded = match step.k {
                        CALL_NUMBER => call,
                        CALL_ARCHITECTURE => ARCHITECTURE.unwrap(),
                        _ => 0,
                    };
                    continue;
                }
                0x05 => {
                    at += step.k as usize;
                    continue;
                }
                0x15 => loaded == step.k,
                0x35 => loaded >= step.k,
                0x45 => loaded & step.k != 0,
                other => panic!("{other:#x}?"),
            };
            at += usize::from(if holds { step.jt } else { step.jf });
        }
    }

    #[test]
    fn exactly_the_named_calls_are_refused() {
        let refusal = libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned();
        let program = read_only(false).unwrap();
        let named = NEVER.iter().chain(REFUSED).chain(REFUSED_BY_NUMBER);
        let mut named: Vec<u32> = named
            .chain(REFUSED_HERE)
            .chain(&[libc::SYS_socket])
            .map(|&call| number(call))
            .collect();
        named.sort_unstable();
        for call in 0..2000 {
            let is_refused = named.binary_search(&call).is_ok();
            let wanted = if is_refused {
                refusal
            } else {
                libc::SECCOMP_RET_ALLOW
            };
            assert_eq!(run(program, call).0, wanted, "call {call}");
        }
    }

    #[test]
    fn any_number_of_calls_is_refused_one_by_one() {
        for count in [0, 1, 7, 8, 9, 16, 17, 64, 100] {
            let refused: Vec<u32> = (0..count).map(|number| 3 * number + 1).collect();
            let mut code = vec![Instruction::Load(CALL_NUMBER)];
            code.extend(refuse_each(&refused).unwrap());
            code.push(Instruction::Always(Then::Allow));
            let program = encode(&code).unwrap();
            for call in 0..400 {
                let is_allowed = run(&program, call).0 == libc::SECCOMP_RET_ALLOW;
                assert_eq!(is_allowed, !refused.contains(&call), "{count}: {call}");
            }
        }
    }

    /// The kernel runs a filter for every call when it is installed: 75 instructions each were 0.2 ms of every start.
    #[test]
    fn a_call_takes_few_instructions() {
        let options = crate::sandbox_policy::FilterOptions {
            internet: true,
            ..Default::default()
        };
        let program = crate::sandbox_filter::sandboxed(options).unwrap();
        let steps: usize = (0..470).map(|call| run(&program, call).1).sum();
        assert!(steps <= 470 * 36, "{} for each call", steps / 470);
    }
}
