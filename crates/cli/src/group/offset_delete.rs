//! `forebay group offset-delete`: deletes positions of a group, and reports what became of each.
//!
//! The coordinator refuses positions in topics that a member of the group reads.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Args;

use super::scope::Scope;
use super::{members, positions};
use crate::ask::Place;
use crate::outcome::{self, Outcome};
use crate::target::Chosen;

#[derive(Debug, Args)]
pub(super) struct OffsetDelete {
    /// The group.
    name: String,
    /// The topic, or some of its partitions; can be given many times.
    #[arg(
        short,
        long = "topic",
        value_name = "TOPIC[:PARTITION,..]",
        required = true
    )]
    topics: Vec<Scope>,
}

impl OffsetDelete {
    pub(super) fn run(&self, target: &Chosen) -> anyhow::Result<ExitCode> {
        let mut cluster = target.cluster()?;
        let name = &self.name;
        if members::ask(&mut cluster, name)?.is_none() {
            bail!("group {name} does not exist");
        }
        let current = positions::read(&mut cluster, name)?;
        let wanted = wanted(&self.topics, &current).with_context(|| format!("group {name}"))?;
        let deleted = positions::delete(&mut cluster, name, &wanted)?;
        let outcomes = deleted.into_iter().map(|(place, result)| {
            let was = current.get(&place).copied().unwrap_or(-1);
            let partition = format!("{}-{}", place.0, place.1);
            Outcome::of(&partition, result, &format!("deleted, was {was}"))
        });
        let outcomes: Vec<_> = outcomes.collect();
        outcome::show(target.format, "PARTITION", &outcomes)
    }
}

/// Returns the partitions to delete the position of; one without a position is an error.
fn wanted(scopes: &[Scope], current: &BTreeMap<Place, i64>) -> anyhow::Result<BTreeSet<Place>> {
    let mut wanted = BTreeSet::new();
    for Scope { topic, partitions } in scopes {
        if partitions.is_empty() {
            let of_topic = current.keys().filter(|place| place.0 == *topic);
            let of_topic: Vec<_> = of_topic.cloned().collect();
            if of_topic.is_empty() {
                bail!("no position in topic {topic}");
            }
            wanted.extend(of_topic);
        }
        for &partition in partitions {
            let place = (topic.clone(), partition);
            if !current.contains_key(&place) {
                bail!("no position in partition {topic}-{partition}");
            }
            wanted.insert(place);
        }
    }
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_positions_that_there_are_can_be_deleted() {
        let place = |topic: &str, partition| (topic.to_owned(), partition);
        let current = [(place("a", 0), 5), (place("a", 2), 0), (place("b", 1), 7)];
        let current: BTreeMap<Place, i64> = current.into();
        let wanted = |scopes: &[&str]| {
            let scopes: Vec<Scope> = scopes.iter().map(|one| one.parse().unwrap()).collect();
            let wanted = wanted(&scopes, &current).map_err(|error| error.to_string())?;
            Ok(wanted.into_iter().collect::<Vec<_>>())
        };
        assert_eq!(wanted(&["a"]), Ok(vec![place("a", 0), place("a", 2)]));
        assert_eq!(
            wanted(&["a:2", "b"]),
            Ok(vec![place("a", 2), place("b", 1)])
        );
        assert_eq!(wanted(&["b", "b:1", "b"]), Ok(vec![place("b", 1)]));
        let refused = Err("no position in partition a-1".to_owned());
        assert_eq!(wanted(&["a:0,1"]), refused);
        assert_eq!(
            wanted(&["b", "c"]),
            Err("no position in topic c".to_owned())
        );
    }
}
