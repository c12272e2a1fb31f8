//! The return addresses on the stack of another thread of this process.
//!
//! This module sends a signal to the thread; its handler walks the stack and stores the addresses.
//! A thread that does not run (it is stopped, or blocks the signal) stores nothing. Addresses are
//! printed as `file+0xoffset`, which `addr2line -Cfe file 0xoffset` converts to lines. Invariants:
//! the handler allocates nothing and takes no lock, so it may interrupt anything, and the thread
//! continues afterwards; only one thread is examined at a time.
#![allow(unsafe_code, reason = "a signal handler, and the unwinder's interface")]

use std::ffi::{c_int, c_void};
use std::fmt::Write as _;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of stored frames.
const FRAMES_MAX: usize = 100;

static FRAMES: [AtomicUsize; FRAMES_MAX] = [const { AtomicUsize::new(0) }; FRAMES_MAX];
static COUNT: AtomicUsize = AtomicUsize::new(0);
static DONE: AtomicBool = AtomicBool::new(false);
static TURN: Mutex<()> = Mutex::new(());

/// A thread, as the argument of [`of`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThreadId(i32);

impl ThreadId {
    /// Returns the id of the calling thread.
    pub fn current() -> Self {
        Self(rustix::thread::gettid().as_raw_nonzero().get())
    }

    /// Returns the id as a number.
    pub fn as_raw(self) -> i32 {
        self.0
    }

    /// Creates an id from [`ThreadId::as_raw`].
    pub fn from_raw(raw: i32) -> Self {
        Self(raw)
    }
}

unsafe extern "C" {
    fn _Unwind_Backtrace(
        each: extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(frame: *mut c_void) -> usize;
}

extern "C" fn note(frame: *mut c_void, _: *mut c_void) -> c_int {
    /// Results for the unwinder: continue, and stop.
    const NO_REASON: c_int = 0;
    const NORMAL_STOP: c_int = 4;
    // SAFETY: the unwinder calls this with a frame that is valid for the call.
    let address = unsafe { _Unwind_GetIP(frame) };
    let at = COUNT.load(Ordering::Relaxed);
    let Some(slot) = FRAMES.get(at) else {
        return NORMAL_STOP;
    };
    slot.store(address, Ordering::Relaxed);
    COUNT.store(at + 1, Ordering::Relaxed);
    NO_REASON
}

extern "C" fn on_signal(_: c_int) {
    // SAFETY: restores `errno` of this thread, which the interrupted code may be about to read. The
    // unwinder reads tables that stay mapped for the life of the process, and passes only the frame
    // to `note`.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        _Unwind_Backtrace(note, std::ptr::null_mut());
        *errno = before;
    }
    DONE.store(true, Ordering::Release);
}

/// Returns the stack of a thread of this process, the innermost frame first.
///
/// Waits at most `wait`. The frames of the handler itself come first. Empty when the thread does
/// not respond.
pub fn of(thread: ThreadId, wait: Duration) -> io::Result<Vec<usize>> {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    COUNT.store(0, Ordering::Relaxed);
    DONE.store(false, Ordering::Release);
    let signal = libc::SIGRTMIN() + 5;
    // SAFETY: the action is zeroed, which is valid for it, and filled in; the handler follows the
    // rules for signal handlers. The signal is sent to a thread of this process by its id; an id
    // without a thread is refused.
    let sent = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
        if libc::sigaction(signal, &raw const action, std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        libc::syscall(libc::SYS_tgkill, libc::getpid(), thread.0, signal)
    };
    if sent != 0 {
        return Err(io::Error::last_os_error());
    }
    let deadline = Instant::now() + wait;
    while !DONE.load(Ordering::Acquire) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
    let count = COUNT.load(Ordering::Relaxed).min(FRAMES_MAX);
    let frames = FRAMES.iter().take(count);
    Ok(frames.map(|frame| frame.load(Ordering::Relaxed)).collect())
}

/// Formats addresses with the file that each is mapped from, separated by spaces.
pub fn named(frames: &[usize]) -> String {
    let maps = crate::bounded::kernel_text("/proc/self/maps").unwrap_or_default();
    let maps: Vec<_> = maps.lines().filter_map(mapping).collect();
    let mut text = String::new();
    for frame in frames {
        let file = maps.iter().find(|(range, _)| range.contains(frame));
        let begin = file.and_then(|(_, file)| maps.iter().find(|(_, other)| other == file));
        // Writing to a String cannot fail.
        let _ = match (file, begin) {
            (Some((_, file)), Some((first, _))) => {
                write!(text, " {file}+{:#x}", frame.saturating_sub(first.start))
            }
            _ => write!(text, " {frame:#x}"),
        };
    }
    text.trim_start().to_owned()
}

/// Parses the address range and the file of a line of `/proc/self/maps`.
fn mapping(line: &str) -> Option<(std::ops::Range<usize>, &str)> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let file = rest.find('/').and_then(|at| rest.get(at..))?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    Some((address(start)?..address(end)?, file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_thread_that_spins_tells_where_it_is_and_goes_on() {
        let stop = Arc::new(AtomicBool::new(false));
        let (tell, told) = std::sync::mpsc::channel();
        let seen = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            tell.send(ThreadId::current()).unwrap();
            let mut turns = 0_u64;
            while !seen.load(Ordering::Relaxed) {
                turns += 1;
            }
            turns
        });
        let id = told.recv().unwrap();
        for _ in 0..3 {
            let frames = of(id, Duration::from_secs(20)).unwrap();
            assert!(frames.len() > 3, "{frames:?}");
            let exe = std::env::current_exe().unwrap();
            let name = exe.file_name().unwrap().to_str().unwrap().to_owned();
            let text = named(&frames);
            assert!(text.contains(&format!("{name}+0x")), "{text}");
        }
        stop.store(true, Ordering::Relaxed);
        assert!(thread.join().unwrap() > 0);
        // The id may outlive the thread by a moment, during which it does not respond.
        let gone = of(id, Duration::from_millis(100));
        assert!(gone.is_err() || gone.is_ok_and(|frames| frames.is_empty()));
    }
}
