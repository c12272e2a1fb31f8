//! `forebay group reset`: new positions for a group without members.
//!
//! Invariant: positions are stored only with `--execute`, only while the group has no members, and
//! only within the bounds of a partition.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use serde::Serialize;

use super::scope::Scope;
use super::{members, positions};
use crate::ask::{Cluster, Place};
use crate::outcome;
use crate::position::{Position, bounds};
use crate::show::{Table, or_dash};
use crate::target::Chosen;

#[derive(Debug, Args)]
pub(super) struct Reset {
    /// The group.
    name: String,
    /// New position: start, end, OFFSET, -COUNT (so many before the end), @TIME (milliseconds since
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

#[derive(Serialize)]
struct Moved {
    topic: String,
    partition: i32,
    from: Option<i64>,
    to: i64,
    executed: bool,
}

impl Reset {
    pub(super) fn run(&self, target: &Chosen) -> anyhow::Result<ExitCode> {
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
        if self.execute && !wanted.is_empty() {
            positions::store(&mut cluster, name, &wanted)?;
        }
        let moved = wanted.into_iter().map(|(place, to)| Moved {
            from: current.get(&place).copied(),
            topic: place.0,
            partition: place.1,
            to,
            executed: self.execute,
        });
        let moved: Vec<_> = moved.collect();
        target.format.show(&moved, || table(&moved))?;
        if !self.execute {
            outcome::say_planned();
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Returns the new position of each selected partition.
    fn wanted(
        &self,
        cluster: &mut Cluster,
        current: &BTreeMap<Place, i64>,
    ) -> anyhow::Result<BTreeMap<Place, i64>> {
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
        for Scope { topic, partitions } in &self.topics {
            for &partition in partitions {
                if !bounds.contains_key(&(topic.clone(), partition)) {
                    bail!("topic {topic} has no partition {partition}");
                }
            }
        }
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
        wanted.retain(|place, _| self.includes(place, current));
        Ok(wanted)
    }

    fn includes(&self, place: &Place, current: &BTreeMap<Place, i64>) -> bool {
        if self.topics.is_empty() {
            return current.contains_key(place);
        }
        self.topics.iter().any(|scope| {
            let all = scope.partitions.is_empty();
            scope.topic == place.0 && (all || scope.partitions.contains(&place.1))
        })
    }
}

fn table(moved: &[Moved]) -> String {
    let mut table = Table::headed(&["TOPIC", "PARTITION", "PRIOR-OFFSET", "NEW-OFFSET"]);
    for one in moved {
        table.row([
            one.topic.clone(),
            one.partition.to_string(),
            or_dash(one.from),
            one.to.to_string(),
        ]);
    }
    table.render()
}
