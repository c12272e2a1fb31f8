//! Mistakes that the model must find: of the account, and of those who use it.

/// A mistake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::journal) enum PlantedBug {
    /// Parts count as landed before their segments are synced.
    ReleaseBeforeLandingSync,
    /// Room is used again before the header that has passed it, and reserves it, is synced.
    ReleaseBeforeHeaderSync,
    /// Room is used again when the newer header block has passed it, and reserves it.
    ReleaseByOneBlock,
    /// Commits reach as far as a header says that is not synced.
    ReserveBeforeHeaderSync,
    /// Commits reach as far as the newer header block says.
    ReserveByOneBlock,
    /// Commits are written when one header block has the new incarnation.
    OpenByOneBlock,
    /// A start goes on with the incarnation that it found.
    KeepIncarnation,
    /// A start reads what a killed process wrote, and does not sync it.
    ReadBeforeSync,
    /// A log is appended to past the journal while its cut may be read back.
    AppendAfterCut,
    /// What an earlier use of the ring had counts as released before both headers are synced.
    ReleaseWhileOpening,
    /// A log is made again while parts of the one before it may be read back.
    MakeAgainAtOnce,
    /// A log is carried on without its parts that are in flight.
    CarryOnDurableOnly,
    /// A log is carried on by more than one commit, as its parts were.
    CarryOnPartByPart,
}
