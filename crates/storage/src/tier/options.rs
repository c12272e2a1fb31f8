//! The settings that an owner passes to tiers: plain values without parsing.

use std::path::PathBuf;
use std::sync::Arc;

/// The kind of storage that the files of a tier lie on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Medium {
    /// Any file system.
    File,
    /// Persistent memory, mapped.
    Dax,
}

impl Medium {
    /// Returns its name in settings and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Dax => "dax",
        }
    }
}

/// What a tier keeps after a power loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Safety {
    /// Synced bytes survive.
    Durable,
    /// Nothing survives: the tier is memory that looks like a disk.
    Volatile,
}

impl Safety {
    /// Returns its name in settings and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Durable => "durable",
            Self::Volatile => "volatile",
        }
    }
}

/// How much of a path may be used, in addition to the bound of the file system's free room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Capacity {
    /// This many bytes.
    Bytes(u64),
    /// This many hundredths of the file system.
    Percent(u8),
    /// All of the file system.
    Whole,
}

impl Capacity {
    /// Returns the capacity in bytes on a file system of `total_bytes`.
    pub fn of(self, total_bytes: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => total_bytes / 100 * u64::from(percent.min(100)),
            Self::Whole => total_bytes,
        }
    }
}

/// One path of a tier.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathOptions {
    /// The directory.
    pub dir: PathBuf,
    /// How much of it may be used.
    pub capacity: Capacity,
}

/// One tier.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TierOptions {
    /// The name in `storage.tiers`.
    pub name: Arc<str>,
    /// The paths, at least one; those of the first tier are the log directories.
    pub paths: Vec<PathOptions>,
    /// The kind of storage of the paths.
    pub medium: Medium,
    /// What the paths keep after a power loss.
    pub safety: Safety,
    /// The declared read rate of each path, in bytes per second.
    pub read_bytes_per_second: Option<u64>,
    /// The declared write rate of each path, in bytes per second.
    pub write_bytes_per_second: Option<u64>,
}
