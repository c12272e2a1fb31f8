//! The messages with one version more than their codecs, and what that version adds.
//!
//! `ListOffsets` 11: another special timestamp. `OffsetCommit` 10 and `OffsetFetch` 10: topics by
//! id, no longer by name. `WriteTxnMarkers` 2: the version of the transaction protocol.
//! `DescribeLogDirs` 5: which directories are cordoned. `AddRaftVoter` 1: whether the response
//! waits for the change. Not here: the meaning of these fields (`broker`).

use super::{LacksNewest, NewestRequest, NewestVersion};
use crate::error::DecodeError;
use crate::kafka::api::{Api, beyond};
use crate::kafka::shape::Shape;
use crate::messages::{
    AddRaftVoterRequest, AddRaftVoterResponse, DescribeLogDirsRequest, DescribeLogDirsResponse,
    ListOffsetsRequest, ListOffsetsResponse, OffsetCommitRequest, OffsetCommitResponse,
    OffsetFetchRequest, OffsetFetchResponse, WriteTxnMarkersRequest, WriteTxnMarkersResponse,
};
use crate::protocol::{Message, Request};
use crate::types::Uuid;

/// Checks that the newest version has as many additional values as the message has places.
fn places(said: usize, places: usize) -> Result<(), DecodeError> {
    if said == places {
        return Ok(());
    }
    Err(DecodeError::Codec {
        reason: format!("the newest version says {said} fields more, not {places}"),
    })
}

/// Messages whose newest version has the same bytes as the one before.
macro_rules! same {
    ($($message:ident),* $(,)?) => {$(
        impl LacksNewest for $message {
            type MoreFields = ();

            fn shape() -> Option<Shape> {
                None
            }

            fn tell(&mut self, row: &[u8]) -> Result<(), DecodeError> {
                places(row.len(), 0)
            }

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
        impl LacksNewest for $message {
            type MoreFields = ();

            fn shape() -> Option<Shape> {
                $shape
            }

            fn tell(&mut self, row: &[u8]) -> Result<(), DecodeError> {
                let $it = self;
                let (ids, rest) = row.as_chunks::<16>();
                places(rest.len(), 0)?;
                places(ids.len(), $topics.count())?;
                for (topic, id) in $topics_mut.zip(ids) {
                    topic.topic_id = Uuid::from_bytes(*id);
                }
                Ok(())
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
impl LacksNewest for DescribeLogDirsResponse {
    /// Whether each directory is cordoned, in the order of the results; missing entries mean false.
    type MoreFields = Vec<bool>;

    fn shape() -> Option<Shape> {
        Shape::of_response(Api::DescribeLogDirs)
    }

    fn tell(&mut self, row: &[u8]) -> Result<Vec<bool>, DecodeError> {
        places(row.len(), self.results.len())?;
        Ok(row.iter().map(|cordoned| *cordoned != 0).collect())
    }

    fn row(&self, more: &Vec<bool>) -> Vec<u8> {
        let cordoned = more.iter().copied().chain(std::iter::repeat(false));
        cordoned.take(self.results.len()).map(u8::from).collect()
    }
}

impl LacksNewest for WriteTxnMarkersRequest {
    /// The transaction protocol version of each marker, in their order; missing entries mean 0.
    type MoreFields = Vec<i8>;

    fn shape() -> Option<Shape> {
        Shape::of(Api::WriteTxnMarkers)
    }

    fn tell(&mut self, row: &[u8]) -> Result<Vec<i8>, DecodeError> {
        places(row.len(), self.markers.len())?;
        Ok(row.iter().map(|version| version.cast_signed()).collect())
    }

    fn row(&self, more: &Vec<i8>) -> Vec<u8> {
        let versions = more.iter().copied().chain(std::iter::repeat(0));
        versions
            .take(self.markers.len())
            .map(i8::cast_unsigned)
            .collect()
    }
}

impl LacksNewest for AddRaftVoterRequest {
    /// Whether the response waits until the change is committed.
    type MoreFields = bool;

    fn shape() -> Option<Shape> {
        Shape::of(Api::AddRaftVoter)
    }

    fn tell(&mut self, row: &[u8]) -> Result<bool, DecodeError> {
        places(row.len(), 1)?;
        Ok(row.iter().any(|waits| *waits != 0))
    }

    fn row(&self, more: &bool) -> Vec<u8> {
        vec![u8::from(*more)]
    }
}

/// Requests and their responses.
macro_rules! asks {
    ($($request:ident: $answer:ty),* $(,)?) => {$(
        impl NewestRequest for $request {
            type Answer = $answer;
        }

        const _: () = {
            let Some(api) = Api::from_key(<$request as Request>::KEY) else {
                panic!("its API is served");
            };
            assert!(beyond(api), "its newest version is beyond the codec");
            assert!(
                <NewestVersion<$request> as Message>::VERSIONS.max == *api.versions().end(),
                "its newest version is the newest that is served"
            );
            assert!(
                <$answer as Message>::VERSIONS.max >= *api.versions().end(),
                "every version that is served has an answer"
            );
        };
    )*};
}
asks!(
    AddRaftVoterRequest: NewestVersion<AddRaftVoterResponse>,
    ListOffsetsRequest: NewestVersion<ListOffsetsResponse>,
    OffsetCommitRequest: OffsetCommitResponse,
    OffsetFetchRequest: OffsetFetchResponse,
    WriteTxnMarkersRequest: NewestVersion<WriteTxnMarkersResponse>,
    DescribeLogDirsRequest: NewestVersion<DescribeLogDirsResponse>,
);
