//! How far positions are behind: the ends of their partitions, and sums of lags.
//!
//! Invariant: a lag that is not known is no number; a sum tells of how many partitions it lacks the
//! lag.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};

use wire::types::ErrorCode;

use crate::ask::{Cluster, Failure, LATEST, Offsets, PartitionKey};

/// Returns how many offsets are behind a position.
pub(super) fn lag(position: i64, end: i64) -> i64 {
    end.saturating_sub(position).max(0)
}

/// Offsets of the partitions of some topics.
#[derive(Default, Debug)]
pub(super) struct KnownOffsets {
    offsets: Offsets,
    /// The topics, and why some are not described: a deleted topic may still have positions.
    topics: BTreeMap<String, Result<(), Failure>>,
}

impl KnownOffsets {
    /// Asks for the offset at each of these times in the topics of these partitions.
    pub(super) fn at<'a, const N: usize>(
        cluster: &mut Cluster,
        places: impl Iterator<Item = &'a PartitionKey>,
        times: [i64; N],
    ) -> anyhow::Result<[Self; N]> {
        let names: BTreeSet<_> = places.map(|place| place.0.clone()).collect();
        let names: Vec<_> = names.into_iter().collect();
        if names.is_empty() {
            return Ok(times.map(|_| Self::default()));
        }
        let (mut described, mut topics) = (Vec::new(), BTreeMap::new());
        for (name, topic) in cluster.each_topic(&names)? {
            topics.insert(name, topic.map(|topic| described.push(topic)));
        }
        Ok(times.map(|time| Self {
            offsets: cluster.offsets(&described, time, 0),
            topics: topics.clone(),
        }))
    }

    /// Asks for the ends.
    pub(super) fn ends<'a>(
        cluster: &mut Cluster,
        places: impl Iterator<Item = &'a PartitionKey>,
    ) -> anyhow::Result<Self> {
        Self::at(cluster, places, [LATEST]).map(|[ends]| ends)
    }

    /// Returns the offset of a partition, or why it is not known.
    pub(super) fn of(&self, place: &PartitionKey) -> Result<i64, Failure> {
        match (self.offsets.get(place), self.topics.get(&place.0)) {
            (Some(offset), _) => offset.clone(),
            (None, Some(Err(failure))) => Err(failure.clone()),
            // The topic is there without this partition.
            (None, Some(Ok(()))) => Err(ErrorCode::UnknownTopicOrPartition.into()),
            (None, None) => Err(Failure::LeftOut),
        }
    }
}

#[cfg(test)]
impl KnownOffsets {
    /// Makes what is known of these partitions; the topics are deleted.
    pub(super) fn with_deleted(offsets: Offsets, deleted: &[&str]) -> Self {
        let error = || Err(ErrorCode::UnknownTopicOrPartition.into());
        let topics = deleted.iter().map(|&name| (name.to_owned(), error()));
        let topics = topics.collect();
        Self { offsets, topics }
    }
}

/// The sum of the lags of some partitions.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Sum {
    known: Option<i64>,
    /// How many partitions have a position, and a lag that is not known.
    pub(super) unknown: usize,
}

impl Sum {
    pub(super) fn of(lags: impl Iterator<Item = Option<i64>>) -> Self {
        let mut sum = Self::default();
        for lag in lags {
            sum.add(lag);
        }
        sum
    }

    pub(super) fn add(&mut self, lag: Option<i64>) {
        match lag {
            Some(lag) => self.known = Some(self.known.unwrap_or(0).saturating_add(lag)),
            None => self.unknown = self.unknown.saturating_add(1),
        }
    }

    /// Returns the sum of the known lags; `None` if there are only others.
    pub(super) fn lag(self) -> Option<i64> {
        self.known.or((self.unknown == 0).then_some(0))
    }
}

impl Display for Sum {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match (self.lag(), self.unknown) {
            (None, _) => formatter.write_str("-"),
            (Some(lag), 0) => lag.fmt(formatter),
            (Some(lag), unknown) => write!(formatter, "{lag} ({unknown} unknown)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::messages::TopicName;
    use wire::messages::metadata_response::MetadataResponseTopic;

    use super::*;
    use crate::ask::{AskedRequest, Peer, text};

    #[test]
    fn a_topic_that_the_metadata_leaves_out_is_no_deleted_topic() {
        let answer = |asked: &AskedRequest| {
            let topic = |name: &str, error: i16| {
                MetadataResponseTopic::default()
                    .with_name(Some(TopicName(text(name))))
                    .with_error_code(error)
            };
            asked.metadata(vec![topic("cars", 0), topic("gone", 3)])
        };
        let places = ["cars", "gone", "trucks"].map(|name| (name.to_owned(), 0));
        let mut cluster = Peer::start(answer).cluster();
        let ends = KnownOffsets::ends(&mut cluster, places.iter()).unwrap();
        let unknown = || Err(ErrorCode::UnknownTopicOrPartition.into());
        let expected = [unknown(), unknown(), Err(Failure::LeftOut)];
        assert_eq!(places.each_ref().map(|place| ends.of(place)), expected);
    }

    #[test]
    fn a_sum_tells_what_it_lacks_and_is_no_number_if_nothing_is_known() {
        for (lags, lag, text) in [
            (&[][..], Some(0), "0"),
            (&[Some(3), Some(4)], Some(7), "7"),
            (&[Some(0), None, None], Some(0), "0 (2 unknown)"),
            (&[None], None, "-"),
            (
                &[Some(i64::MAX), Some(1)],
                Some(i64::MAX),
                "9223372036854775807",
            ),
        ] {
            let sum = Sum::of(lags.iter().copied());
            assert_eq!((sum.lag(), sum.to_string().as_str()), (lag, text));
        }
    }
}
