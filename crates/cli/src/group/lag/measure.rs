//! Measures the lag of groups: their positions, and the ends of the partitions.
//!
//! All groups share one look at the ends, which comes after the positions: a lag is never negative
//! because records were written in between.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;
use serde::Serialize;

use crate::ask::{Cluster, LATEST, Offsets, Place};
use crate::group::members::{self, Group};
use crate::group::{positions, selected};
use crate::names::Name;
use crate::progress::counted;

/// A group and how far it is behind.
#[derive(PartialEq, Eq, Debug, Serialize)]
pub(super) struct GroupLag {
    pub(super) name: String,
    pub(super) state: String,
    pub(super) members: usize,
    /// The sum over all partitions.
    pub(super) lag: i64,
    pub(super) partitions: Vec<PartitionLag>,
}

/// A partition in which the group has a position.
#[derive(PartialEq, Eq, Debug, Serialize)]
pub(super) struct PartitionLag {
    pub(super) topic: String,
    #[serde(rename = "partition")]
    pub(super) index: i32,
    pub(super) position: i64,
    /// `None` for a partition without a leader or of a deleted topic.
    pub(super) end_offset: Option<i64>,
    pub(super) lag: Option<i64>,
}

/// The partitions of one topic together.
#[derive(Default, PartialEq, Eq, Debug)]
pub(super) struct TopicLag {
    pub(super) partitions: usize,
    pub(super) lag: Option<i64>,
    /// The partition with the largest lag.
    pub(super) largest: Option<(i32, i64)>,
}

/// Measures the groups with these names, or all that have positions.
pub(super) fn all(
    cluster: &mut Cluster,
    names: &[Name],
    topics: &[Name],
) -> anyhow::Result<Vec<GroupLag>> {
    let (wanted, must_exist) = if names.is_empty() {
        (selected::all(cluster)?, false)
    } else {
        let selected = selected::some(cluster, names)?;
        (selected.names, !selected.by_pattern)
    };
    let mut found: Vec<(Group, BTreeMap<Place, i64>)> = Vec::new();
    for name in counted("groups", &wanted) {
        match members::ask(cluster, name)? {
            Some(group) => {
                let mut positions = positions::read(cluster, name)?;
                let is_wanted = |topic: &str| topics.iter().any(|name| name.matches(topic));
                positions.retain(|place, _| topics.is_empty() || is_wanted(&place.0));
                if must_exist || !positions.is_empty() {
                    found.push((group, positions));
                }
            }
            None if must_exist => bail!("group {name} does not exist"),
            // It was deleted since it was listed, or is of a type without positions.
            None => {}
        }
    }
    let topics = found.iter().flat_map(|(_, positions)| positions.keys());
    let topics: BTreeSet<_> = topics.map(|place| place.0.clone()).collect();
    let topics: Vec<_> = topics.into_iter().collect();
    let ends = if topics.is_empty() {
        Offsets::new()
    } else {
        let topics = cluster.look(Some(&topics), false)?.topics;
        cluster.offsets(&topics, LATEST, 0)?
    };
    let mut groups: Vec<_> = found
        .into_iter()
        .map(|(group, positions)| GroupLag::of(group, positions, &ends))
        .collect();
    groups.sort_by_key(|group| (Reverse(group.lag), group.name.clone()));
    Ok(groups)
}

impl GroupLag {
    fn of(group: Group, positions: BTreeMap<Place, i64>, ends: &Offsets) -> Self {
        let partitions = positions.into_iter().map(|(place, position)| {
            let end = ends.get(&place).and_then(|end| end.as_ref().ok().copied());
            PartitionLag {
                topic: place.0,
                index: place.1,
                position,
                end_offset: end,
                lag: end.map(|end| positions::lag(position, end)),
            }
        });
        let partitions: Vec<_> = partitions.collect();
        let lags = partitions.iter().filter_map(|partition| partition.lag);
        Self {
            name: group.name,
            state: group.state,
            members: group.members.len(),
            lag: lags.fold(0, i64::saturating_add),
            partitions,
        }
    }

    /// Returns the lag by topic.
    pub(super) fn by_topic(&self) -> BTreeMap<&str, TopicLag> {
        let mut topics: BTreeMap<&str, TopicLag> = BTreeMap::new();
        for one in &self.partitions {
            let topic = topics.entry(&one.topic).or_default();
            topic.partitions = topic.partitions.saturating_add(1);
            let Some(lag) = one.lag else { continue };
            topic.lag = Some(topic.lag.unwrap_or(0).saturating_add(lag));
            if topic.largest.is_none_or(|(_, largest)| largest < lag) {
                topic.largest = Some((one.index, lag));
            }
        }
        topics
    }
}

#[cfg(test)]
mod tests {
    use wire::types::ErrorCode;

    use super::*;

    #[test]
    fn lag_is_summed_over_the_partitions_that_have_an_end() {
        let place = |topic: &str, partition| (topic.to_owned(), partition);
        let positions = [
            (place("a", 0), 10),
            (place("a", 1), 7),
            (place("a", 2), 3),
            (place("gone", 0), 5),
        ];
        let ends: Offsets = [
            (place("a", 0), Ok(15)),
            // The log was cut: the position is beyond its end.
            (place("a", 1), Ok(2)),
            (place("a", 2), Err(ErrorCode::LeaderNotAvailable.into())),
            (place("b", 0), Ok(100)),
        ]
        .into();
        let group = Group {
            name: "g".into(),
            kind: "classic",
            state: "Empty".into(),
            assignor: String::new(),
            coordinator: 1,
            members: Vec::new(),
        };
        let measured = GroupLag::of(group, positions.into(), &ends);
        assert_eq!(measured.lag, 5);
        let lags: Vec<_> = measured.partitions.iter().map(|one| one.lag).collect();
        assert_eq!(lags, [Some(5), Some(0), None, None]);
        let topics = measured.by_topic();
        let a = TopicLag {
            partitions: 3,
            lag: Some(5),
            largest: Some((0, 5)),
        };
        assert_eq!(topics.get("a"), Some(&a));
        let gone = topics.get("gone").unwrap();
        assert_eq!((gone.partitions, gone.lag, gone.largest), (1, None, None));
    }
}
