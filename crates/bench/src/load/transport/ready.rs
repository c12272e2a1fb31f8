//! The readiness of a socket: after a short read or write it is cleared, for the kernel tells when
//! there is more.

use std::io::{self, ErrorKind};

use tokio::io::Interest;
use tokio::net::TcpStream;

/// Reads what is there, and clears the readiness after a short read.
pub(super) fn read_some(socket: &TcpStream, into: &mut [u8]) -> io::Result<usize> {
    let read = socket.try_read(into)?;
    if read < into.len() {
        is_blocked(socket, Interest::READABLE);
    }
    Ok(read)
}

/// Clears the readiness of a socket.
pub(super) fn is_blocked(socket: &TcpStream, interest: Interest) {
    // The closure returns `WouldBlock` to clear the readiness; the error is expected.
    let _ = socket.try_io(interest, || Err::<(), _>(ErrorKind::WouldBlock.into()));
}
