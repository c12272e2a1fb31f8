//! The usage of clients that this shard counts.
//!
//! Bounded: a client that has used nothing for as long as usage is remembered is removed, whenever
//! the table has doubled since the last sweep. Clients choose their names, so at the bound in bytes
//! the half that was idle the longest is removed, too. That does not weaken the quotas, because a
//! client under a new name has no usage anyway.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use platform::clock::Instant;

use super::limits::Bucket;
use super::rate::{Rate, Windows};

/// Number of entries below which no sweep runs.
const SWEEP_MIN: usize = 1024;

/// Most bytes of the meters of a shard.
const BYTES_MAX: usize = 8 << 20;

/// Bytes that a meter takes beside its name: windows, and its entry in the table.
const METER_BYTES: usize = 768;

const _: () = assert!(
    SWEEP_MIN * METER_BYTES < BYTES_MAX,
    "few meters are never looked through"
);

/// How an amount is charged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Charge {
    /// It was used, whether or not the quota allows it.
    Used,
    /// It is used only if the quota allows it.
    IfAllowed,
    /// It is not used: only the throttle time is wanted.
    Never,
}

/// The meters of one shard.
#[derive(Default, Debug)]
pub(crate) struct Meters {
    // Bounded: `BYTES_MAX`, by `sweep`.
    rates: HashMap<Bucket, Rate>,
    /// The bytes that they take.
    bytes: usize,
    sweep_at: usize,
}

impl Meters {
    /// Charges an amount and returns how long to wait.
    pub(crate) fn charge(
        &mut self,
        bucket: Bucket,
        limit: f64,
        windows: Windows,
        amount: f64,
        charge: Charge,
        now: Instant,
    ) -> Duration {
        self.sweep(windows, now);
        let rate = match self.rates.entry(bucket) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                self.bytes = self.bytes.saturating_add(bytes_of(new.key()));
                new.insert(Rate::default())
            }
        };
        rate.add(windows, amount, now);
        let pause = rate.pause(windows, limit, now);
        let used = match charge {
            Charge::Used => true,
            Charge::IfAllowed => pause.is_zero(),
            Charge::Never => false,
        };
        if !used {
            rate.add(windows, -amount, now);
        }
        pause
    }

    /// Returns the bytes that the meters take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    fn sweep(&mut self, windows: Windows, now: Instant) {
        let is_full = self.bytes > BYTES_MAX;
        if self.rates.len() < self.sweep_at.max(SWEEP_MIN) && !is_full {
            return;
        }
        let span = windows.span();
        self.keep(|touched| now.saturating_duration_since(touched) < span);
        if self.bytes > BYTES_MAX / 2 && is_full {
            let mut times: Vec<_> = self.rates.values().filter_map(Rate::touched).collect();
            let middle = times.len() / 2;
            if middle < times.len() {
                let (_, median, _) = times.select_nth_unstable(middle);
                let median = *median;
                self.keep(|touched| touched > median);
            }
        }
        self.sweep_at = self.rates.len().saturating_mul(2);
    }

    fn keep(&mut self, is_kept: impl Fn(Instant) -> bool) {
        let mut bytes = 0_usize;
        self.rates.retain(|bucket, rate| {
            let is_kept = rate.touched().is_some_and(&is_kept);
            if is_kept {
                bytes = bytes.saturating_add(bytes_of(bucket));
            }
            is_kept
        });
        assert!(bytes <= self.bytes, "who is forgotten takes nothing");
        self.bytes = bytes;
    }
}

fn bytes_of(bucket: &Bucket) -> usize {
    bucket.bytes().saturating_add(METER_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::QuotaTable;
    use crate::quota::{Limits, QuotaKind};

    const WINDOWS: Windows = Windows {
        samples: 11,
        window: Duration::from_secs(1),
    };

    fn bucket(client: &str) -> Bucket {
        let entity = [("client-id".to_owned(), None)].into();
        let quotas = [(QuotaKind::Produce.key().to_owned(), 1.0)].into();
        let limits = Limits::new(&QuotaTable::from([(entity, quotas)]));
        limits.find(QuotaKind::Produce, "u", client).unwrap().0
    }

    #[test]
    fn what_is_refused_is_not_counted() {
        let now = Instant::now();
        let mut meters = Meters::default();
        let mut charge =
            |amount: f64, how| meters.charge(bucket("a"), 100.0, WINDOWS, amount, how, now);
        assert!(charge(2000.0, Charge::IfAllowed) > Duration::ZERO);
        assert!(charge(2000.0, Charge::Never) > Duration::ZERO);
        assert_eq!(charge(900.0, Charge::IfAllowed), Duration::ZERO);
        assert!(charge(200.0, Charge::Used) > Duration::ZERO);
        assert!(charge(1.0, Charge::Used) > Duration::ZERO);
    }

    #[test]
    fn clients_that_have_gone_are_forgotten() {
        let start = Instant::now();
        let mut meters = Meters::default();
        for number in 0..20_000_u32 {
            let now = start + Duration::from_millis(100) * number;
            let client = bucket(&number.to_string());
            meters.charge(client, 100.0, WINDOWS, 1.0, Charge::Used, now);
            assert!(meters.rates.len() <= SWEEP_MIN + 1);
        }
    }

    #[test]
    fn a_client_with_many_names_takes_no_more_than_the_bound_and_pushes_nobody_out() {
        let start = Instant::now();
        let mut meters = Meters::default();
        let charge = |meters: &mut Meters, client: &str, ms: u32| {
            let now = start + Duration::from_millis(1) * ms;
            meters.charge(bucket(client), 100.0, WINDOWS, 1.0, Charge::Used, now)
        };
        for _ in 0..2000 {
            charge(&mut meters, "honest", 0);
        }
        for number in 0..5000_u32 {
            let name = format!("{number:030000}");
            charge(&mut meters, &name, number / 10);
            assert!(meters.bytes <= BYTES_MAX + 40_000);
            let pause = charge(&mut meters, "honest", number / 10);
            assert!(pause > Duration::ZERO, "its usage was forgotten: {number}");
        }
        let bytes = meters.rates.keys().map(bytes_of);
        assert_eq!(meters.bytes, bytes.fold(0, usize::saturating_add));
    }
}
