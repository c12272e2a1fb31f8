//! Decides, when a partition returns no records, whether there are none or whether the broker
//! cannot read it.
//!
//! The client retries forever when a fetch is refused because of the broker's disk
//! (`KAFKA_STORAGE_ERROR`) or a similar error: to its user it would look as if there were no
//! records. So, after a time without records, the command looks which partitions are refused. A
//! refusal is reported once; when it has lasted for the command's `--timeout` without a record in
//! between, the command fails. Transient errors (a leader that moves) are left to the client.
//!
//! It performs no I/O: the caller passes the time and the refusals of the partitions.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use wire::types::TopicPartition;

use crate::ask::Refusal;

/// Time without records after which the refusals are looked at.
const FIRST_AFTER: Duration = Duration::from_secs(1);
/// Longest pause between two looks while there is no refusal.
const EVERY_MAX: Duration = Duration::from_secs(10);

/// The state of a reader that waits.
#[derive(Debug)]
pub(super) struct Patience {
    within: Duration,
    look_at: Instant,
    every: Duration,
    failing_since: Option<Instant>,
    /// The refusal of each partition at the last look.
    refusals: BTreeMap<TopicPartition, Refusal>,
}

impl Patience {
    /// Makes a state that gives up when refusals have lasted for `within`.
    pub(super) fn new(within: Duration, now: Instant) -> Self {
        Self {
            within,
            look_at: now + FIRST_AFTER,
            every: FIRST_AFTER,
            failing_since: None,
            refusals: BTreeMap::new(),
        }
    }

    /// Records that a record came or that the end of a partition was reached.
    pub(super) fn progressed(&mut self, now: Instant) {
        self.look_at = now + FIRST_AFTER;
        self.every = FIRST_AFTER;
        self.failing_since = None;
    }

    /// Returns true if it is time to look at the refusals.
    pub(super) fn wants_to_look(&self, now: Instant) -> bool {
        now >= self.look_at
    }

    /// Takes the refusals of a look, and returns the new ones, to be reported.
    ///
    /// The error is the refusal that ends the command.
    pub(super) fn looked(
        &mut self,
        refusals: BTreeMap<TopicPartition, Refusal>,
        now: Instant,
    ) -> Result<Vec<(TopicPartition, Refusal)>, (TopicPartition, Refusal)> {
        let refusals: BTreeMap<_, _> = refusals
            .into_iter()
            .filter(|(_, refusal)| !refusal.passes())
            .collect();
        let Some((place, refusal)) = refusals.first_key_value() else {
            self.every = (self.every * 2).min(EVERY_MAX);
            self.look_at = now + self.every;
            self.failing_since = None;
            self.refusals.clear();
            return Ok(Vec::new());
        };
        self.look_at = now + FIRST_AFTER;
        let since = *self.failing_since.get_or_insert(now);
        if now.saturating_duration_since(since) >= self.within {
            return Err((place.clone(), refusal.clone()));
        }
        let is_new = |(place, refusal): &(&TopicPartition, &Refusal)| {
            self.refusals.get(*place) != Some(*refusal)
        };
        let new = refusals.iter().filter(is_new);
        let new = new.map(|(place, refusal)| (place.clone(), refusal.clone()));
        let new = new.collect();
        self.refusals = refusals;
        Ok(new)
    }
}

#[cfg(test)]
mod tests {
    use wire::types::ErrorCode;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn refusals(partitions: &[(i32, ErrorCode)]) -> BTreeMap<TopicPartition, Refusal> {
        let place = |partition: i32| TopicPartition {
            topic: "cars".into(),
            partition,
        };
        let refusals = partitions.iter();
        refusals
            .map(|(partition, code)| (place(*partition), (*code).into()))
            .collect()
    }

    #[test]
    fn a_disk_that_fails_is_said_once_and_ends_it_after_the_timeout() {
        let began = Instant::now();
        let mut patience = Patience::new(5 * SECOND, began);
        assert!(!patience.wants_to_look(began));
        let storage = || refusals(&[(0, ErrorCode::KafkaStorageError)]);
        let mut said = 0;
        for second in 1..=5 {
            let now = began + second * SECOND;
            assert!(patience.wants_to_look(now));
            said += patience.looked(storage(), now).unwrap().len();
        }
        assert_eq!(said, 1);
        let (place, refusal) = patience.looked(storage(), began + 6 * SECOND).unwrap_err();
        assert_eq!(
            (place.to_string().as_str(), refusal.to_string().as_str()),
            ("cars-0", "KAFKA_STORAGE_ERROR")
        );
    }

    #[test]
    fn what_comes_meanwhile_or_passes_is_no_reason_to_end() {
        let began = Instant::now();
        let mut patience = Patience::new(5 * SECOND, began);
        for second in 1..100 {
            let now = began + second * SECOND;
            let moving = refusals(&[(0, ErrorCode::NotLeaderOrFollower)]);
            assert_eq!(patience.looked(moving, now), Ok(Vec::new()));
        }
        for second in 100..200 {
            let now = began + second * SECOND;
            if second % 4 == 0 {
                patience.progressed(now);
            }
            let failing = refusals(&[(1, ErrorCode::KafkaStorageError)]);
            assert!(patience.looked(failing, now).is_ok());
        }
    }

    #[test]
    fn who_waits_for_records_to_come_asks_less_and_less() {
        let began = Instant::now();
        let mut patience = Patience::new(5 * SECOND, began);
        let asked = (1..=100).filter(|second| {
            let now = began + *second * SECOND;
            let looks = patience.wants_to_look(now);
            if looks {
                patience.looked(BTreeMap::new(), now).unwrap();
            }
            looks
        });
        assert!(asked.count() <= 13);
    }
}
