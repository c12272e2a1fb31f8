//! The offset of another host's clock, measured by asking it for its time.
//!
//! A round trip bounds the offset: the other host reads its clock between the request and the
//! response. The shortest of several round trips gives the tightest bound; half its length is the
//! uncertainty, whatever the network does.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the current time in microseconds since 1970.
pub(super) fn now_us() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| i64::try_from(now.as_micros()).unwrap_or(i64::MAX))
}

/// How far another clock is ahead of this host's, and the uncertainty; in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Offset {
    pub(super) ahead_us: i64,
    pub(super) uncertainty_us: i64,
}

/// The local time of the request, the remote time in the response, and the local time of its
/// arrival; in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoundTrip {
    pub(super) asked: i64,
    pub(super) said: i64,
    pub(super) heard: i64,
}

impl Offset {
    /// Returns the offset that the shortest of `trips` gives.
    pub(super) fn of(trips: &[RoundTrip]) -> Self {
        let shortest = trips.iter().min_by_key(|trip| trip.heard - trip.asked);
        shortest.map_or_else(Self::default, |trip| {
            let took = trip.heard - trip.asked;
            Self {
                ahead_us: trip.said - (trip.asked + took / 2),
                uncertainty_us: (took + 1) / 2,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_true_offset_is_within_the_uncertainty(
            ahead in -1_000_000_000_i64..1_000_000_000,
            trips in prop::collection::vec((0_i64..50_000, 0_i64..50_000), 1..20),
        ) {
            let trips: Vec<_> = trips.iter().map(|(there, back)| RoundTrip {
                asked: 1_000,
                said: 1_000 + there + ahead,
                heard: 1_000 + there + back,
            }).collect();
            let found = Offset::of(&trips);
            prop_assert!((found.ahead_us - ahead).abs() <= found.uncertainty_us);
        }
    }

    #[test]
    fn the_shortest_round_trip_counts() {
        let trip = |asked, said, heard| RoundTrip { asked, said, heard };
        let found = Offset::of(&[trip(0, 90, 1_000), trip(0, 550, 100), trip(0, 0, 400)]);
        assert_eq!((found.ahead_us, found.uncertainty_us), (500, 50));
    }
}
