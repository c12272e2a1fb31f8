//! What is known of logs that could not be opened: where they are, and what the checkpoints said of them.
//!
//! Invariant: while a log is not open its lines stay in the checkpoint files, as they were. A file without them would
//! have deleted records come back at the next start, and a log that nobody has recovered would be taken for whole.

mod points;

use std::path::PathBuf;

use storage::OpenAs;
use wire::types::TopicPartition;

/// A log that could not be opened.
#[derive(Clone, Debug)]
pub(crate) struct Unopened {
    pub(crate) name: TopicPartition,
    /// The log directory that it is in.
    pub(crate) dir: PathBuf,
    /// How it is to be opened.
    pub(crate) how: OpenAs,
    /// Its topic was made in this life.
    pub(crate) is_new: bool,
}
