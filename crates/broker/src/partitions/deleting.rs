//! Deleting a log until it is deleted: a disk that refuses once (an error of its own, no room) must not leave its folder.
//!
//! Invariant: as long as it is tried, nobody opens a log of the same name. A directory that has failed takes no more: then the
//! folder stays, which the next start tells from the log of another topic by its id.

use std::io::ErrorKind;
use std::rc::Rc;
use std::time::Duration;

use platform::{Platform, task};
use storage::{Error, Log, Store};
use wire::types::TopicPartition;

/// How long after it failed a deletion is tried again, and how long at most between two tries.
const DELETE_AGAIN: Duration = Duration::from_secs(5);
const DELETE_AGAIN_MAX: Duration = Duration::from_mins(1);

const _: () = assert!(
    DELETE_AGAIN.as_millis() < DELETE_AGAIN_MAX.as_millis(),
    "a pause grows"
);

/// Deletes a log, with the claim to its name in hand; where that fails, more tries are made by a task of their own.
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

/// Tries once; true when there is nothing left to try.
async fn is_settled<P: Platform>(store: &Store<P>, log: &Log<P>, name: &TopicPartition) -> bool {
    let Err(error) = log.delete().await else {
        return true;
    };
    // An earlier try has renamed it, and failed behind that; or somebody else has taken it.
    if matches!(&error, Error::Io { source, .. } if source.kind() == ErrorKind::NotFound) {
        return true;
    }
    let again = error.is_passing() && !store.dir_failed(log.dir());
    tracing::error!(partition = %name, dir = %log.dir().display(), %error, again, "cannot delete the log");
    !again
}
