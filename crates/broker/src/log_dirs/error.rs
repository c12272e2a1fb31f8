//! Why the log directories cannot be used, in words that name the place and the remedy.

use std::path::PathBuf;

use storage::checkpoint::Malformed;

/// Why the log directories cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogDirsError {
    /// The file system refused.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A file is not what its name says.
    #[error(transparent)]
    Malformed(#[from] Malformed),
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
    /// A directory that is nobody's beside others that are ours.
    #[error(
        "no meta.properties found in {path}, and other directories of log.dirs have one: is its file system mounted? \
         If it is a new directory, start once with --format-new-log-dirs"
    )]
    Unformatted {
        /// The directory.
        path: PathBuf,
    },
    /// A directory that there was.
    #[error(
        "log directory {id}, last at {path}, is not among log.dirs: is its file system mounted, and is it named? If it \
         is gone for good, with what was in it, start once with --forget-missing-log-dirs"
    )]
    Missing {
        /// Its id.
        id: String,
        /// Where it was.
        path: PathBuf,
    },
    /// A directory and a copy of it.
    #[error(
        "{one} and {other} have the same directory.id, {id}: one is a copy of the other. Take the one that is not wanted out \
         of the settings"
    )]
    Twice {
        /// One.
        one: PathBuf,
        /// The other.
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
    /// A directory with logs that says no more whose it is.
    #[error(
        "there are logs in {path}, and no meta.properties: nobody knows whose they are. Restore that file; or start once \
         with --format-new-log-dirs, and with cluster.id={{the id of the cluster}}, to make it anew"
    )]
    NoIdentity {
        /// The directory.
        path: PathBuf,
    },
    /// A repair that a crash ended between its steps.
    #[error(
        "a repair of the metadata log in {path} was cut short; `forebay metadata repair {path}` finishes it"
    )]
    CutShort {
        /// The directory.
        path: PathBuf,
    },
    /// Logs, and nothing that says whose they are.
    #[error(
        "there are logs in {path}, and the metadata log is in none of log.dirs: is a directory missing? If it is gone for \
         good, start once with --forget-missing-log-dirs"
    )]
    NoMetadata {
        /// One of the directories.
        path: PathBuf,
    },
}
