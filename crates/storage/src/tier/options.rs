//! What tiers are told by whoever owns them; plain values, no parsing.

use std::path::PathBuf;
use std::sync::Arc;

/// What the files of a tier lie on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Medium {
    /// Any file system.
    File,
    /// Persistent memory, mapped.
    Dax,
}

impl Medium {
    /// Its name in settings and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Dax => "dax",
        }
    }
}

/// What a tier keeps when the power goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Safety {
    /// What was synced is there again.
    Durable,
    /// Nothing: memory that looks like a disk.
    Volatile,
}

impl Safety {
    /// Its name in settings and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Durable => "durable",
            Self::Volatile => "volatile",
        }
    }
}

/// How much of a path may be used. What the file system has left bounds it in any case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Capacity {
    /// So many bytes.
    Bytes(u64),
    /// So many hundredths of the file system.
    Percent(u8),
    /// All of the file system.
    Whole,
}

impl Capacity {
    /// The bytes of it on a file system of `total_bytes`.
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
    /// `storage.tiers`: its name.
    pub name: Arc<str>,
    /// Its paths; at least one. Those of the first tier are the log directories.
    pub paths: Vec<PathOptions>,
    /// What the paths are on.
    pub medium: Medium,
    /// What they keep when the power goes.
    pub safety: Safety,
    /// Declared rate of reads, in bytes per second, of each path.
    pub read_bytes_per_second: Option<u64>,
    /// Declared rate of writes, in bytes per second, of each path.
    pub write_bytes_per_second: Option<u64>,
}
