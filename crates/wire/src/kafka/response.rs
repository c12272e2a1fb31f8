//! A response as bytes.
//!
//! Invariant: a response is a list of segments that starts with the length prefix, so records go
//! from the log to the socket without a copy.
//! Not here: the contents (`kafka/writer.rs` and the codecs), and writing to a socket (`server`).

use bytes::Bytes;

/// Bytes of the length prefix.
pub const PREFIX_BYTES: usize = 4;

/// A whole response frame, as segments to be written one after the other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response {
    segments: Vec<Bytes>,
}

impl Response {
    /// Creates a response; `segments` begin with the length prefix.
    pub fn new(segments: Vec<Bytes>) -> Self {
        let head = segments.first();
        assert!(
            head.is_some_and(|head| head.len() >= PREFIX_BYTES),
            "a response begins with its length"
        );
        Self { segments }
    }

    /// Returns the segments, in order; none is empty.
    pub fn segments(&self) -> &[Bytes] {
        &self.segments
    }

    /// Returns the segments, in order; none is empty.
    pub fn into_segments(self) -> Vec<Bytes> {
        self.segments
    }

    /// Returns the number of bytes on the wire, prefix included.
    pub fn size_bytes(&self) -> usize {
        self.segments.iter().map(Bytes::len).sum() // Bounded: lengths of bytes in memory.
    }

    /// Returns the frame as one copied piece, for tests and tools.
    pub fn to_bytes(&self) -> Bytes {
        self.segments.concat().into()
    }
}
