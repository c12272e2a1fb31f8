//! Socket operations beyond reading and writing: the read low-water mark, unread bytes, and whether
//! the peer has closed.
//!
//! All are hints that no state depends on: a system without them only wakes readers more often.
#![allow(unsafe_code, reason = "an option that no safe wrapper has")]

use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Lets waiting readers sleep until `bytes` bytes have arrived, the peer has closed, or the system
/// reclaims memory.
///
/// Checks at once whether that is already so, and then wakes. The system bounds `bytes` by its own
/// buffers, so waking with fewer bytes is always possible.
pub fn wake_reader_at(socket: impl AsFd, bytes: usize) {
    low_water::set(socket.as_fd(), i32::try_from(bytes).unwrap_or(i32::MAX));
}

/// Returns the number of received unread bytes; 0 if the system does not report it.
pub fn unread_bytes(socket: impl AsFd) -> usize {
    let bytes = rustix::io::ioctl_fionread(socket).unwrap_or(0);
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Returns true when the peer has closed the connection, or its half of it, even if unread bytes
/// remain.
pub fn peer_has_ended(socket: impl AsFd) -> bool {
    let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    let mut asked = [PollFd::new(&socket, PollFlags::RDHUP)];
    // If the system does not report it, the next read or write will.
    let told = poll(&mut asked, Some(&Timespec::default())).is_ok();
    told && asked.iter().any(|socket| socket.revents().intersects(gone))
}

/// The constants are those of these architectures; some others have different ones.
#[cfg(all(
    not(miri),
    any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64"
    )
))]
mod low_water {
    use std::ffi::{c_int, c_void};
    use std::os::fd::{AsRawFd, BorrowedFd};

    const SOL_SOCKET: c_int = 1;
    const SO_RCVLOWAT: c_int = 18;
    /// Size of a `c_int`.
    const VALUE_BYTES: u32 = 4;

    unsafe extern "C" {
        fn setsockopt(
            socket: c_int,
            level: c_int,
            name: c_int,
            value: *const c_void,
            len: u32,
        ) -> c_int;
    }

    pub(super) fn set(socket: BorrowedFd<'_>, bytes: i32) {
        // SAFETY: the descriptor is open as long as it is borrowed; the value is a `c_int` of that
        // length, which the call only reads. A refusal changes nothing.
        unsafe {
            setsockopt(
                socket.as_raw_fd(),
                SOL_SOCKET,
                SO_RCVLOWAT,
                (&raw const bytes).cast(),
                VALUE_BYTES,
            );
        }
    }
}

#[cfg(not(all(
    not(miri),
    any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64"
    )
)))]
mod low_water {
    pub(super) fn set(_: std::os::fd::BorrowedFd<'_>, _: i32) {}
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    use super::*;

    fn readable(socket: &TcpStream) -> bool {
        let wait = Timespec::try_from(Duration::ZERO).unwrap();
        let mut fds = [PollFd::new(socket, PollFlags::IN)];
        poll(&mut fds, Some(&wait)).unwrap() == 1
    }

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    #[test]
    fn the_end_of_the_peer_is_seen_behind_what_is_unread() {
        let (mut client, server) = pair();
        client.write_all(&[7; 10]).unwrap();
        assert!(!peer_has_ended(&server));
        client.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(peer_has_ended(&server));
        assert_eq!(unread_bytes(&server), 10);
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_reader_sleeps_until_there_is_enough_or_the_peer_has_ended() {
        let (mut client, server) = pair();
        wake_reader_at(&server, 1000);
        client.write_all(&[7; 999]).unwrap();
        assert_eq!(unread_bytes(&server), 999);
        assert!(!readable(&server));
        client.write_all(&[7]).unwrap();
        assert!(readable(&server));
        wake_reader_at(&server, 1001);
        assert!(!readable(&server));
        drop(client);
        assert!(readable(&server));
    }
}
