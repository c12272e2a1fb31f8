//! `TOPIC[:PARTITION,..]`: a topic, or some of its partitions, on a command line.
//!
//! It does not look up whether they exist.

use std::str::FromStr;

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
}
