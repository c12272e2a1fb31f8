//! The small files of a log directory and of a partition's directory, in Kafka's formats: parsing
//! and encoding.
//!
//! Every `parse` names the file and line of what it cannot read, and none guesses. Every `encode`
//! returns the bytes that Kafka writes. Layouts: `docs/formats/checkpoints.md`.
//! It does not read or write files: `platform::Disk::read_file` and `replace_file` do, and never
//! leave half a file.

#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        reason = "numbers of disks reach this: an index out of bounds ends the broker"
    )
)]

pub mod aborted_segments;
pub mod clean_shutdown;
pub mod journal_mark;
pub mod leader_epochs;
pub mod limits;
mod lines;
pub mod meta_properties;
pub mod moved_log;
pub mod offsets;
pub mod partition_metadata;
pub mod properties;

use std::path::{Path, PathBuf};

use thiserror::Error;

/// A file whose content does not match its name.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{}, line {line}: expected {expected}, found {found:?}", .file.display())]
pub struct MalformedFileError {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// What belongs on the line.
    pub expected: &'static str,
    /// What the line contains, shortened.
    pub found: String,
}

const FOUND_CHARS_MAX: usize = 80;

impl MalformedFileError {
    pub(crate) fn new(file: &Path, line: usize, expected: &'static str, found: &str) -> Self {
        Self {
            file: file.to_path_buf(),
            line,
            expected,
            found: found.chars().take(FOUND_CHARS_MAX).collect(),
        }
    }
}

/// Returns the bytes as text.
pub(crate) fn text<'a>(file: &Path, bytes: &'a [u8]) -> Result<&'a str, MalformedFileError> {
    std::str::from_utf8(bytes).map_err(|error| {
        let valid = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let line = valid.split(|&byte| byte == b'\n').count();
        MalformedFileError::new(file, line, "text in UTF-8", "other bytes")
    })
}
