//! The registry of devices that must be removed again: one file per device in the user's cache
//! directory.
//!
//! Invariant: `remove` may be called at any point of the making, and again after it failed half
//! way.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};

use super::command;
use super::throttle::Throttle;
use crate::target::jars::cache;

/// How long `remove` waits for a busy file system.
const BUSY_MAX: Duration = Duration::from_secs(10);

/// One device and its parts; a part that does not exist (yet) is none.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct MadeDevice {
    /// Its name.
    pub name: String,
    /// The directory for data.
    pub dir: PathBuf,
    /// Size of the file system.
    pub size: Option<u64>,
    /// Bytes per second.
    pub rate: Option<u64>,
    /// Whether a file system is mounted on `dir`.
    pub mounted: bool,
    /// The file behind the loop device.
    pub image: Option<PathBuf>,
    /// The loop device.
    pub loop_device: Option<PathBuf>,
    /// The kernel rule that throttles it.
    pub(super) throttle: Option<Throttle>,
    /// The process that made it for its own use.
    pub owner: Option<u32>,
    /// When that process was started; tells it from a later process with the same pid.
    pub owner_started: Option<u64>,
}

impl MadeDevice {
    pub(super) fn begin(name: &str, dir: PathBuf, owner: Option<u32>) -> anyhow::Result<Self> {
        let made = Self {
            name: name.to_owned(),
            dir,
            owner,
            owner_started: owner.and_then(started),
            ..Self::default()
        };
        if made.file().exists() {
            bail!(
                "there is a device {name} already: forebay bench device remove {name}, or take another name"
            );
        }
        made.save()?;
        Ok(made)
    }

    fn file(&self) -> PathBuf {
        directory().join(format!("{}.json", self.name))
    }

    /// Saves the entry in its current state.
    pub(super) fn save(&self) -> anyhow::Result<()> {
        let file = self.file();
        std::fs::create_dir_all(directory())
            .and_then(|()| std::fs::write(&file, serde_json::to_vec_pretty(self)?))
            .with_context(|| format!("writing {}", file.display()))
    }

    /// Returns whether the process that made it still runs.
    pub fn owner_runs(&self) -> bool {
        self.owner
            .is_some_and(|pid| started(pid).is_some() && started(pid) == self.owner_started)
    }

    /// Removes the device: the mount, the throttle rule, the loop device, the image, the directory,
    /// the registry entry.
    pub fn remove(&self) -> anyhow::Result<()> {
        if self.mounted && is_mounted(&self.dir) {
            unmount(&self.dir)?;
        }
        if let Some(throttle) = &self.throttle {
            throttle.lift()?;
        }
        if let Some(device) = &self.loop_device
            && loop_file(device).is_some_and(|file| Some(file) == self.image)
        {
            command(&["losetup".as_ref(), "--detach".as_ref(), device.as_os_str()])?;
        }
        if let Some(image) = &self.image {
            gone(std::fs::remove_file(image))
                .with_context(|| format!("removing {}", image.display()))?;
        }
        let removed = if self.mounted || self.image.is_some() {
            std::fs::remove_dir(&self.dir)
        } else {
            std::fs::remove_dir_all(&self.dir)
        };
        gone(removed).with_context(|| format!("removing {}", self.dir.display()))?;
        gone(std::fs::remove_file(self.file()))
            .with_context(|| format!("removing {}", self.file().display()))
    }
}

/// Returns the registered devices, sorted by name.
pub fn all() -> anyhow::Result<Vec<MadeDevice>> {
    let entries = match std::fs::read_dir(directory()) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(|| format!("reading {}", directory().display()))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let text = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        let made: MadeDevice = serde_json::from_slice(&text)
            .with_context(|| format!("{} is not ours", path.display()))?;
        found.push(made);
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// Removes the devices of runs that have ended, and returns their names.
pub fn sweep() -> anyhow::Result<Vec<String>> {
    let orphaned = |made: &MadeDevice| made.owner.is_some() && !made.owner_runs();
    let mut removed = Vec::new();
    for made in all()?.into_iter().filter(orphaned) {
        made.remove()
            .with_context(|| format!("device {}, left by a run that is gone", made.name))?;
        removed.push(made.name);
    }
    Ok(removed)
}

fn directory() -> PathBuf {
    cache().join("devices")
}

/// Returns when a process was started, in ticks since boot; none if it does not run.
fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(19)?.parse().ok()
}

fn is_mounted(dir: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let dir = dir.to_string_lossy().replace(' ', "\\040");
    mounts
        .lines()
        .any(|line| line.split(' ').nth(4) == Some(&dir))
}

fn unmount(dir: &Path) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        match command(&["umount".as_ref(), dir.as_os_str()]) {
            Ok(_) => return Ok(()),
            Err(error) if begun.elapsed() > BUSY_MAX => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(200)),
        }
    }
}

/// Returns the file behind a loop device; none if it has none (any more).
fn loop_file(device: &Path) -> Option<PathBuf> {
    let name = device.file_name()?;
    let file = Path::new("/sys/block").join(name).join("loop/backing_file");
    let text = std::fs::read_to_string(file).ok()?;
    Some(PathBuf::from(text.trim_end()))
}

fn gone(result: std::io::Result<()>) -> std::io::Result<()> {
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
