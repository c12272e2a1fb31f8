//! The replacement for `guard.rs` on processors without its routines: the medium is refused.
//!
//! Invariant: nothing is mapped, so only `install` is ever called. Not here: emulation.
#![allow(unsafe_code, reason = "has the signatures of the real ones")]

use std::io;

pub(super) unsafe fn store(_to: *mut u8, _from: *const u8, _len: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(super) unsafe fn load(_to: *mut u8, _from: *const u8, _len: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(super) unsafe fn probe(_from: *const u8, _len: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(super) fn media_error() -> io::Error {
    io::Error::from(rustix::io::Errno::IO)
}

pub(super) fn install() -> io::Result<()> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "stores to persistent memory are written for x86-64 only",
    ))
}
