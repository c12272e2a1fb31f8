//! A response as bytes.
//!
//! Invariant: a response is a list of segments whose first bytes are the length prefix, so records go from the log to the
//! socket without being copied.
//! Not here: what is in it (`kafka/writer.rs` and the codecs), and writing it to a socket (`server`).

use bytes::Bytes;

/// Bytes of the length prefix.
pub const PREFIX_BYTES: usize = 4;

/// A whole response frame, as segments to be written one after the other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response {
    segments: Vec<Bytes>,
}

impl Response {
    /// `segments` begin with the length prefix.
    pub(super) fn new(segments: Vec<Bytes>) -> Self {
        let head = segments.first();
        assert!(
            head.is_some_and(|head| head.len() >= PREFIX_BYTES),
            "a response begins with its length"
        );
        Self { segments }
    }

    /// The segments, in order; none is empty.
    pub fn segments(&self) -> &[Bytes] {
        &self.segments
    }

    /// The segments, in order; none is empty.
    pub fn into_segments(self) -> Vec<Bytes> {
        self.segments
    }

    /// Bytes on the wire, prefix included.
    pub fn size_bytes(&self) -> usize {
        self.segments.iter().map(Bytes::len).sum() // Bounded: lengths of bytes in memory.
    }

    /// The frame in one piece, copied. For tests and tools.
    pub fn to_bytes(&self) -> Bytes {
        self.segments.concat().into()
    }
}
