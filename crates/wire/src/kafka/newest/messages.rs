//! The messages that have a version more than their codecs, and what it brought.
//!
//! `ListOffsets` 11: another special timestamp. `OffsetCommit` 10 and `OffsetFetch` 10: topics by id, no longer by name.
//! `WriteTxnMarkers` 2: the version of the transaction protocol. `DescribeLogDirs` 5: which directories are cordoned.
//! `AddRaftVoter` 1: whether the answer waits for the change.

use super::{Asks, Beyond, Newest};
use crate::kafka::api::Api;
use crate::kafka::shape::Shape;
use crate::messages::{
    AddRaftVoterRequest, AddRaftVoterResponse, DescribeLogDirsRequest, DescribeLogDirsResponse,
    ListOffsetsRequest, ListOffsetsResponse, OffsetCommitRequest, OffsetCommitResponse,
    OffsetFetchRequest, OffsetFetchResponse, WriteTxnMarkersRequest, WriteTxnMarkersResponse,
};
use crate::types::Uuid;

/// Messages whose newest version has the bytes of the one before.
macro_rules! same {
    ($($message:ident),* $(,)?) => {$(
        impl Beyond for $message {
            type More = ();

            fn shape() -> Option<Shape> {
                None
            }

            fn tell(&mut self, _row: &[u8]) {}

            fn row(&self, (): &()) -> Vec<u8> {
                Vec::new()
            }
        }
    )*};
}
same!(
    AddRaftVoterResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    WriteTxnMarkersResponse,
    DescribeLogDirsRequest
);

/// Messages that name topics by id in their newest version.
macro_rules! by_id {
    ($message:ident, $shape:expr, |$it:ident| $topics:expr, $topics_mut:expr) => {
        impl Beyond for $message {
            type More = ();

            fn shape() -> Option<Shape> {
                $shape
            }

            fn tell(&mut self, row: &[u8]) {
                let $it = self;
                for (topic, id) in $topics_mut.zip(row.chunks_exact(16)) {
                    topic.topic_id = Uuid::from_slice(id).unwrap_or_default();
                }
            }

            fn row(&self, (): &()) -> Vec<u8> {
                let $it = self;
                $topics
                    .flat_map(|topic| *topic.topic_id.as_bytes())
                    .collect()
            }
        }
    };
}
by_id!(
    OffsetCommitRequest,
    Shape::of(Api::OffsetCommit),
    |it| it.topics.iter(),
    it.topics.iter_mut()
);
by_id!(
    OffsetFetchRequest,
    Shape::of(Api::OffsetFetch),
    |it| it
        .groups
        .iter()
        .flat_map(|group| group.topics.iter().flatten()),
    it.groups
        .iter_mut()
        .flat_map(|group| group.topics.iter_mut().flatten())
);
impl Beyond for DescribeLogDirsResponse {
    /// Whether each directory is cordoned, in the order of the results; one that is not named is not.
    type More = Vec<bool>;

    fn shape() -> Option<Shape> {
        Shape::of_response(Api::DescribeLogDirs)
    }

    fn tell(&mut self, row: &[u8]) -> Vec<bool> {
        row.iter().map(|cordoned| *cordoned != 0).collect()
    }

    fn row(&self, more: &Vec<bool>) -> Vec<u8> {
        let cordoned = more.iter().copied().chain(std::iter::repeat(false));
        cordoned.take(self.results.len()).map(u8::from).collect()
    }
}

impl Beyond for WriteTxnMarkersRequest {
    /// The version of the transaction protocol of each marker, in their order; 0 where none is named.
    type More = Vec<i8>;

    fn shape() -> Option<Shape> {
        Shape::of(Api::WriteTxnMarkers)
    }

    fn tell(&mut self, row: &[u8]) -> Vec<i8> {
        row.iter().map(|version| version.cast_signed()).collect()
    }

    fn row(&self, more: &Vec<i8>) -> Vec<u8> {
        let versions = more.iter().copied().chain(std::iter::repeat(0));
        versions
            .take(self.markers.len())
            .map(i8::cast_unsigned)
            .collect()
    }
}

impl Beyond for AddRaftVoterRequest {
    /// Whether the answer waits until the change is committed.
    type More = bool;

    fn shape() -> Option<Shape> {
        Shape::of(Api::AddRaftVoter)
    }

    fn tell(&mut self, row: &[u8]) -> bool {
        row.iter().any(|waits| *waits != 0)
    }

    fn row(&self, more: &bool) -> Vec<u8> {
        vec![u8::from(*more)]
    }
}

/// Requests and what answers them.
macro_rules! asks {
    ($($request:ident: $answer:ty),* $(,)?) => {$(
        impl Asks for $request {
            type Answer = $answer;
        }
    )*};
}
asks!(
    AddRaftVoterRequest: Newest<AddRaftVoterResponse>,
    ListOffsetsRequest: Newest<ListOffsetsResponse>,
    OffsetCommitRequest: OffsetCommitResponse,
    OffsetFetchRequest: OffsetFetchResponse,
    WriteTxnMarkersRequest: Newest<WriteTxnMarkersResponse>,
    DescribeLogDirsRequest: Newest<DescribeLogDirsResponse>,
);
