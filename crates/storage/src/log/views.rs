//! Views of a log: each groups the functions of one part of what a log does.
//!
//! A view is made where it is used and holds only a reference to the log. Its functions are in the
//! file of that part, for example those of `Appending` in `append.rs`.
//! It does not: hold state of its own.

use std::ops::Deref;

use platform::Platform;

use super::Log;

macro_rules! views_of_log {
    ($($(#[$doc:meta])* $vis:vis $name:ident;)+) => {$(
        $(#[$doc])*
        $vis struct $name<'a, P: Platform>(pub(crate) &'a Log<P>);

        #[expect(
            clippy::expl_impl_clone_on_copy,
            reason = "derived, it would ask the same of the platform"
        )]
        impl<P: Platform> Clone for $name<'_, P> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<P: Platform> Copy for $name<'_, P> {}

        impl<P: Platform> Deref for $name<'_, P> {
            type Target = Log<P>;

            fn deref(&self) -> &Log<P> {
                self.0
            }
        }
    )+};
}

views_of_log! {
    /// One append: the checks before anything is taken, and the notes on each batch.
    pub(crate) Appending;
    /// The checks of a log's invariants.
    pub(crate) Checking;
    /// A clean stop, and the folders of a deleted log.
    pub(crate) Closing;
    /// Rounds of compaction.
    pub Compacting;
    /// The removals that other paths owe a log.
    pub(crate) Debts;
    /// Flushes of a log, one after the other.
    pub(crate) Flushing;
    /// The journal of a log: what goes through it, and what waits for it.
    pub(crate) Journaling;
    /// The limits on what the checkpoint files may say of a log.
    pub(crate) Limiting;
    /// Whether a log takes appends, and what changes that.
    pub(crate) LogCondition;
    /// The folders of a log, and the notes that list the segments in them.
    pub(crate) LogFolders;
    /// The producers of a log: their markers and transactions, and their expiry.
    pub LogProducers;
    /// A read of a log: the plan, the file, the blocks, and the search for what is wrong when an
    /// index or an epoch misled it.
    pub(crate) LogReader;
    /// The choice of the tier's path that a log grows on, and the effect of a failed path.
    pub LogTiers;
    /// Lookups by time: the walk over indexes and batches.
    pub(crate) Looking;
    /// A move of one segment, from the copy to the removal of the old files.
    pub(crate) Moving;
    /// The first steps of an opened log.
    pub(crate) Opening;
    /// What a failure on a path, or at home, makes unusable.
    pub(crate) PathFailure;
    /// Aborted transactions and producers rebuilt from the batches, where no file has them.
    pub(crate) Rebuilding;
    /// The deletion of what retention and the log start allow.
    pub(crate) Retaining;
    /// The move of unwritten bytes to another path.
    pub(crate) Spilling;
    /// The replacement of segments by what a compaction made of them.
    pub(crate) Swapping;
    /// The notification of changes to segments.
    pub(crate) Telling;
    /// The truncation of a log, with exclusive access.
    pub(crate) Truncating;
    /// The background work, one job at a time.
    pub(crate) Upkeeping;
}
