//! How far positions are behind: the ends of their partitions, and sums of lags.
//!
//! Invariant: a lag that is not known is no number; a sum tells of how many partitions it lacks the
//! lag.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};

use wire::types::ErrorCode;

use crate::ask::{Cluster, Failure, LATEST, Offsets, Place, check};

/// Returns how many offsets are behind a position.
pub(super) fn lag(position: i64, end: i64) -> i64 {
    end.saturating_sub(position).max(0)
}

/// Offsets of the partitions of some topics.
#[derive(Default, Debug)]
pub(super) struct Known {
    offsets: Offsets,
    /// Topics that the metadata has an error for: a deleted topic may still have positions.
    refused: BTreeMap<String, Failure>,
}

impl Known {
    /// Asks for the offset at each of these times in the topics of these partitions.
    pub(super) fn at<'a, const N: usize>(
        cluster: &mut Cluster,
        places: impl Iterator<Item = &'a Place>,
        times: [i64; N],
    ) -> anyhow::Result<[Self; N]> {
        let names: BTreeSet<_> = places.map(|place| place.0.clone()).collect();
        let names: Vec<_> = names.into_iter().collect();
        if names.is_empty() {
            return Ok(times.map(|_| Self::default()));
        }
        let topics = cluster.look(Some(&names), false)?.topics;
        let refused = topics.iter().filter_map(|topic| {
            let refusal = check(topic.error_code, None).err()?;
            Some((topic.name.as_ref()?.0.to_string(), refusal.into()))
        });
        let refused: BTreeMap<_, _> = refused.collect();
        Ok(times.map(|time| Self {
            offsets: cluster.offsets(&topics, time, 0),
            refused: refused.clone(),
        }))
    }

    /// Asks for the ends.
    pub(super) fn ends<'a>(
        cluster: &mut Cluster,
        places: impl Iterator<Item = &'a Place>,
    ) -> anyhow::Result<Self> {
        Self::at(cluster, places, [LATEST]).map(|[ends]| ends)
    }

    /// Returns the offset of a partition, or why it is not known.
    pub(super) fn of(&self, place: &Place) -> Result<i64, Failure> {
        match (self.offsets.get(place), self.refused.get(&place.0)) {
            (Some(offset), _) => offset.clone(),
            (None, Some(failure)) => Err(failure.clone()),
            (None, None) => Err(ErrorCode::UnknownTopicOrPartition.into()),
        }
    }
}

#[cfg(test)]
impl From<Offsets> for Known {
    fn from(offsets: Offsets) -> Self {
        let refused = BTreeMap::new();
        Self { offsets, refused }
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
    use super::*;

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
