//! `forebay group reset`: new positions for a group without members.
//!
//! Invariants: positions are stored only with `--execute`, only while the group has no members, and
//! only within the bounds of a partition. What the command line selects is in the answer, or the
//! command fails.

mod moved;

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;

use super::scope::{self, Scope};
use super::{members, positions};
use crate::ask::{Cluster, PartitionKey};
use crate::outcome;
use crate::position::{Bounds, Position, bounds};
use crate::target::ChosenTarget;
use moved::MovedPosition;

#[derive(Debug, Args)]
pub(super) struct Reset {
    /// The group.
    name: String,
    /// New position: start, end, OFFSET, -COUNT (COUNT before the end), @TIME (milliseconds since
    /// 1970 or a date).
    #[arg(
        short = 'o',
        long,
        alias = "offset",
        allow_hyphen_values = true,
        required_unless_present = "shift_by"
    )]
    to: Option<Position>,
    /// New position: COUNT offsets further, or back if COUNT is negative.
    #[arg(
        long,
        value_name = "COUNT",
        allow_hyphen_values = true,
        conflicts_with = "to"
    )]
    shift_by: Option<i64>,
    /// Only this topic, or these partitions of it; can be given many times. Without it: every topic
    /// in which the group has a position.
    #[arg(short, long = "topic", value_name = "TOPIC[:PARTITION,..]")]
    topics: Vec<Scope>,
    /// Stores the new positions.
    #[arg(long)]
    execute: bool,
}

impl Reset {
    pub(super) fn run(&self, target: &ChosenTarget) -> anyhow::Result<ExitCode> {
        let mut cluster = target.cluster()?;
        let name = &self.name;
        match members::ask(&mut cluster, name)? {
            Some(group) if !group.is_idle() => bail!(
                "group {name} is {} with {} members: positions can be moved when nobody is in it",
                group.state,
                group.members.len()
            ),
            None if self.topics.is_empty() => bail!("group {name} does not exist"),
            _ => {}
        }
        let current = positions::read(&mut cluster, name)?;
        let wanted = self.wanted(&mut cluster, &current)?;
        let mut stored = BTreeMap::new();
        if self.execute && !wanted.is_empty() {
            stored = positions::store(&mut cluster, name, &wanted)?;
        }
        let moved = wanted.into_iter().map(|(place, to)| {
            let (from, stored) = (current.get(&place).copied(), stored.remove(&place));
            MovedPosition::of(place, from, to, stored)
        });
        let moved: Vec<_> = moved.collect();
        target.format.show(&moved, || moved::table(&moved))?;
        if !self.execute {
            outcome::say_planned();
        }
        Ok(if moved.iter().any(MovedPosition::is_failed) {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        })
    }

    /// Returns the new position of each selected partition.
    fn wanted(
        &self,
        cluster: &mut Cluster,
        current: &BTreeMap<PartitionKey, i64>,
    ) -> anyhow::Result<BTreeMap<PartitionKey, i64>> {
        let names: BTreeSet<_> = if self.topics.is_empty() {
            current.keys().map(|place| place.0.clone()).collect()
        } else {
            let scopes = self.topics.iter();
            scopes.map(|scope| scope.topic.clone()).collect()
        };
        let names: Vec<_> = names.into_iter().collect();
        if names.is_empty() {
            return Ok(BTreeMap::new());
        }
        let topics = cluster.topics(&names)?;
        let bounds = bounds(cluster, &topics, 0)?;
        let places = self.places(current, &bounds)?;
        let mut wanted = match (self.to, self.shift_by) {
            (Some(position), _) => position.find(cluster, &topics, &bounds)?,
            (None, shift) => {
                let shift = shift.unwrap_or(0);
                let shifted = current.iter().filter_map(|(place, &offset)| {
                    let bounds = bounds.get(place)?;
                    Some((place.clone(), bounds.clip(offset.saturating_add(shift))))
                });
                shifted.collect()
            }
        };
        wanted.retain(|place, _| places.contains(place));
        Ok(wanted)
    }

    /// Returns the selected partitions; each exists, and has a position if that is to be shifted.
    fn places(
        &self,
        current: &BTreeMap<PartitionKey, i64>,
        bounds: &BTreeMap<PartitionKey, Bounds>,
    ) -> anyhow::Result<BTreeSet<PartitionKey>> {
        let scopes = &self.topics;
        let places: BTreeSet<_> = if scopes.is_empty() {
            current.keys().cloned().collect()
        } else if self.shift_by.is_some() {
            scope::with_position(scopes, current)?
        } else {
            let places = scopes.iter().map(|scope| scope.places(bounds.keys()));
            places.flatten().collect()
        };
        let missing = places.iter().find(|place| !bounds.contains_key(*place));
        let Some((topic, partition)) = missing else {
            return Ok(places);
        };
        if scopes.is_empty() {
            bail!(
                "topic {topic} has no partition {partition}, and the group has a position there: \
                 select topics with -t, or delete the position with `forebay group offset-delete`"
            );
        }
        bail!("topic {topic} has no partition {partition}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(topic: &str, partition: i32) -> PartitionKey {
        (topic.to_owned(), partition)
    }

    /// Selects with the group in cars-0 and cars-9; cars has the partitions 0 and 1.
    fn selected(to: Option<Position>, scopes: &[&str]) -> Result<Vec<PartitionKey>, String> {
        let reset = Reset {
            name: "g".to_owned(),
            to,
            shift_by: to.is_none().then_some(-100),
            topics: scopes.iter().map(|one| one.parse().unwrap()).collect(),
            execute: false,
        };
        let current = [(place("cars", 0), 5), (place("cars", 9), 7)];
        let there = Bounds { start: 0, end: 9 };
        let bounds = [0, 1].map(|index| (place("cars", index), there));
        let places = reset.places(&current.into(), &bounds.into());
        let places = places.map_err(|error| error.to_string())?;
        Ok(places.into_iter().collect())
    }

    #[test]
    fn a_position_that_cannot_be_shifted_is_an_error() {
        assert_eq!(selected(None, &["cars:0"]), Ok(vec![place("cars", 0)]));
        for (scope, reason) in [
            ("cars:1", "no position in partition cars-1"),
            ("trucks", "no position in topic trucks"),
            ("cars", "topic cars has no partition 9"),
        ] {
            assert_eq!(selected(None, &[scope]), Err(reason.to_owned()));
        }
    }

    #[test]
    fn a_new_position_needs_a_partition_and_no_old_position() {
        let to = Some(Position::End);
        let both = vec![place("cars", 0), place("cars", 1)];
        assert_eq!(selected(to, &["cars"]), Ok(both));
        assert_eq!(selected(to, &["cars:1"]), Ok(vec![place("cars", 1)]));
        let missing = Err("topic cars has no partition 8".to_owned());
        assert_eq!(selected(to, &["cars:0,8"]), missing);
    }

    #[test]
    fn a_position_in_a_partition_that_is_gone_is_not_left_out_in_silence() {
        for to in [None, Some(Position::Start)] {
            let refused = selected(to, &[]).unwrap_err();
            assert!(refused.starts_with("topic cars has no partition 9"));
            assert!(refused.contains("offset-delete"), "{refused}");
        }
    }
}
