//! The logs that could not be opened: their directories, and their lines in the checkpoints.
//!
//! Invariant: while a log is not open, its lines stay in the checkpoint files unchanged. Without
//! them, deleted records would come back at the next start, and a log that was never recovered
//! would count as recovered.

mod points;

use std::path::PathBuf;

use storage::OpenAs;
use wire::types::TopicPartition;

/// A log that could not be opened.
#[derive(Clone, Debug)]
pub(crate) struct UnopenedLog {
    pub(crate) name: TopicPartition,
    /// The log directory that holds it.
    pub(crate) dir: PathBuf,
    /// How to open it.
    pub(crate) how: OpenAs,
    /// True if its topic was created since the process started.
    pub(crate) is_new: bool,
}
