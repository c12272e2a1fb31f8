//! Errors at the start of the process.
//!
//! Each names the directory or engine, so that an operator can fix the cause.
//! Not here: errors after the start, which are the [`io::Error`] of the operation itself.

use std::io;
use std::path::PathBuf;

/// A failure to acquire a resource of the machine at the start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another process uses the directory.
    #[error("directory {} is in use by {holder}", dir.display())]
    DirHeld {
        /// The directory.
        dir: PathBuf,
        /// Pid and command of the other process, as far as known.
        holder: String,
    },
    /// The lock file cannot be used.
    #[error("cannot lock directory {}: {source}", dir.display())]
    Lock {
        /// The directory.
        dir: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A directory was declared to be on a DAX mount, but is not.
    #[error(
        "directory {} is not on a DAX mount ({reason}): mount its file system with -o dax=always, \
         or declare the tier volatile, which maps ordinary memory, emulated and not durable",
        dir.display()
    )]
    NotDax {
        /// The directory.
        dir: PathBuf,
        /// The kernel's error.
        reason: String,
    },
    /// The requested disk engine does not work on this machine.
    #[error("disk engine {engine} does not work here: {reason}")]
    Engine {
        /// Its name.
        engine: &'static str,
        /// The cause.
        reason: String,
    },
}
