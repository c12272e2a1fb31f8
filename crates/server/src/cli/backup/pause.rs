//! Stops a process for a moment: no thread of it runs from [`PausedProcess::begin`] to its end.
//!
//! The kernel resumes it if this process ends in between, whatever ends it
//! (`platform::lifeline`). A second process, the guard, resumes it if this one hangs or is stopped
//! itself. The guard is in a process group of its own, so that a Ctrl-Z does not stop both.
//!
//! What the kernel was doing for the process (a write that was submitted) may still end meanwhile,
//! as it does when a process is killed.

use std::io::{self, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use platform::bounded;
use platform::lifeline::Lifeline;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, getrlimit, pidfd_open, pidfd_send_signal, setrlimit,
};

/// How long the guard waits for its process beyond the longest pause.
const GUARD_GRACE: Duration = Duration::from_secs(2);
/// A pause that is so much longer may have been ended by the guard.
const PAUSE_GRACE: Duration = Duration::from_secs(1);
/// What the guard says when it is there.
const READY: &str = "ready";
/// Between two looks at the threads.
const LOOK_EVERY: Duration = Duration::from_micros(200);

/// A process that is stopped. Dropping it resumes the process.
pub(super) struct PausedProcess {
    process: OwnedFd,
    guard: Option<Child>,
    since: Instant,
    most: Duration,
    _lifeline: Lifeline,
}

impl PausedProcess {
    /// Stops a process; fails if its threads do not all stand still within `most`.
    pub(super) fn begin(pid: i32, most: Duration) -> anyhow::Result<Self> {
        let process = handle(pid)?;
        // While the handle's process has not ended, no other has its number.
        let lifeline = Lifeline::to(known(pid)?).context("tying the broker to this process")?;
        let guard = start_guard(pid, most).context("starting the guard of the pause")?;
        let paused = Self {
            process,
            guard: Some(guard),
            since: Instant::now(),
            most,
            _lifeline: lifeline,
        };
        let sent = pidfd_send_signal(&paused.process, Signal::STOP);
        sent.with_context(|| {
            format!("stopping process {pid} for a moment: run this as its user, or as root")
        })?;
        while !stands_still(pid)? {
            if paused.since.elapsed() >= most {
                bail!("process {pid} did not stand still within the time of --pause-max");
            }
            sleep(LOOK_EVERY);
        }
        Ok(paused)
    }

    /// Returns when it was stopped.
    pub(super) fn since(&self) -> Instant {
        self.since
    }

    /// Resumes the process; returns for how long it stood still.
    pub(super) fn end(mut self) -> anyhow::Result<Duration> {
        let lasted = self.since.elapsed();
        let longest = self.most.saturating_add(PAUSE_GRACE);
        self.resume().context("resuming the broker")?;
        ensure!(
            lasted < longest,
            "the pause lasted {} ms: the guard may have ended it",
            lasted.as_millis()
        );
        Ok(lasted)
    }

    fn resume(&mut self) -> io::Result<()> {
        let Some(mut guard) = self.guard.take() else {
            return Ok(());
        };
        let resumed = pidfd_send_signal(&self.process, Signal::CONT);
        // Its standard input ends, and so does it.
        drop(guard.stdin.take());
        guard.wait()?;
        Ok(resumed?)
    }
}

impl Drop for PausedProcess {
    fn drop(&mut self) {
        // Who drops it has another error to tell; the guard resumes the process in any case.
        drop(self.resume());
    }
}

/// The guard's side: resumes a process when standard input ends, or when the pause lasts longer
/// than `most`, and a while.
pub(super) fn guard(pid: i32, most: Duration) -> anyhow::Result<()> {
    let process = handle(pid)?;
    writeln!(io::stdout(), "{READY}")?;
    let input = io::stdin();
    let deadline = Instant::now() + most + GUARD_GRACE;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left)?;
        let ready = poll(&mut [PollFd::new(&input, PollFlags::IN)], Some(&left));
        match ready {
            Err(rustix::io::Errno::INTR) => {}
            Ok(0) | Err(_) => break,
            Ok(_) => {
                if !matches!(input.lock().read(&mut [0; 64]), Ok(read) if read > 0) {
                    break;
                }
            }
        }
    }
    // A process that was not stopped does not notice.
    Ok(pidfd_send_signal(&process, Signal::CONT)?)
}

fn start_guard(pid: i32, most: Duration) -> anyhow::Result<Child> {
    let mut guard = Command::new(std::env::current_exe()?);
    let guard = guard.args(["backup", "--resume", &pid.to_string()]);
    let guard = guard.args(["--pause-max", &most.as_millis().to_string()]);
    let guard = guard.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = guard.process_group(0).spawn()?;
    let mut said = [0; READY.len()];
    let out = child.stdout.take();
    let is_ready = out.is_some_and(|mut out| out.read_exact(&mut said).is_ok());
    if !is_ready || said != *READY.as_bytes() {
        drop(child.stdin.take());
        child.wait()?;
        bail!("it has ended");
    }
    Ok(child)
}

/// Returns a handle of a process, which never means another one.
fn handle(pid: i32) -> anyhow::Result<OwnedFd> {
    let process = pidfd_open(known(pid)?, PidfdFlags::empty());
    process.with_context(|| format!("process {pid}"))
}

fn known(pid: i32) -> anyhow::Result<Pid> {
    Pid::from_raw(pid).context("not the id of a process")
}

/// Returns true when every thread of a process is stopped.
///
/// Threads of the kernel that work for it (`iou-`) do not count.
fn stands_still(pid: i32) -> anyhow::Result<bool> {
    let tasks = format!("/proc/{pid}/task");
    for task in std::fs::read_dir(&tasks).with_context(|| format!("reading {tasks}"))? {
        let file = task?.path().join("stat");
        // A thread that has ended meanwhile stands still.
        let Ok(stat) = bounded::kernel_text(&file) else {
            continue;
        };
        // The name is in parentheses and may have any characters.
        let Some((name, rest)) = stat.rsplit_once(')') else {
            continue;
        };
        let is_of_kernel = name.contains("(iou-");
        if !is_of_kernel && !rest.trim_start().starts_with(['T', 't', 'Z', 'X']) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Raises the soft limit of open files to the hard limit.
pub(super) fn raise_open_files() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let limit = Rlimit {
        current: maximum,
        maximum,
    };
    // Where it stays, opening says which limit there is.
    let _unchanged = setrlimit(Resource::Nofile, limit);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(pid: u32) -> char {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let (_, rest) = stat.rsplit_once(')').unwrap();
        rest.trim_start().chars().next().unwrap()
    }

    #[test]
    fn a_process_stands_still_only_when_it_is_stopped() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        assert!(!stands_still(pid).unwrap());
        let process = handle(pid).unwrap();
        pidfd_send_signal(&process, Signal::STOP).unwrap();
        while state(child.id()) != 'T' {
            std::thread::yield_now();
        }
        assert!(stands_still(pid).unwrap());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
