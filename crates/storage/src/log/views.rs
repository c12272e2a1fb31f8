//! The parts of what a log does. Each is a view of the log with functions of its own, so that a log is not all of them at once.
//!
//! A view is made where it is used, and holds nothing but the log. Its functions are in the file that its line names.

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
    /// One append: what is looked at before anything is taken, and what is noted of each batch.
    pub(crate) Appending;
    /// A look at all that a log knows.
    pub(crate) Checking;
    /// A clean stop, and the folders of a log that is deleted.
    pub(crate) Closing;
    /// Rounds of compaction.
    pub Compacting;
    /// What other paths owe a log.
    pub(crate) Debts;
    /// One flush of a log after the other.
    pub(crate) Flushing;
    /// What the checkpoint files may say of a log at most.
    pub(crate) Limiting;
    /// Whether a log takes appends, and what changes that.
    pub(crate) LogCondition;
    /// The folders of a log, and the notes of which segments are in them.
    pub(crate) LogFolders;
    /// The producers of a log: their markers and transactions, and who is to be forgotten.
    pub LogProducers;
    /// A read of a log: the plan, the file, the blocks, and finding out what is wrong when it is misled.
    pub(crate) LogReader;
    /// Which path of which tier a log goes on, and what becomes of it when one fails.
    pub LogTiers;
    /// Lookups by time: the walk over indexes and batches.
    pub(crate) Looking;
    /// A move of one segment, from the copy to the removal of the old one.
    pub(crate) Moving;
    /// The first steps of a log that was opened.
    pub(crate) Opening;
    /// What a failure on a path, or at home, makes unusable.
    pub(crate) PathFailure;
    /// Aborted transactions and producers by the batches, where no file says so.
    pub(crate) Rebuilding;
    /// Deleting what retention and the log start allow.
    pub(crate) Retaining;
    /// Taking what is not written to another path.
    pub(crate) Spilling;
    /// Putting what a compaction has made in the place of what it was made of.
    pub(crate) Swapping;
    /// Those who are told what becomes of segments.
    pub(crate) Telling;
    /// Cutting the end off a log, with nobody else at it.
    pub(crate) Truncating;
    /// What is done in the background, one thing at a time.
    pub(crate) Upkeeping;
}
