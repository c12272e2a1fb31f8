//! Why the log could not do something, in the few ways that a caller treats differently.
//!
//! Errors are cheap to clone and may cross shards: one failed write answers every producer that waited for it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use platform::disk::is_not_now;
use wire::types::{Offset, TopicId};

/// What storage returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong in a log.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file system refused; nothing is known to be broken for good.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// What the operating system said.
        source: Arc<io::Error>,
    },
    /// The disk has no room. Appends are refused until there is some; reads, retention and deletion go on.
    #[error("no room left on the disk that holds {path}")]
    Full {
        /// The log's directory.
        path: PathBuf,
    },
    /// The machine is short of descriptors or memory just now. Appends are refused until it no longer is; nothing is
    /// known to be broken.
    #[error("cannot {action} {path} just now: {source}")]
    Exhausted {
        /// What was tried, and has not happened.
        action: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// What the operating system said.
        source: Arc<io::Error>,
    },
    /// The folder of the log's name on another path is not its own: nothing of the log is put there until it is out of the
    /// way. The path is neither full nor broken.
    #[error("{path} is not used: {reason}")]
    Taken {
        /// The folder.
        path: PathBuf,
        /// What it is instead.
        reason: &'static str,
    },
    /// No memory for more bytes in flight, or the log is being truncated: try again.
    #[error("the log cannot take more bytes just now")]
    Busy,
    /// A write or sync failed earlier: the log takes no appends until the process starts again. Reads go on.
    #[error("the log failed: {reason}")]
    Failed {
        /// The first failure.
        reason: Arc<str>,
    },
    /// The segment is on a path that is not there, or was found damaged: it is neither served nor deleted.
    #[error("{path} is offline: {reason}")]
    Offline {
        /// The segment's data file.
        path: PathBuf,
        /// Why.
        reason: Arc<str>,
    },
    /// The log was closed or deleted.
    #[error("the log is closed")]
    Closed,
    /// The offset is not in the log.
    #[error("offset {offset} is outside {start}..={end}")]
    OutOfRange {
        /// What was asked for.
        offset: Offset,
        /// The log start offset.
        start: Offset,
        /// The log end offset.
        end: Offset,
    },
    /// Bytes on disk are not what was written. They are never served.
    #[error("{path} is damaged at byte {position}: {reason}")]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where in it.
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
        /// The id that was to be opened.
        expected: TopicId,
    },
    /// What was to be appended is not one or more whole batches in order: a caller's mistake.
    #[error("not appendable: {reason}")]
    Invalid {
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// The ways in which callers react.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// May work when tried again.
    Retry,
    /// Works when there is room again, or whatever else the machine is short of for the time being.
    Full,
    /// The log or its directory is offline for appends.
    Failed,
    /// Bytes are damaged.
    Corrupt,
    /// The caller asked for something that cannot be.
    Invalid,
    /// The log is gone.
    Closed,
}

impl Error {
    /// How to react.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Io { .. } | Self::Busy | Self::Offline { .. } => Kind::Retry,
            Self::Full { .. } | Self::Exhausted { .. } | Self::Taken { .. } => Kind::Full,
            Self::Failed { .. } => Kind::Failed,
            Self::Corrupt { .. } => Kind::Corrupt,
            Self::OutOfRange { .. } | Self::OtherTopic { .. } | Self::Invalid { .. } => {
                Kind::Invalid
            }
            Self::Closed => Kind::Closed,
        }
    }

    /// True when the log goes on by itself once something outside of it has changed: what it has taken stays taken.
    pub fn is_passing(&self) -> bool {
        matches!(self.kind(), Kind::Full | Kind::Retry)
    }

    /// For `map_err` on calls of the disk: names what was tried and on what.
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

    /// The same for the sync of a file: whatever the reason, what it should have made durable may be gone.
    pub(crate) fn file_sync(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            action: "sync",
            path: path.to_path_buf(),
            source: source.into(),
        }
    }

    /// The same for the sync of a directory. Without a descriptor to open it with it has not been tried.
    pub(crate) fn dir_sync(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| {
            if is_not_now(&source) {
                Self::io("sync", path)(source)
            } else {
                Self::file_sync(path)(source)
            }
        }
    }

    /// What it is about, where that is a file or a folder.
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

    /// True when only the machine is short of something for the time being.
    pub fn is_exhausted(&self) -> bool {
        matches!(self, Self::Exhausted { .. })
    }

    /// True for a refusal of what would have changed the disk: the path that it happened on takes no more changes.
    pub(crate) fn is_of_a_write(&self) -> bool {
        match self {
            Self::Io { action, source, .. } => {
                let reads = ["open", "read", "list"];
                !reads.contains(action) && source.kind() != io::ErrorKind::NotFound
            }
            _ => false,
        }
    }

    /// The same trouble as a latch: what later callers are told.
    pub(crate) fn latched(&self) -> Self {
        match self {
            Self::Failed { .. } => self.clone(),
            other => Self::Failed {
                reason: other.to_string().into(),
            },
        }
    }
}

/// True for "no space left on device" and "quota exceeded".
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}
