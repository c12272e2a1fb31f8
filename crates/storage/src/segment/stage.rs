//! The stage of a segment, and the owner of its file names.

/// The stage of a segment: active, rolled, sealed, in this order; only a truncation leads back to
/// active.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// The last segment of its log, which grows, in memory first.
    Active,
    /// It no longer grows, and may have unwritten bytes.
    Rolled,
    /// Its file is cut to its length and synced, and its indexes are saved.
    Sealed,
}

/// Who owns the names of the segment's files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Names {
    /// The segment has no file, or its file has no segment name yet.
    None,
    /// The segment.
    Own,
    /// Another segment is being put in its place; current readers keep its file and indexes.
    Lent,
}
