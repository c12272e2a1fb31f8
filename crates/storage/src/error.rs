//! The errors of storage, grouped into the few kinds that a caller treats differently.
//!
//! Errors are cheap to clone and may cross shards: one failed write answers every producer that
//! waited for it.
//! It does not map errors to Kafka's error codes.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use platform::disk::is_not_now;
use wire::types::{Offset, TopicId};

/// The result type of storage.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong in a log.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file system returned an error; no permanent damage is known.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// The operation that failed.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: Arc<io::Error>,
    },
    /// The disk has no room. The log refuses appends until there is room again; reads, retention
    /// and deletion continue.
    #[error("no room left on the disk that holds {path}")]
    Full {
        /// The log's directory.
        path: PathBuf,
    },
    /// The machine is short of descriptors or memory. The log refuses appends until the shortage
    /// ends; no damage is known.
    #[error("cannot {action} {path} just now: {source}")]
    Exhausted {
        /// The operation, which did not happen.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: Arc<io::Error>,
    },
    /// On another path, the folder with the log's name does not belong to the log. Storage puts no
    /// segment of the log on that path until an operator removes the folder. The path is neither
    /// full nor broken.
    #[error("{path} is not used: {reason}")]
    Taken {
        /// The folder.
        path: PathBuf,
        /// What the folder is instead.
        reason: &'static str,
    },
    /// There is no memory for more bytes in flight, or the log is being truncated; the caller may
    /// retry.
    #[error("the log cannot take more bytes just now")]
    Busy,
    /// An earlier write or sync failed. The log refuses appends until the process restarts; reads
    /// continue.
    #[error("the log failed: {reason}")]
    Failed {
        /// The first failure.
        reason: Arc<str>,
    },
    /// The segment is on a missing path or was found damaged. It is neither served nor deleted.
    #[error("{path} is offline: {reason}")]
    Offline {
        /// The segment's data file.
        path: PathBuf,
        /// The reason.
        reason: Arc<str>,
    },
    /// The log was closed or deleted.
    #[error("the log is closed")]
    Closed,
    /// The offset is not in the log.
    #[error("offset {offset} is outside {start}..={end}")]
    OutOfRange {
        /// The requested offset.
        offset: Offset,
        /// The log start offset.
        start: Offset,
        /// The log end offset.
        end: Offset,
    },
    /// The bytes on disk are not those that were written. They are never served.
    #[error("{path} is damaged at byte {position}: {reason}")]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The position in the file, in bytes.
        position: u64,
        /// What is wrong there.
        reason: &'static str,
    },
    /// The directory belongs to another topic of the same name.
    #[error("{path} belongs to topic id {found}, not {expected}")]
    OtherTopic {
        /// The log's directory.
        path: PathBuf,
        /// The id in `partition.metadata`.
        found: TopicId,
        /// The id of the topic to be opened.
        expected: TopicId,
    },
    /// The bytes to be appended are not one or more whole batches in order: a mistake of the
    /// caller.
    #[error("not appendable: {reason}")]
    Invalid {
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// The ways in which callers react to an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailureKind {
    /// A retry may succeed.
    Retry,
    /// A retry succeeds once the disk has room again or another temporary shortage or obstacle is
    /// gone.
    Full,
    /// The log or its directory is offline for appends.
    Failed,
    /// Bytes are damaged.
    Corrupt,
    /// The caller asked for something impossible.
    Invalid,
    /// The log was closed or deleted.
    Closed,
}

impl Error {
    /// Returns how a caller reacts to this error.
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Io { .. } | Self::Busy | Self::Offline { .. } => FailureKind::Retry,
            Self::Full { .. } | Self::Exhausted { .. } | Self::Taken { .. } => FailureKind::Full,
            Self::Failed { .. } => FailureKind::Failed,
            Self::Corrupt { .. } => FailureKind::Corrupt,
            Self::OutOfRange { .. } | Self::OtherTopic { .. } | Self::Invalid { .. } => {
                FailureKind::Invalid
            }
            Self::Closed => FailureKind::Closed,
        }
    }

    /// Returns true when the log recovers by itself once an external condition changes.
    ///
    /// Records that the log accepted stay accepted.
    pub fn is_passing(&self) -> bool {
        matches!(self.kind(), FailureKind::Full | FailureKind::Retry)
    }

    /// Returns a function for `map_err` on disk calls that adds the operation and its path.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| {
            let path = path.to_path_buf();
            if is_full(&source) {
                return Self::Full { path };
            }
            let exhausted = is_not_now(&source);
            let source = Arc::new(source);
            if exhausted {
                Self::Exhausted {
                    action,
                    path,
                    source,
                }
            } else {
                Self::Io {
                    action,
                    path,
                    source,
                }
            }
        }
    }

    /// Returns the same for the sync of a file.
    ///
    /// Whatever the reason of the failure, the bytes that the sync covered may be lost.
    pub(crate) fn file_sync(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            action: "sync",
            path: path.to_path_buf(),
            source: source.into(),
        }
    }

    /// Returns the same for the sync of a directory.
    ///
    /// If there was no descriptor to open the directory, the sync was not tried and the error is
    /// [`Error::Exhausted`].
    pub(crate) fn dir_sync(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| {
            if is_not_now(&source) {
                Self::io("sync", path)(source)
            } else {
                Self::file_sync(path)(source)
            }
        }
    }

    /// Returns the file or folder that the error concerns, if any.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::Io { path, .. }
            | Self::Full { path }
            | Self::Exhausted { path, .. }
            | Self::Taken { path, .. }
            | Self::Corrupt { path, .. }
            | Self::Offline { path, .. } => Some(path),
            _ => None,
        }
    }

    /// Returns true when the only cause is a temporary shortage of the machine.
    pub fn is_exhausted(&self) -> bool {
        matches!(self, Self::Exhausted { .. })
    }

    /// Returns true when a change to the disk failed; the path then takes no more changes.
    pub(crate) fn is_of_a_write(&self) -> bool {
        match self {
            Self::Io { action, source, .. } => {
                let reads = ["open", "read", "list"];
                !reads.contains(action) && source.kind() != io::ErrorKind::NotFound
            }
            _ => false,
        }
    }

    /// Returns the error as a latch, which is what later callers get.
    pub(crate) fn latched(&self) -> Self {
        match self {
            Self::Failed { .. } => self.clone(),
            other => Self::Failed {
                reason: other.to_string().into(),
            },
        }
    }
}

/// Returns true for "no space left on device" and "quota exceeded".
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}
