//! Has the kernel continue a stopped process when this process ends, whatever ends it.
//!
//! A pipe with both ends in this process is set to tell of its hang-up by SIGCONT to the other
//! process. When this process ends, the kernel closes its descriptors; the end that is closed
//! first hangs up the one that tells. The kernel does not promise in which order it closes them, so
//! there are two pipes, with their numbers in either order.
//!
//! Invariants: the descriptors are closed on exec, so no child keeps a pipe open; the kernel holds
//! the process itself, not its number, so another one never gets the signal. It needs what a
//! signal to the process needs: its user, or root.

#![allow(unsafe_code, reason = "a call that no crate has wrapped")]

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::Pid;

/// Sets the signal that tells of a change; `fcntl.h` of Linux, not in libc's bindings.
const F_SETSIG: libc::c_int = 10;

/// While it exists, the end of this process continues the other one. Dropping it does, too.
#[derive(Debug)]
#[allow(dead_code, reason = "it is held, and closed with this process")]
pub struct Lifeline([WatchedPipe; 2]);

/// A pipe; dropping it closes the end that hangs up the other first.
#[derive(Debug)]
#[allow(dead_code, reason = "it is held, and closed with this process")]
struct WatchedPipe {
    other: OwnedFd,
    watched: OwnedFd,
}

impl Lifeline {
    /// Ties a process to this one.
    pub fn to(process: Pid) -> io::Result<Self> {
        let to = |is_higher| WatchedPipe::to(process, is_higher);
        Ok(Self([to(false)?, to(true)?]))
    }
}

impl WatchedPipe {
    /// Makes a pipe whose watched end has the higher number, or the lower.
    fn to(process: Pid, is_higher: bool) -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        let (mut watched, mut other) = (OwnedFd::from(reader), OwnedFd::from(writer));
        let (lower, higher) = if is_higher {
            (&other, &mut watched)
        } else {
            (&watched, &mut other)
        };
        if higher.as_raw_fd() < lower.as_raw_fd() {
            let above = lower.as_raw_fd().saturating_add(1);
            *higher = fcntl_dupfd_cloexec(&*higher, above).map_err(|error| match error {
                // There is no number above: the limit of open files is reached.
                Errno::INVAL => Errno::MFILE,
                error => error,
            })?;
        }
        let call = |what, how: libc::c_int| {
            // SAFETY: passes numbers only, about a descriptor that is open.
            match unsafe { libc::fcntl(watched.as_raw_fd(), what, how) } {
                -1 => Err(io::Error::last_os_error()),
                _ => Ok(()),
            }
        };
        call(libc::F_SETOWN, process.as_raw_nonzero().get())?;
        call(F_SETSIG, libc::SIGCONT)?;
        let flags =
            fcntl_getfl(&watched)? | OFlags::from_bits_retain(libc::O_ASYNC.cast_unsigned());
        fcntl_setfl(&watched, flags)?;
        Ok(Self { other, watched })
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rustix::process::{Signal, kill_process};

    use super::*;

    fn state(pid: u32) -> char {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let (_, rest) = stat.rsplit_once(')').unwrap();
        rest.trim_start().chars().next().unwrap()
    }

    #[test]
    fn a_stopped_process_goes_on_when_either_pipe_is_closed() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let id = child.id();
        let pid = Pid::from_raw(i32::try_from(id).unwrap()).unwrap();
        for is_higher in [false, true] {
            let pipe = WatchedPipe::to(pid, is_higher).unwrap();
            let (watched, other) = (pipe.watched.as_raw_fd(), pipe.other.as_raw_fd());
            assert_eq!(watched > other, is_higher);
            kill_process(pid, Signal::STOP).unwrap();
            while state(id) != 'T' {
                std::thread::yield_now();
            }
            drop(pipe);
            while state(id) == 'T' {
                std::thread::yield_now();
            }
        }
        drop(Lifeline::to(pid).unwrap());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
