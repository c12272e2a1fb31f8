//! The places where brokers under test put their data: a file system in memory, a directory as it
//! is, or a file system on a loop device that the kernel throttles.
//!
//! Invariant: a device is registered before it is made, so that `forebay bench device remove` or
//! the next run finds everything that a killed run left.
//!
//! A limited device emulates the throughput of reads and of writes, each on its own; it does not
//! emulate latency, the order of a queue or the cache of a real disk. It lies on this machine's
//! disk, which must be faster.

pub mod command_line;
mod limited;
mod memory;
pub mod registry;
mod throttle;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::experiment::need::shown;
use crate::experiment::{Device as Wanted, DeviceKind};
pub use registry::MadeDevice;

/// A device that is ready for use.
#[derive(Debug)]
pub struct Device {
    /// Its name in the results.
    pub name: String,
    /// The directory for data.
    pub dir: PathBuf,
    /// The `cgroup.procs` of the control group whose members are throttled, if the throttle applies
    /// to processes.
    pub join: Option<PathBuf>,
    /// Description of what is emulated, if anything is.
    pub emulated: Option<String>,
    made: Option<MadeDevice>,
}

/// Makes a device ready for use.
///
/// `dir` is a directory of the caller on the disk in question.
pub fn attach(wanted: &Wanted, dir: &Path, owner: Option<u32>) -> anyhow::Result<Device> {
    std::fs::create_dir_all(dir).with_context(|| format!("creating {}", dir.display()))?;
    let name = &wanted.name;
    match wanted.kind {
        DeviceKind::Disk => Ok(Device {
            name: name.clone(),
            dir: dir.to_owned(),
            join: None,
            emulated: None,
            made: None,
        }),
        DeviceKind::Memory => {
            let size = wanted.size.context("a device in memory needs a size")?;
            memory::make(name, dir, size, owner)
        }
        DeviceKind::Limited => {
            let size = wanted.size.context("a limited device needs a size")?;
            let rate = wanted.rate.context("a limited device needs a rate")?;
            limited::make(name, dir, size, rate, owner)
        }
    }
}

/// Returns why a device of this kind cannot be made here, or none if it can.
pub fn obstacle(wanted: &Wanted) -> Option<String> {
    match wanted.kind {
        DeviceKind::Disk => None,
        DeviceKind::Memory => memory::obstacle(),
        DeviceKind::Limited => limited::obstacle(),
    }
}

impl Device {
    /// Removes what was made for the device; a plain directory stays.
    pub fn detach(mut self) -> anyhow::Result<()> {
        self.made.take().map_or(Ok(()), |made| made.remove())
    }

    /// Keeps the device beyond this process; it stays until it is removed by name.
    pub fn keep(mut self) -> Option<MadeDevice> {
        self.made.take()
    }

    /// Flushes its dirty data to the disk, so that one measurement does not pay for the previous
    /// one.
    pub fn settle(&self) -> anyhow::Result<()> {
        let dir = std::fs::File::open(&self.dir)
            .with_context(|| format!("opening {}", self.dir.display()))?;
        rustix::fs::syncfs(&dir).with_context(|| format!("syncing {}", self.dir.display()))
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        if let Some(made) = self.made.take()
            && let Err(error) = made.remove()
        {
            eprintln!("forebay: device {}: {error:#}", self.name);
        }
    }
}

/// Returns whether this process may mount.
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Runs a command to its end and returns what it printed.
fn command<S: AsRef<OsStr>>(argv: &[S]) -> anyhow::Result<String> {
    let (program, arguments) = argv.split_first().context("an empty command")?;
    let shown = || {
        let parts: Vec<_> = argv
            .iter()
            .map(|part| part.as_ref().to_string_lossy())
            .collect();
        parts.join(" ")
    };
    let done = Command::new(program)
        .args(arguments)
        .output()
        .with_context(|| format!("running {}", shown()))?;
    if !done.status.success() {
        let words = String::from_utf8_lossy(&done.stderr);
        bail!("{}: {}: {}", shown(), done.status, words.trim());
    }
    Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned())
}

/// Returns whether a program of this name is on the path.
pub(crate) fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Mount tools are in sbin, which many users do not have on their path.
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .any(|dir| dir.join(program).is_file())
}

/// Returns the free bytes at a directory that exists or is yet to be created.
pub fn free_bytes(dir: &Path) -> anyhow::Result<u64> {
    let there = dir
        .ancestors()
        .find(|dir| dir.exists())
        .unwrap_or(Path::new("."));
    let found = rustix::fs::statvfs(there)
        .with_context(|| format!("asking for the free space of {}", there.display()))?;
    Ok(found.f_bavail * found.f_frsize)
}

/// Returns the line on a device for `forebay bench device list`.
pub fn line(made: &MadeDevice) -> String {
    let size = made.size.map(shown).unwrap_or_default();
    let rate = made.rate.map(|rate| format!(" at {}/s", shown(rate)));
    let owner = match made.owner {
        Some(_) if made.owner_runs() => " (of a run that is going on)",
        Some(_) => " (left by a run that is gone)",
        None => "",
    };
    format!(
        "{}\t{}{}\t{}{owner}\n",
        made.name,
        size,
        rate.unwrap_or_default(),
        made.dir.display()
    )
}
