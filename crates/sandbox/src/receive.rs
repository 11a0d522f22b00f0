//! The other end of the bridge: a byte of a unix socket, and the sockets that the small helper sends with it.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// The most sockets that are taken; the kernel closes others.
const MOST: usize = 2;

/// Room for descriptors beside a message.
#[repr(C)]
struct Control {
    header: libc::cmsghdr,
    descriptors: [RawFd; MOST],
}

/// Reads one byte without waiting, and the sockets that come with it. An ordinary read would drop them.
///
/// # Errors
/// If nothing can be read yet (`WouldBlock`), or the other side is gone.
pub fn receive_sockets(from: BorrowedFd<'_>) -> io::Result<(u8, Vec<OwnedFd>)> {
    let mut byte = 0u8;
    let mut piece = libc::iovec {
        iov_base: (&raw mut byte).cast(),
        iov_len: 1,
    };
    // SAFETY: numbers and pointers, for which zero is a value.
    let (mut control, mut message): (Control, libc::msghdr) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    // The type of a length differs between systems.
    message.msg_controllen = size_of::<Control>() as _;
    #[cfg(target_os = "linux")]
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    #[cfg(not(target_os = "linux"))]
    let flags = libc::MSG_DONTWAIT;
    // SAFETY: everything that the message points at is valid for the call.
    let received = unsafe { libc::recvmsg(from.as_raw_fd(), &raw mut message, flags) };
    let mut sockets = Vec::new();
    // SAFETY: the kernel filled the message in, or its length is what it was.
    let header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    if received >= 0
        && !header.is_null()
        && control.header.cmsg_level == libc::SOL_SOCKET
        && control.header.cmsg_type == libc::SCM_RIGHTS
    {
        let count = (1..=MOST).find(|&count| {
            let bytes = u32::try_from(count * size_of::<RawFd>()).unwrap_or(0);
            // SAFETY: computes a length.
            control.header.cmsg_len == unsafe { libc::CMSG_LEN(bytes) } as _
        });
        for &descriptor in control.descriptors.iter().take(count.unwrap_or(0)) {
            // SAFETY: the kernel made it for this process, and nothing else has it.
            sockets.push(unsafe { OwnedFd::from_raw_fd(descriptor) });
        }
    }
    match received {
        1 => Ok((byte, sockets)),
        0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::os::fd::AsFd as _;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_byte_without_sockets_is_a_byte() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let waiting = receive_sockets(theirs.as_fd()).unwrap_err();
        assert_eq!(waiting.kind(), io::ErrorKind::WouldBlock);
        ours.write_all(b"ab").unwrap();
        let (byte, sockets) = receive_sockets(theirs.as_fd()).unwrap();
        assert_eq!((byte, sockets.len()), (b'a', 0));
        assert_eq!(receive_sockets(theirs.as_fd()).unwrap().0, b'b');
        drop(ours);
        let ended = receive_sockets(theirs.as_fd()).unwrap_err();
        assert_eq!(ended.kind(), io::ErrorKind::UnexpectedEof);
    }

    /// Sends a byte with descriptors, as the small helper does.
    fn send(to: &UnixStream, descriptors: [RawFd; MOST]) {
        let mut byte = b'L';
        let mut piece = libc::iovec {
            iov_base: (&raw mut byte).cast(),
            iov_len: 1,
        };
        let mut control = Control {
            // SAFETY: numbers, for which zero is a value.
            header: unsafe { std::mem::zeroed() },
            descriptors,
        };
        control.header.cmsg_len = size_of::<Control>() as _;
        control.header.cmsg_level = libc::SOL_SOCKET;
        control.header.cmsg_type = libc::SCM_RIGHTS;
        // SAFETY: as above; everything that the message points at is valid for the call.
        let sent = unsafe {
            let mut message: libc::msghdr = std::mem::zeroed();
            message.msg_iov = &raw mut piece;
            message.msg_iovlen = 1;
            message.msg_control = (&raw mut control).cast();
            message.msg_controllen = size_of::<Control>() as _;
            libc::sendmsg(to.as_raw_fd(), &raw const message, 0)
        };
        assert_eq!(sent, 1);
    }

    #[test]
    fn sockets_come_with_their_byte() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut near, far) = UnixStream::pair().unwrap();
        send(&ours, [far.as_raw_fd(), far.as_raw_fd()]);
        drop(far);
        let (byte, sockets) = receive_sockets(theirs.as_fd()).unwrap();
        assert_eq!((byte, sockets.len()), (b'L', 2));
        near.write_all(b"x").unwrap();
        let passed = UnixStream::from(sockets.into_iter().next().unwrap());
        assert_eq!(receive_sockets(passed.as_fd()).unwrap().0, b'x');
    }
}
