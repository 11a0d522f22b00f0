//! seccomp for commands in the sandbox: what namespaces and Landlock leave open.
//!
//! Ordinary work (permissions of files, times, listening, processes) is allowed. Refused are calls that look
//! into other processes, change the system, make namespaces and mounts, plant set-user-id bits, or open a
//! kind of socket that reaches past the sandbox. Calls whose flags lie in memory, where a filter can't look, are
//! reported as missing; programs then use the older call.

use crate::filter::{
    FIRST_ARGUMENT, Instruction, Program, SECOND_ARGUMENT, TYPES_FOR_THE_USER, Then, beginning,
    encode, number,
};
use crate::sandbox_policy::FilterOptions;

/// Queues and shared memory that without an own namespace belong to everybody.
const REFUSED_IF_SHARED: &[libc::c_long] = &[
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgctl,
];

#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[libc::c_long] = &[libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_modify_ldt];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[libc::c_long] = &[];

/// Calls whose flags a filter can't see. `open_tree_attr` has no name in libc yet.
const MISSING: &[libc::c_long] = &[libc::SYS_clone3, libc::SYS_openat2, 467];

/// Calls that set the mode of a file, with the place of the mode among the arguments.
const MODES: &[(libc::c_long, u32)] = &[
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (libc::SYS_fchmodat2, 2),
    (libc::SYS_mknodat, 2),
];
#[cfg(target_arch = "x86_64")]
const MODES_HERE: &[(libc::c_long, u32)] = &[
    (libc::SYS_chmod, 1),
    (libc::SYS_creat, 1),
    (libc::SYS_mknod, 1),
];
#[cfg(not(target_arch = "x86_64"))]
const MODES_HERE: &[(libc::c_long, u32)] = &[];

/// Calls that open files, with the place of the flags; the mode follows.
#[cfg(target_arch = "x86_64")]
const OPENS: &[(libc::c_long, u32)] = &[(libc::SYS_openat, 2), (libc::SYS_open, 1)];
#[cfg(not(target_arch = "x86_64"))]
const OPENS: &[(libc::c_long, u32)] = &[(libc::SYS_openat, 2)];

/// The bits that let a file run as its owner or group.
const SET_ID: u32 = 0o6000;
/// The flags with which a mode counts: `O_CREAT`, and the bit of `O_TMPFILE` that is its own.
const MAKES_A_FILE: u32 = 0o100 | 0o20_000_000;

/// `CLONE_NEW…`: every kind of namespace.
const NAMESPACES: u32 =
    0x0002_0000 | 0x0200_0000 | 0x0400_0000 | 0x0800_0000 | 0x1000_0000 | 0x2000_0000 | 0x4000_0000;

fn argument(index: u32) -> u32 {
    FIRST_ARGUMENT + 8 * index
}

/// The filter; `None` on an architecture without one.
pub(crate) fn sandboxed(options: FilterOptions) -> Option<Program> {
    use Instruction::{Always, IfAnyBit, IfEqual, Load, UnlessAnyBit, UnlessEqual};
    let shared: &[libc::c_long] = if options.shared_system {
        REFUSED_IF_SHARED
    } else {
        &[]
    };
    let mut code = beginning(REFUSED_HERE.iter().chain(shared))?;
    code.extend(
        MISSING
            .iter()
            .map(|&call| IfEqual(number(call), Then::Missing)),
    );
    if options.no_listening {
        code.push(IfEqual(number(libc::SYS_listen), Then::Refuse));
    }
    for &(call, place) in MODES.iter().chain(MODES_HERE) {
        code.push(UnlessEqual(number(call), Then::Skip(3)));
        code.push(Load(argument(place)));
        code.push(IfAnyBit(SET_ID, Then::Refuse));
        code.push(Always(Then::Allow));
    }
    for &(call, place) in OPENS {
        code.push(UnlessEqual(number(call), Then::Skip(5)));
        code.push(Load(argument(place)));
        code.push(UnlessAnyBit(MAKES_A_FILE, Then::Allow));
        code.push(Load(argument(place + 1)));
        code.push(IfAnyBit(SET_ID, Then::Refuse));
        code.push(Always(Then::Allow));
    }
    code.push(UnlessEqual(number(libc::SYS_clone), Then::Skip(3)));
    code.push(Load(FIRST_ARGUMENT));
    code.push(IfAnyBit(NAMESPACES, Then::Refuse));
    code.push(Always(Then::Allow));
    let sockets = sockets(options);
    let count = u8::try_from(sockets.len()).ok()?;
    code.push(UnlessEqual(number(libc::SYS_socket), Then::Skip(count)));
    code.extend(sockets);
    code.push(UnlessEqual(number(libc::SYS_ioctl), Then::Allow));
    code.push(Load(SECOND_ARGUMENT));
    code.extend(TYPES_FOR_THE_USER.map(|request| IfEqual(request, Then::Refuse)));
    code.push(Always(Then::Allow));
    encode(&code)
}

/// Which sockets may be opened. Pairs are made by another call and always work.
fn sockets(options: FilterOptions) -> Vec<Instruction> {
    use Instruction::{Always, IfEqual, Load, UnlessEqual};
    let family = |family: libc::c_int| IfEqual(family.cast_unsigned(), Then::Allow);
    let mut code = vec![Load(FIRST_ARGUMENT)];
    if options.unix {
        code.push(family(libc::AF_UNIX));
    }
    if options.internet {
        code.push(family(libc::AF_INET));
        code.push(family(libc::AF_INET6));
        // Lists of addresses, and nothing else of the kernel's own protocol.
        code.push(UnlessEqual(libc::AF_NETLINK.cast_unsigned(), Then::Refuse));
        code.push(Load(argument(2)));
        code.push(UnlessEqual(
            libc::NETLINK_ROUTE.cast_unsigned(),
            Then::Refuse,
        ));
        code.push(Always(Then::Allow));
    } else {
        code.push(Always(Then::Refuse));
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_filter_can_be_assembled() {
        for bits in 0..16u8 {
            let options = FilterOptions {
                internet: bits & 1 != 0,
                unix: bits & 2 != 0,
                no_listening: bits & 4 != 0,
                shared_system: bits & 8 != 0,
            };
            assert!(sandboxed(options).is_some(), "{options:?}");
        }
    }
}
