//! The slice that the scheduler gives a thread.
//!
//! Invariant: policy and niceness of the thread stay. Kernels before 6.12 take the number and
//! ignore it.
#![allow(unsafe_code, reason = "the call has no safe wrapper")]

use std::io;
use std::mem::size_of;
use std::time::Duration;

/// Returns what the scheduler keeps of this thread.
fn of_this_thread() -> io::Result<libc::sched_attr> {
    let size = size_of::<libc::sched_attr>();
    // SAFETY: the struct is numbers only, and all zeros are valid numbers.
    let mut kept: libc::sched_attr = unsafe { std::mem::zeroed() };
    // SAFETY: 0 is this thread; the kernel writes `size` bytes at most, which `kept` has.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut kept, size, 0) };
    if got == 0 {
        Ok(kept)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Sets the slice of this thread; the kernel takes 0.1 to 100 ms.
pub(super) fn set(slice: Duration) -> io::Result<()> {
    let mut kept = of_this_thread()?;
    // Real-time threads and those of the deadline class have no such slice.
    if ![libc::SCHED_OTHER, libc::SCHED_BATCH].contains(&(kept.sched_policy.cast_signed())) {
        return Ok(());
    }
    kept.sched_runtime = u64::try_from(slice.as_nanos()).unwrap_or(u64::MAX);
    // SAFETY: 0 is this thread; the kernel reads the bytes that `size` in the struct says, which
    // `sched_getattr` has set to at most its length.
    let set = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const kept, 0) };
    if set == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_and_niceness_stay() {
        std::thread::spawn(|| {
            rustix::process::setpriority_process(None, 7).unwrap();
            let before = of_this_thread().unwrap();
            set(Duration::from_millis(50)).unwrap();
            let kept = of_this_thread().unwrap();
            assert_eq!(kept.sched_nice, 7);
            assert_eq!(kept.sched_policy, before.sched_policy);
            // Kernels before 6.12 keep none, and other policies have none.
            assert!([before.sched_runtime, 50_000_000].contains(&kept.sched_runtime));
        })
        .join()
        .unwrap();
    }
}
