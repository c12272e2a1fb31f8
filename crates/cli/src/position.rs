//! A place in a partition: a word, an offset, a number of records before the end, or a time.
//!
//! Invariant: the offset found lies within the bounds of the partition.

use std::collections::BTreeMap;

use wire::messages::metadata_response::MetadataResponseTopic;

use crate::ask::{Cluster, EARLIEST, LATEST, PartitionKey};
use crate::moment;

/// A place in a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Position {
    /// The oldest record.
    Start,
    /// After the newest record.
    End,
    /// This offset.
    Offset(i64),
    /// This many offsets before the end.
    Last(i64),
    /// The first record at or after this time, in milliseconds since 1970.
    At(i64),
}

impl std::str::FromStr for Position {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is none of start, end, OFFSET, -COUNT, @TIME");
        match text {
            // As rpk, kcat and Kafka's own tools say it.
            "start" | "oldest" | "beginning" | "earliest" => Ok(Self::Start),
            "end" | "newest" | "latest" => Ok(Self::End),
            _ => {
                if let Some(time) = text.strip_prefix('@') {
                    return since_1970(time).map(Self::At);
                }
                let number: i64 = text.parse().map_err(|_| wrong())?;
                match number.checked_neg() {
                    Some(count) if count > 0 || text.starts_with('-') => Ok(Self::Last(count)),
                    Some(_) => Ok(Self::Offset(number)),
                    None => Err(wrong()),
                }
            }
        }
    }
}

/// Reads a time, which is not negative: brokers take negative numbers for other questions than the
/// offset at a time, such as -1 for the end.
fn since_1970(text: &str) -> Result<i64, String> {
    let time = moment::parse(text)?;
    if time < 0 {
        return Err(format!("{text:?} is before 1970"));
    }
    Ok(time)
}

/// The bounds of a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bounds {
    pub(crate) start: i64,
    pub(crate) end: i64,
}

impl Bounds {
    /// Returns the closest offset within the bounds.
    pub(crate) fn clip(self, offset: i64) -> i64 {
        offset.max(self.start).min(self.end)
    }
}

/// Returns the bounds of every partition of these topics, for a reader with this isolation level.
pub(crate) fn bounds(
    cluster: &mut Cluster,
    topics: &[MetadataResponseTopic],
    isolation: i8,
) -> anyhow::Result<BTreeMap<PartitionKey, Bounds>> {
    let starts = cluster.offsets_of_all(topics, EARLIEST, isolation)?;
    let ends = cluster.offsets_of_all(topics, LATEST, isolation)?;
    let both = starts.into_iter().filter_map(|(place, start)| {
        let end = *ends.get(&place)?;
        Some((place, Bounds { start, end }))
    });
    Ok(both.collect())
}

impl Position {
    /// Returns the offset in every partition of these topics, within its bounds.
    pub(crate) fn find(
        self,
        cluster: &mut Cluster,
        topics: &[MetadataResponseTopic],
        bounds: &BTreeMap<PartitionKey, Bounds>,
    ) -> anyhow::Result<BTreeMap<PartitionKey, i64>> {
        let by_time = match self {
            Self::At(time) => cluster.offsets_of_all(topics, time, 0)?,
            _ => BTreeMap::new(),
        };
        let found = bounds.iter().map(|(place, bounds)| {
            let by_time = by_time.get(place).copied();
            // No record is as recent: the position is after the last one.
            let offset = self.within(*bounds, by_time).unwrap_or(bounds.end);
            (place.clone(), offset)
        });
        Ok(found.collect())
    }

    /// Returns the offset within the bounds of one partition, in which the broker found `by_time`.
    ///
    /// Returns `None` if no record is as recent as the time.
    pub(crate) fn within(self, bounds: Bounds, by_time: Option<i64>) -> Option<i64> {
        let offset = match self {
            Self::Start => bounds.start,
            Self::End => bounds.end,
            Self::Offset(offset) => offset,
            Self::Last(count) => bounds.end.saturating_sub(count),
            Self::At(_) => by_time.filter(|&offset| offset >= 0)?,
        };
        Some(bounds.clip(offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_say_where() {
        for (text, position) in [
            ("start", Position::Start),
            ("oldest", Position::Start),
            ("beginning", Position::Start),
            ("earliest", Position::Start),
            ("end", Position::End),
            ("newest", Position::End),
            ("latest", Position::End),
            ("0", Position::Offset(0)),
            ("17", Position::Offset(17)),
            ("-10", Position::Last(10)),
            ("-0", Position::Last(0)),
            ("@1700000000000", Position::At(1_700_000_000_000)),
            ("@2000-02-29", Position::At(951_782_400_000)),
            ("@0", Position::At(0)),
        ] {
            assert_eq!(text.parse(), Ok(position), "{text}");
        }
        for text in ["", "middle", "1.5", "@", "@noon", "-9223372036854775808"] {
            assert!(text.parse::<Position>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_time_is_never_one_of_the_numbers_that_mean_another_question() {
        for text in ["@-1", "@-2", "@-3", "@-9223372036854775808", "@1969-12-31"] {
            let refused = text.parse::<Position>().unwrap_err();
            assert!(refused.ends_with("is before 1970"), "{refused}");
        }
    }

    #[test]
    fn what_is_outside_is_moved_to_the_closest_offset() {
        let bounds = Bounds { start: 5, end: 9 };
        assert_eq!([0, 5, 7, 9, 99].map(|at| bounds.clip(at)), [5, 5, 7, 9, 9]);
    }
}
