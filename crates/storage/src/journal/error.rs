//! What goes wrong with a journal: by the path of its file, and by what its owner can do about it.
//!
//! Errors are cheap to clone: one failed write answers every caller that waited for it.
//! It does not map errors to those of a log (`crate::error`): the log decides what it does without
//! its journal.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use platform::disk::is_not_now;
use thiserror::Error;

use super::Head;
use super::header::HeaderError;
use super::names::parse_ring_name;
use super::scan::StopReason;
use crate::error::is_full;

/// The result type of the journal.
pub type Result<T, E = JournalError> = std::result::Result<T, E>;

/// Everything that can go wrong with a journal.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The file system returned an error.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// The operation that failed.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: Arc<io::Error>,
    },
    /// The file system is too small, or too full, for the ring.
    #[error("no room for the {needed} bytes of {path}{}", FreeBytes(*.free))]
    NoRoom {
        /// The ring's file.
        path: PathBuf,
        /// The length of the file.
        needed: u64,
        /// What was free when it began, if that was too little.
        free: Option<u64>,
    },
    /// A file with the name is there. A ring is never made over one that may hold commits.
    #[error("{path} is there already")]
    Exists {
        /// The ring's file.
        path: PathBuf,
    },
    /// The headers do not say that this version can read the ring. The file stays as it is.
    #[error("the journal {path} is not read: {reason}")]
    Refused {
        /// The ring's file.
        path: PathBuf,
        /// What is wrong with its headers.
        reason: HeaderError,
    },
    /// Commits are lost that may have been acknowledged. The file stays as it is.
    #[error("the journal {path} is damaged at commit {}: {reason}", .at.sequence.0)]
    Damaged {
        /// The ring's file.
        path: PathBuf,
        /// The commit that is missing there.
        at: Head,
        /// What shows it.
        reason: StopReason,
    },
    /// The ring has commits, and the log directory was left by a clean stop, which leaves none:
    /// another program has used it since. The file stays as it is.
    #[error(
        "the journal {path} has commits, but its log directory was left cleanly since, by another program"
    )]
    Overtaken {
        /// The ring's file.
        path: PathBuf,
    },
    /// A ring that counts is not there.
    #[error(
        "the journal {path} is not there, and it may have bytes that no log has: is its file system mounted? If it is \
         elsewhere now, `forebay recover --journal-dir` takes it from there; if it is gone for good, start once with \
         --forget-journals"
    )]
    Missing {
        /// The ring's file.
        path: PathBuf,
    },
    /// A ring is not the one that counts: an older copy of it, or one of another time.
    #[error(
        "the journal {path} is not the one that its log directory wrote last: was it restored from a backup, or is it of \
         another disk? The right one may have bytes that no log has: if it is elsewhere, `forebay recover \
         --journal-dir` takes it from there; if it is gone for good, start once with --forget-journals"
    )]
    Stale {
        /// The ring's file.
        path: PathBuf,
    },
    /// A log has bytes in the journal, and two folders say that they are its own. No file is
    /// changed.
    #[error(
        "{first} and {second} have the same topic id in partition.metadata, and the journal has bytes of it: remove the one that is a copy"
    )]
    TwoFolders {
        /// One of them.
        first: PathBuf,
        /// The other one.
        second: PathBuf,
    },
    /// The mark that a ring is void cannot be read: whether the ring counts is not known. Both
    /// files stay as they are.
    #[error(
        "the mark {path} is damaged: it says that a journal has failed and does not count, and until which write. If it was \
         not put there by hand, start once with --forget-journals: the logs have had everything when it was written"
    )]
    Unreadable {
        /// The mark's file.
        path: PathBuf,
    },
    /// The log directory does not say which one it is.
    #[error("{reason}")]
    NoIdentity {
        /// What is wrong with `meta.properties`.
        reason: Arc<str>,
    },
    /// The numbers of the ring are near their end: the file has to be replaced.
    #[error("the journal {path} is worn out: remove it when its commits are in the segments")]
    WornOut {
        /// The ring's file.
        path: PathBuf,
    },
    /// No commit of this ring is that long: the caller hands in less at once.
    #[error("a commit of {bytes} bytes, where the ring takes {bytes_max}")]
    TooLong {
        /// The length of the commit.
        bytes: u64,
        /// The length of the longest one.
        bytes_max: u64,
    },
    /// What was handed in makes no sense: a mistake of the caller.
    #[error("not for a journal: {reason}")]
    Unfit {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// An earlier write failed. Nothing is written any more until the next start.
    #[error("the journal failed: {reason}")]
    Failed {
        /// The first failure.
        reason: Arc<str>,
    },
    /// There is no room, and no log lands that would make some. It may be tried again.
    #[error("the journal is full, and no log lands")]
    Stuck,
    /// The journal's tasks have ended.
    #[error("the journal is closed")]
    Closed,
}

impl JournalError {
    /// Returns a function for `map_err` on disk calls that adds the operation and its path.
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            action,
            path: path.to_path_buf(),
            source: Arc::new(source),
        }
    }

    /// Returns the error of making a file of this length: a full file system is no other failure.
    pub(super) fn of_making(self, path: &Path, needed: u64) -> Self {
        match self {
            Self::Io { source, .. } if is_full(&source) => Self::NoRoom {
                path: path.to_path_buf(),
                needed,
                free: None,
            },
            other => other,
        }
    }

    /// Returns true when a ring's file is the reason.
    pub(super) fn is_of(&self, ring: &Path) -> bool {
        match self {
            Self::Io { path, .. }
            | Self::Refused { path, .. }
            | Self::Damaged { path, .. }
            | Self::Overtaken { path }
            | Self::Missing { path }
            | Self::Stale { path } => path == ring,
            _ => false,
        }
    }

    /// Returns true when the machine lacks descriptors or memory: it may be tried again.
    pub(super) fn is_exhausted(&self) -> bool {
        matches!(self, Self::Io { source, .. } if is_not_now(source))
    }

    /// Returns true when a disk has no room for what the journal has.
    pub fn is_full(&self) -> bool {
        match self {
            Self::Io { source, .. } => is_full(source),
            _ => false,
        }
    }

    /// Returns what an operator can do about a ring that counts and cannot be read, where the error
    /// does not say it.
    pub fn remedy(&self) -> Option<String> {
        let path = match self {
            _ if self.is_exhausted() => return None,
            _ if self.is_full() => {
                return Some(
                    ". The journal has bytes that the logs lack: they need room there (docs/journal.md)"
                        .to_owned(),
                );
            }
            Self::Io { path, .. }
            | Self::Refused { path, .. }
            | Self::Damaged { path, .. }
            | Self::Overtaken { path } => path,
            _ => return None,
        };
        let name = path.file_name()?.to_str()?;
        parse_ring_name(name).map(|_| {
            format!(
                ". It may have bytes that no log has, and nothing was changed: `forebay journal show {}` says what can be \
                 read of it. If it cannot be had any more, start once with --forget-journals: what it alone has is lost \
                 (docs/journal.md)",
                path.display()
            )
        })
    }

    /// Returns the error that every caller gets from now on.
    pub(super) fn latched(&self) -> Self {
        match self {
            Self::Failed { .. } => self.clone(),
            other => Self::Failed {
                reason: other.to_string().into(),
            },
        }
    }
}

/// Tells what is free, if that is known.
struct FreeBytes(Option<u64>);

impl fmt::Display for FreeBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(free) => write!(f, ", of which {free} are free"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::End => f.write_str("nothing of this lap is there"),
            Self::Torn => f.write_str("it is not whole"),
            Self::OtherIncarnation => f.write_str("it is of an earlier use of the ring"),
            Self::Ahead(found) => {
                let found = found.0;
                write!(
                    f,
                    "commit {found} is in its place, and the headers are older"
                )
            }
            Self::Impossible(what) => write!(f, "impossible: {what}"),
            Self::Lost => f.write_str("a later block shows that it was there"),
        }
    }
}
