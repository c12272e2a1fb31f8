//! A partition of a group that is described: its bounds, and the group's position in it.
//!
//! An offset that is not known has a reason.

use serde::Serialize;

use crate::ask::{Failure, PartitionKey};
use crate::group::behind;
use crate::show::or_dash;

/// A partition that the group has a position in, or that a member is assigned.
#[derive(Debug, Serialize)]
pub(super) struct Partition {
    pub(super) topic: String,
    #[serde(rename = "partition")]
    pub(super) index: i32,
    pub(super) position: Option<i64>,
    start_offset: Option<i64>,
    end_offset: Option<i64>,
    pub(super) lag: Option<i64>,
    pub(super) member: Option<String>,
    /// Why the end is not known, or else the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Whether that is a failure of the command.
    #[serde(skip)]
    pub(super) is_failed: bool,
}

impl Partition {
    pub(super) fn of(
        place: &PartitionKey,
        position: Option<i64>,
        start: Result<i64, Failure>,
        end: Result<i64, Failure>,
        member: Option<String>,
    ) -> Self {
        let (start_offset, end_offset) = (start.as_ref().ok().copied(), end.as_ref().ok().copied());
        let failures: Vec<_> = [end.err(), start.err()].into_iter().flatten().collect();
        let lag = position.zip(end_offset);
        Self {
            topic: place.0.clone(),
            index: place.1,
            position,
            start_offset,
            end_offset,
            lag: lag.map(|(position, end)| behind::lag(position, end)),
            member,
            error: failures.first().map(ToString::to_string),
            is_failed: failures.iter().any(|failure| !failure.is_excused()),
        }
    }

    /// Returns position, start, end and lag; the error in the place of the offset that it is about.
    pub(super) fn offsets(&self) -> [String; 4] {
        let or_error = |offset: Option<i64>| {
            let offset = offset.map(|offset| offset.to_string());
            or_dash(offset.or_else(|| self.error.clone()))
        };
        let start = match self.end_offset {
            Some(_) => or_error(self.start_offset),
            None => or_dash(self.start_offset),
        };
        let end = or_error(self.end_offset);
        [or_dash(self.position), start, end, or_dash(self.lag)]
    }
}

#[cfg(test)]
mod tests {
    use wire::types::ErrorCode;

    use super::*;

    fn partition(start: Result<i64, Failure>, end: Result<i64, Failure>) -> Partition {
        Partition::of(&("cars".to_owned(), 0), Some(7), start, end, None)
    }

    #[test]
    fn each_offset_that_is_not_known_is_told_and_fails() {
        let silent = || Err(Failure::NotAsked("no answer".into()));
        let known = partition(Ok(3), Ok(9));
        assert_eq!(known.offsets(), ["7", "3", "9", "2"]);
        assert!(known.error.is_none() && !known.is_failed);
        let no_end = partition(Ok(3), silent());
        assert_eq!(no_end.offsets(), ["7", "3", "no answer", "-"]);
        let no_start = partition(silent(), Ok(9));
        assert_eq!(no_start.offsets(), ["7", "no answer", "9", "2"]);
        assert_eq!(no_start.error.as_deref(), Some("no answer"));
        let neither = partition(silent(), Err(Failure::LeftOut));
        let left_out = "the broker did not answer for it";
        assert_eq!(neither.offsets(), ["7", "-", left_out, "-"]);
        assert!(no_end.is_failed && no_start.is_failed && neither.is_failed);
    }

    #[test]
    fn a_partition_without_a_leader_is_no_failure() {
        let none = || Err(ErrorCode::LeaderNotAvailable.into());
        assert!(!partition(none(), none()).is_failed);
        let refused = Err(ErrorCode::TopicAuthorizationFailed.into());
        assert!(partition(refused, none()).is_failed);
    }
}
