//! Mistakes of a start that the stories must find.

use std::cell::Cell;

/// A mistake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::journal) enum ReplayBug {
    /// Files that were written are not synced before the rings begin their next use.
    SkipSyncs,
    /// A file that has all its bytes already is not synced.
    SkipWhole,
    /// Only the first ring begins its next use.
    LeaveOtherRings,
    /// What is behind a cut stays where no later part overrules it.
    KeepVoid,
}

thread_local! {
    static PLANTED: Cell<Option<ReplayBug>> = const { Cell::new(None) };
}

/// A mistake that is made until it is dropped.
pub(in crate::journal) struct Planted;

/// Has each replay of this thread make a mistake.
pub(in crate::journal) fn plant(bug: ReplayBug) -> Planted {
    PLANTED.set(Some(bug));
    Planted
}

/// Returns true when a mistake is made.
pub(super) fn is_planted(bug: ReplayBug) -> bool {
    PLANTED.get() == Some(bug)
}

impl Drop for Planted {
    fn drop(&mut self) {
        PLANTED.set(None);
    }
}
