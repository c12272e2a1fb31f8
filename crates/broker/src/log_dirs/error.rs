//! Why the log directories cannot be used, in messages that name the place and the remedy.

use std::path::PathBuf;

use storage::checkpoint::MalformedFileError;
use storage::journal::JournalError;

/// Why the log directories cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogDirsError {
    /// A file system operation failed.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// The operation that failed.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// A file does not have the format of its name.
    #[error(transparent)]
    Malformed(#[from] MalformedFileError),
    /// The journal of a directory cannot be replayed.
    #[error("{}{}", .0, .0.remedy().unwrap_or_default())]
    Journal(JournalError),
    /// What deleted topics have left cannot be looked at.
    #[error(transparent)]
    Leftovers(#[from] storage::Error),
    /// A directory of another cluster.
    #[error("{path} belongs to cluster {found}, not {expected}")]
    OtherCluster {
        /// The directory.
        path: PathBuf,
        /// Cluster id in its `meta.properties`.
        found: String,
        /// Cluster id expected.
        expected: String,
    },
    /// A directory of another node.
    #[error(
        "{path} belongs to node {found}, not {expected}: set node.id={found} or use another directory"
    )]
    OtherNode {
        /// The directory.
        path: PathBuf,
        /// Node id in its `meta.properties`.
        found: i32,
        /// Node id configured.
        expected: i32,
    },
    /// A directory without an owner beside directories of this node.
    #[error(
        "no meta.properties found in {path}, and other directories of log.dirs have one: is its file system mounted? \
         If it is a new directory, start once with --format-new-log-dirs"
    )]
    Unformatted {
        /// The directory.
        path: PathBuf,
    },
    /// A directory of an earlier start is missing.
    #[error(
        "log directory {id}, last at {path}, is not among log.dirs: is its file system mounted, and is it named? If it \
         is gone for good, with what was in it, start once with --forget-missing-log-dirs"
    )]
    Missing {
        /// Its id.
        id: String,
        /// Its last path.
        path: PathBuf,
    },
    /// A directory and a copy of it.
    #[error(
        "{one} and {other} have the same directory.id, {id}: one is a copy of the other. Take the one that is not wanted out \
         of the settings"
    )]
    Twice {
        /// The first directory.
        one: PathBuf,
        /// The second directory.
        other: PathBuf,
        /// The id of both.
        id: String,
    },
    /// A log directory among the lower tiers.
    #[error(
        "{path} is a log directory, where logs are at home, and it is named as a path of a lower tier: are two paths \
         exchanged, or are the tiers in another order?"
    )]
    IsHome {
        /// The directory.
        path: PathBuf,
    },
    /// A directory with logs but without `meta.properties`.
    #[error(
        "there are logs in {path}, and no meta.properties: nobody knows whose they are. Restore that file; or start once \
         with --format-new-log-dirs, and with cluster.id={{the id of the cluster}}, to make it anew"
    )]
    NoIdentity {
        /// The directory.
        path: PathBuf,
    },
    /// A repair that a crash interrupted.
    #[error(
        "a repair of the metadata log in {path} was cut short; `forebay metadata repair {path}` finishes it"
    )]
    CutShort {
        /// The directory.
        path: PathBuf,
    },
    /// Logs without a metadata log.
    #[error(
        "there are logs in {path}, and the metadata log is in none of log.dirs: is a directory missing? If it is gone for \
         good, start once with --forget-missing-log-dirs"
    )]
    NoMetadata {
        /// One of the directories.
        path: PathBuf,
    },
}

impl From<JournalError> for LogDirsError {
    fn from(error: JournalError) -> Self {
        Self::Journal(error)
    }
}
