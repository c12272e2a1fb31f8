//! What can go wrong at the start; everything later is an [`io::Error`] of the operation itself.

use std::io;
use std::path::PathBuf;

/// A failure to take hold of the machine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another process uses the directory.
    #[error("directory {} is in use by {holder}", dir.display())]
    DirHeld {
        /// The directory.
        dir: PathBuf,
        /// Pid and command of the other process, as far as they can be known.
        holder: String,
    },
    /// The lock file cannot be used.
    #[error("cannot lock directory {}: {source}", dir.display())]
    Lock {
        /// The directory.
        dir: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A directory was declared to be on a DAX mount, and is not.
    #[error(
        "directory {} is not on a DAX mount ({reason}): mount its file system with -o dax=always, \
         or declare the tier volatile, which maps ordinary memory, emulated and not durable",
        dir.display()
    )]
    NotDax {
        /// The directory.
        dir: PathBuf,
        /// What the kernel said.
        reason: String,
    },
    /// The disk engine that was asked for does not work here.
    #[error("disk engine {engine} does not work here: {reason}")]
    Engine {
        /// Its name.
        engine: &'static str,
        /// Why.
        reason: String,
    },
}
