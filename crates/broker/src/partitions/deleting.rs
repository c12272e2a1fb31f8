//! Deletes a log, with retries: a disk that fails once (an I/O error, no space) must not leave its
//! folder behind.
//!
//! Invariant: during the retries, no log of the same name is opened. In a directory that has failed
//! there are no retries: the folder stays, and the next start distinguishes it from the log of
//! another topic by its id.

use std::io::ErrorKind;
use std::rc::Rc;
use std::time::Duration;

use platform::{Platform, task};
use storage::{Error, Log, Store};
use wire::types::TopicPartition;

/// Pause before a failed deletion is retried, and its maximum.
const DELETE_AGAIN: Duration = Duration::from_secs(5);
const DELETE_AGAIN_MAX: Duration = Duration::from_mins(1);

const _: () = assert!(
    DELETE_AGAIN.as_millis() < DELETE_AGAIN_MAX.as_millis(),
    "a pause grows"
);

/// Deletes a log while holding the claim to its name; if that fails, a separate task retries.
pub(super) async fn delete_for_good<P: Platform>(
    platform: P,
    store: Store<P>,
    log: Rc<Log<P>>,
    name: TopicPartition,
    claim: impl Sized + 'static,
) {
    if is_settled(&store, &log, &name).await {
        return;
    }
    task::spawn(async move {
        let mut pause = DELETE_AGAIN;
        loop {
            platform.clock().sleep(pause).await;
            pause = (pause * 2).min(DELETE_AGAIN_MAX);
            if is_settled(&store, &log, &name).await {
                break;
            }
        }
        drop(claim);
    });
}

/// Tries once; returns true if there is nothing left to try.
async fn is_settled<P: Platform>(store: &Store<P>, log: &Log<P>, name: &TopicPartition) -> bool {
    let Err(error) = log.delete().await else {
        return true;
    };
    // An earlier try renamed it, and failed after that; or another program removed it.
    if matches!(&error, Error::Io { source, .. } if source.kind() == ErrorKind::NotFound) {
        return true;
    }
    let again = error.is_passing() && !store.dir_failed(log.dir());
    tracing::error!(partition = %name, dir = %log.dir().display(), %error, again, "cannot delete the log");
    !again
}
