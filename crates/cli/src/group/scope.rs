//! `TOPIC[:PARTITION,..]`: a topic, or some of its partitions, on a command line.
//!
//! It does not look up whether they exist.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use anyhow::bail;

use crate::ask::PartitionKey;

/// A topic, or some of its partitions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Scope {
    pub(super) topic: String,
    /// All if empty.
    pub(super) partitions: Vec<i32>,
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (topic, partitions) = match text.split_once(':') {
            Some((topic, list)) => {
                let numbers = list.split(',').map(str::parse::<i32>);
                let numbers: Result<Vec<_>, _> = numbers.collect();
                (
                    topic,
                    numbers.map_err(|_| format!("{list:?} are no partitions"))?,
                )
            }
            None => (text, Vec::new()),
        };
        if topic.is_empty() {
            return Err("no topic".to_owned());
        }
        Ok(Self {
            topic: topic.to_owned(),
            partitions,
        })
    }
}

impl Scope {
    /// Returns the partitions in this scope; `there` are those of a topic that is named as a whole.
    pub(super) fn places<'a>(
        &self,
        there: impl Iterator<Item = &'a PartitionKey>,
    ) -> BTreeSet<PartitionKey> {
        if self.partitions.is_empty() {
            let of_topic = there.filter(|place| place.0 == self.topic);
            return of_topic.cloned().collect();
        }
        let partitions = self.partitions.iter();
        let places = partitions.map(|&partition| (self.topic.clone(), partition));
        places.collect()
    }
}

/// Returns the partitions in these scopes that have a position; a scope without one is an error.
pub(super) fn with_position(
    scopes: &[Scope],
    current: &BTreeMap<PartitionKey, i64>,
) -> anyhow::Result<BTreeSet<PartitionKey>> {
    let mut wanted = BTreeSet::new();
    for scope in scopes {
        let places = scope.places(current.keys());
        if places.is_empty() {
            bail!("no position in topic {}", scope.topic);
        }
        if let Some(missing) = places.iter().find(|place| !current.contains_key(*place)) {
            bail!("no position in partition {}-{}", missing.0, missing.1);
        }
        wanted.extend(places);
    }
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_topics_or_some_of_their_partitions() {
        let scope = |topic: &str, partitions: &[i32]| Scope {
            topic: topic.to_owned(),
            partitions: partitions.to_vec(),
        };
        assert_eq!("cars".parse(), Ok(scope("cars", &[])));
        assert_eq!("cars:0,3".parse(), Ok(scope("cars", &[0, 3])));
        for text in ["", ":1", "cars:", "cars:x"] {
            assert!(text.parse::<Scope>().is_err(), "{text}");
        }
    }
    #[test]
    fn only_positions_that_there_are_can_be_wanted() {
        let place = |topic: &str, partition| (topic.to_owned(), partition);
        let current = [(place("a", 0), 5), (place("a", 2), 0), (place("b", 1), 7)];
        let current: BTreeMap<PartitionKey, i64> = current.into();
        let wanted = |scopes: &[&str]| {
            let scopes: Vec<Scope> = scopes.iter().map(|one| one.parse().unwrap()).collect();
            let wanted = with_position(&scopes, &current).map_err(|error| error.to_string())?;
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
