//! Measures the lag of groups: their positions, and the ends of the partitions.
//!
//! All groups share one look at the ends, which comes after the positions: a lag is never negative
//! because records were written in between.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;

use crate::ask::{Cluster, Failure, PartitionKey};
use crate::group::behind::{self, KnownOffsets, Sum};
use crate::group::list::SilentBroker;
use crate::group::members::{self, Group};
use crate::group::{positions, selected};
use crate::names::{self, Name};
use crate::progress::counted;
use crate::show::list;

/// The groups and how far they are behind.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(super) struct MeasuredLag {
    pub(super) groups: Vec<GroupLag>,
    /// Brokers whose groups may be missing.
    #[serde(skip)]
    pub(super) silent: Vec<SilentBroker>,
}

/// A group and how far it is behind.
#[derive(PartialEq, Eq, Debug, Serialize)]
pub(super) struct GroupLag {
    pub(super) name: String,
    pub(super) state: Option<String>,
    pub(super) members: Option<usize>,
    /// The sum of the known lags; `None` if none is known, or there is no position.
    pub(super) lag: Option<i64>,
    /// How many partitions have a lag that is not known.
    pub(super) unknown_partitions: usize,
    pub(super) partitions: Vec<PartitionLag>,
    /// Why the group's lag is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
}

/// A partition in which the group has a position.
#[derive(PartialEq, Eq, Debug, Serialize)]
pub(super) struct PartitionLag {
    pub(super) topic: String,
    #[serde(rename = "partition")]
    pub(super) index: i32,
    pub(super) position: i64,
    /// `None` for a partition without a leader or of a deleted topic, and if its leader does not
    /// tell.
    pub(super) end_offset: Option<i64>,
    pub(super) lag: Option<i64>,
    /// Why the end is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
    /// Whether that is a failure of the command.
    #[serde(skip)]
    is_failed: bool,
}

/// The partitions of one topic together.
#[derive(Default, PartialEq, Eq, Debug)]
pub(super) struct TopicLag {
    pub(super) partitions: usize,
    pub(super) sum: Sum,
    /// The partition with the largest lag.
    pub(super) largest: Option<(i32, i64)>,
}

/// Measures the groups with these names, or all that have positions.
pub(super) fn all(
    cluster: &mut Cluster,
    names: &[Name],
    topics: &[Name],
) -> anyhow::Result<MeasuredLag> {
    // Without the first broker nothing can be asked: this error is not that of a group.
    cluster.brokers()?;
    let (wanted, silent) = if names.is_empty() {
        selected::all(cluster)?
    } else {
        selected::known(cluster, names)?
    };
    let (mut found, mut groups) = (Vec::new(), Vec::new());
    for name in counted("groups", &wanted) {
        let must_exist = names.iter().any(|one| one.is_exactly(name));
        match of_group(cluster, name, topics) {
            Ok(Some((group, positions))) => {
                if must_exist || !positions.is_empty() {
                    found.push((group, positions));
                }
            }
            Ok(None) if must_exist => groups.push(GroupLag::failed(name, "does not exist")),
            // It was deleted since it was listed, or is of a type without positions.
            Ok(None) => {}
            Err(error) => {
                let failure = Failure::from(error).to_string();
                groups.push(GroupLag::failed(name, &failure));
            }
        }
    }
    let places = found.iter().flat_map(|(_, positions)| positions.keys());
    let ends = KnownOffsets::ends(cluster, places)?;
    let measured = found.into_iter();
    groups.extend(measured.map(|(group, positions)| GroupLag::of(group, positions, &ends)));
    groups.sort_by_key(|group| (Reverse(group.lag), group.name.clone()));
    Ok(MeasuredLag { groups, silent })
}

/// Returns a group and its positions in these topics; `None` if the group does not exist.
fn of_group(
    cluster: &mut Cluster,
    name: &str,
    topics: &[Name],
) -> anyhow::Result<Option<(Group, BTreeMap<PartitionKey, i64>)>> {
    let Some(group) = members::ask(cluster, name)? else {
        return Ok(None);
    };
    let mut positions = positions::read(cluster, name)?;
    positions.retain(|place, _| names::wanted(topics, &place.0));
    Ok(Some((group, positions)))
}

impl MeasuredLag {
    /// Returns true if nothing that could be known is missing.
    pub(super) fn is_complete(&self) -> bool {
        self.silent.is_empty() && self.groups.iter().all(GroupLag::is_complete)
    }
}

impl GroupLag {
    fn of(group: Group, positions: BTreeMap<PartitionKey, i64>, ends: &KnownOffsets) -> Self {
        let partitions = positions.into_iter().map(|(place, position)| {
            let end = ends.of(&place);
            let known = end.as_ref().ok().copied();
            PartitionLag {
                topic: place.0,
                index: place.1,
                position,
                end_offset: known,
                lag: known.map(|end| behind::lag(position, end)),
                is_failed: end.as_ref().is_err_and(|failure| !failure.is_excused()),
                error: end.err().map(|failure| failure.to_string()),
            }
        });
        let partitions: Vec<_> = partitions.collect();
        let sum = Sum::of(partitions.iter().map(|partition| partition.lag));
        Self {
            name: group.name,
            state: Some(group.state),
            members: Some(group.members.len()),
            lag: sum.lag().filter(|_| !partitions.is_empty()),
            unknown_partitions: sum.unknown,
            partitions,
            error: None,
        }
    }

    fn failed(name: &str, error: &str) -> Self {
        Self {
            name: name.to_owned(),
            state: None,
            members: None,
            lag: None,
            unknown_partitions: 0,
            partitions: Vec::new(),
            error: Some(error.to_owned()),
        }
    }

    /// Returns true if the group was found, and nothing that could be known is missing.
    fn is_complete(&self) -> bool {
        self.error.is_none() && !self.partitions.iter().any(|one| one.is_failed)
    }

    /// Returns what failed: the group, or partitions by topic and error.
    pub(super) fn errors(&self) -> Vec<(String, String)> {
        let mut by_topic: BTreeMap<(&str, &str), Vec<i32>> = BTreeMap::new();
        for one in &self.partitions {
            if let Some(error) = &one.error {
                by_topic
                    .entry((&one.topic, error))
                    .or_default()
                    .push(one.index);
            }
        }
        let whole = self
            .error
            .iter()
            .map(|error| (self.name.clone(), error.clone()));
        let partitions = by_topic.into_iter().map(|((topic, error), partitions)| {
            let place = format!("{}: {topic}:{}", self.name, list(&partitions));
            (place, error.to_owned())
        });
        whole.chain(partitions).collect()
    }

    /// Returns the lag by topic.
    pub(super) fn by_topic(&self) -> BTreeMap<&str, TopicLag> {
        let mut topics: BTreeMap<&str, TopicLag> = BTreeMap::new();
        for one in &self.partitions {
            let topic = topics.entry(&one.topic).or_default();
            topic.partitions = topic.partitions.saturating_add(1);
            topic.sum.add(one.lag);
            let Some(lag) = one.lag else { continue };
            if topic.largest.is_none_or(|(_, largest)| largest < lag) {
                topic.largest = Some((one.index, lag));
            }
        }
        topics
    }
}

#[cfg(test)]
mod tests;
