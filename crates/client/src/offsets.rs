//! Offsets that brokers are asked for: where a log starts and ends ([`list`]), where a group stands
//! ([`committed`]), and where it is to stand ([`commit`]).
//!
//! Each question has the answers of all partitions, or an error; a partition that the broker left
//! out has the error `UNKNOWN_SERVER_ERROR`. Not here: when something is asked, tries again.

pub(crate) mod commit;
pub(crate) mod committed;
pub(crate) mod list;

use std::collections::BTreeMap;

use wire::types::{ErrorCode, TopicPartition};

use crate::error::Refusal;

/// What the broker answered for each partition, or why it refused.
pub(crate) type PartitionResults<T> = BTreeMap<TopicPartition, Result<T, Refusal>>;

/// Returns the answer for each partition that the client asked for, and drops any other.
fn each<'a, T>(
    asked: impl IntoIterator<Item = &'a TopicPartition>,
    told: impl IntoIterator<Item = (TopicPartition, Result<T, Refusal>)>,
) -> PartitionResults<T> {
    let left_out = || Refusal {
        code: ErrorCode::UnknownServerError,
        message: Some("the broker did not answer for it".to_owned()),
    };
    let asked = asked.into_iter();
    let mut found: PartitionResults<T> = asked
        .map(|place| (place.clone(), Err(left_out())))
        .collect();
    for (place, result) in told {
        if let Some(slot) = found.get_mut(&place) {
            *slot = result;
        }
    }
    found
}

/// Groups partitions by topic.
fn by_topic<'a, T>(
    all: impl IntoIterator<Item = (&'a TopicPartition, T)>,
) -> BTreeMap<&'a str, Vec<(i32, T)>> {
    let mut topics: BTreeMap<&str, Vec<(i32, T)>> = BTreeMap::new();
    for (place, value) in all {
        let of_topic = topics.entry(&place.topic).or_default();
        of_topic.push((place.partition, value));
    }
    topics
}
