//! What a segment is doing, and whose the names of its files are.

/// One way, save that a cut begins anew: active, rolled, sealed; a cut makes any of them active.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// The last one of its log: it grows, in memory first.
    Active,
    /// It grows no more, and may still have bytes to be written.
    Rolled,
    /// Cut to its length, synced, its indexes saved.
    Sealed,
}

/// Whose the names of its files are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Names {
    /// Nothing of it is on a disk, or under a name of nobody's.
    None,
    /// Its own.
    Own,
    /// Another is being put in its place: file and indexes stay with those who read it.
    Lent,
}
