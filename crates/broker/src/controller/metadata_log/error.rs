//! Why the metadata log cannot be used.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use wire::acl::UnplacedAcl;
use wire::types::Offset;

use crate::controller::batches::BadBatch;
use crate::image::ReplayError;
use crate::names::METADATA_TOPIC;

/// Why the metadata log cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MetadataLogError {
    /// The log.
    #[error(transparent)]
    Storage(#[from] storage::Error),
    /// The log cannot be opened.
    #[error("the metadata log {path} cannot be read: {source}{}", tools(path))]
    Open {
        /// The folder.
        path: PathBuf,
        /// The error of the storage layer.
        source: storage::Error,
    },
    /// The content is unusable.
    #[error("{path}: {source}{}", tools(path))]
    Content {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong.
        source: BadBatch,
    },
    /// A change is longer than one may be; none of it was written.
    #[error("a change of more than {0} bytes is not written to the metadata log")]
    TooLarge(usize),
    /// A small file beside the log cannot be read or written.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// The operation that failed.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: Arc<std::io::Error>,
    },
    /// No leader epoch is left.
    #[error("{path}: its leader epochs are used up{}", tools(path))]
    Epochs {
        /// The folder.
        path: PathBuf,
    },
    /// The log is empty, but there are logs of topics.
    #[error(
        "the metadata log {path} holds no record, and there are logs of topics: was it emptied? Restore it. If it is gone \
         for good, start once with --forget-missing-log-dirs: the logs are left alone then"
    )]
    Empty {
        /// The folder.
        path: PathBuf,
    },
    /// The controller's own records could not be replayed, so they were not written.
    #[error("a change of the metadata was refused, for it does not fit them: {0}")]
    Unfit(ReplayError),
    /// An ACL for an unknown type of resource, and an authorizer that would have to enforce it.
    #[error(
        "{path}: {source}. Delete it with the release that made it, or start without \
         authorizer.class.name: no ACL is enforced then"
    )]
    Acl {
        /// The folder.
        path: PathBuf,
        /// What is not known.
        source: UnplacedAcl,
    },
    /// Records between the snapshot and the log are gone.
    #[error(
        "{path} begins at offset {log_start}, but the newest snapshot ends at {snapshot}: records \
         are missing{}",
        tools(path)
    )]
    Gap {
        /// The folder.
        path: PathBuf,
        /// First offset of the log.
        log_start: Offset,
        /// End of the newest snapshot.
        snapshot: Offset,
    },
}

/// Returns the hint for metadata that cannot be used. `path` is the log's folder, or a file in it.
fn tools(path: &Path) -> String {
    let is_folder = path
        .file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with(METADATA_TOPIC));
    let folder = if is_folder { Some(path) } else { path.parent() };
    let in_folder = folder.is_some_and(|it| {
        it.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(METADATA_TOPIC))
    });
    let dir = if in_folder {
        folder.and_then(Path::parent)
    } else {
        path.parent()
    };
    let dir = dir.unwrap_or(path).display();
    format!(
        "; `forebay metadata check {dir}` says more, `forebay metadata repair {dir}` sets it aside and keeps what can be read"
    )
}

pub(super) fn io_error(
    action: &'static str,
    path: &Path,
    source: std::io::Error,
) -> MetadataLogError {
    MetadataLogError::Io {
        action,
        path: path.to_path_buf(),
        source: source.into(),
    }
}
