//! The usage of clients that this shard counts.
//!
//! Bounded: a client that has used nothing for as long as usage is remembered is removed, whenever
//! the table has doubled since the last sweep. Clients choose their names, so at the bound in bytes
//! the half that was idle the longest is removed, too. That does not weaken the quotas, because a
//! client under a new name has no usage anyway. Some of the meters are shown (`places.rs`).

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use platform::clock::Instant;

use super::limits::Bucket;
use super::places::Places;
use super::rate::{Rate, Windows};
use super::usage::{BucketUsage, ShardUsage};
use crate::metrics::lately::{Durations, RecentDurations};

/// Number of entries below which no sweep runs.
const SWEEP_MIN: usize = 1024;

/// Most bytes of the meters of a shard.
const BYTES_MAX: usize = 8 << 20;

/// Bytes that a meter takes beside its name: windows, pauses, and its entry in the table.
const METER_BYTES: usize = 896;

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

/// What one bucket has used.
#[derive(Debug)]
struct Meter {
    rate: Rate,
    /// When it was last charged.
    charged: Instant,
    /// How long its clients were held back; `None` if they never were.
    pauses: Option<Box<RecentDurations>>,
    is_shown: bool,
}

impl Meter {
    fn new(now: Instant) -> Self {
        Self {
            rate: Rate::default(),
            charged: now,
            pauses: None,
            is_shown: false,
        }
    }

    fn note_pause(&mut self, pause: Duration, now: Instant) {
        let begin = || Box::new(RecentDurations::since(now));
        self.pauses.get_or_insert_with(begin).note(pause, now);
    }

    fn usage(&mut self, bucket: &Bucket, windows: Windows, now: Instant) -> BucketUsage {
        let pauses = self.pauses.as_mut();
        BucketUsage {
            bucket: bucket.clone(),
            per_second: self.rate.per_second(windows, now),
            pauses: pauses.map_or_else(Durations::default, |pauses| pauses.noted(now)),
        }
    }
}

/// The meters of one shard.
#[derive(Debug)]
pub(crate) struct Meters {
    // Bounded: `BYTES_MAX`, by `sweep`.
    of: HashMap<Bucket, Meter>,
    /// The bytes that they take.
    bytes: usize,
    sweep_at: usize,
    /// Those that the metrics show.
    places: Places,
}

impl Meters {
    /// Creates the meters of one of `shards` shards.
    pub(crate) fn new(shards: usize) -> Self {
        Self {
            of: HashMap::new(),
            bytes: 0,
            sweep_at: 0,
            places: Places::new(shards),
        }
    }

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
        let pause_max = bucket.pause_max(windows);
        let meter = match self.of.entry(bucket) {
            Entry::Occupied(mut known) => {
                if !known.get().is_shown {
                    known.get_mut().is_shown = self.places.take(known.key());
                }
                known.into_mut()
            }
            Entry::Vacant(new) => {
                self.bytes = self.bytes.saturating_add(bytes_of(new.key()));
                let is_shown = self.places.take(new.key());
                let meter = Meter::new(now);
                new.insert(Meter { is_shown, ..meter })
            }
        };
        meter.charged = now;
        let rate = &mut meter.rate;
        rate.add(windows, amount, now);
        let pause = rate.pause(windows, limit, now).min(pause_max);
        let used = match charge {
            Charge::Used => true,
            Charge::IfAllowed => pause.is_zero(),
            Charge::Never => false,
        };
        if !used {
            rate.add(windows, -amount, now);
        }
        if !pause.is_zero() {
            meter.note_pause(pause, now);
        }
        pause
    }

    /// Returns what the metrics show.
    pub(crate) fn usage(&mut self, windows: Windows, now: Instant) -> ShardUsage {
        let (meters, mut buckets) = (&mut self.of, Vec::new());
        let kept_idle = self.places.kept_idle(windows);
        self.places.retain(|bucket| {
            let Some(meter) = meters.get_mut(bucket) else {
                return false;
            };
            meter.is_shown = now.saturating_duration_since(meter.charged) < kept_idle;
            if meter.is_shown {
                buckets.push(meter.usage(bucket, windows, now));
            }
            meter.is_shown
        });
        ShardUsage {
            buckets,
            left_out: self.places.left_out(),
        }
    }

    /// Returns the bytes that the meters take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    fn sweep(&mut self, windows: Windows, now: Instant) {
        let is_full = self.bytes > BYTES_MAX;
        if self.of.len() < self.sweep_at.max(SWEEP_MIN) && !is_full {
            return;
        }
        let span = windows.span();
        self.keep(|touched| now.saturating_duration_since(touched) < span);
        if self.bytes > BYTES_MAX / 2 && is_full {
            let touched = |meter: &Meter| meter.rate.touched();
            let mut times: Vec<_> = self.of.values().filter_map(touched).collect();
            let middle = times.len() / 2;
            if middle < times.len() {
                let (_, median, _) = times.select_nth_unstable(middle);
                let median = *median;
                self.keep(|touched| touched > median);
            }
        }
        self.sweep_at = self.of.len().saturating_mul(2);
    }

    fn keep(&mut self, is_kept: impl Fn(Instant) -> bool) {
        let mut bytes = 0_usize;
        self.of.retain(|bucket, meter| {
            let is_kept = meter.rate.touched().is_some_and(&is_kept);
            if is_kept {
                bytes = bytes.saturating_add(bytes_of(bucket));
            }
            is_kept
        });
        assert!(bytes <= self.bytes, "who is forgotten takes nothing");
        self.bytes = bytes;
        let meters = &self.of;
        self.places.retain(|bucket| meters.contains_key(bucket));
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
        let mut meters = Meters::new(1);
        let mut charge =
            |amount: f64, how| meters.charge(bucket("a"), 100.0, WINDOWS, amount, how, now);
        assert!(charge(2000.0, Charge::IfAllowed) > Duration::ZERO);
        assert!(charge(2000.0, Charge::Never) > Duration::ZERO);
        assert_eq!(charge(900.0, Charge::IfAllowed), Duration::ZERO);
        assert!(charge(200.0, Charge::Used) > Duration::ZERO);
        assert!(charge(1.0, Charge::Used) > Duration::ZERO);
    }

    #[test]
    fn as_many_clients_are_shown_as_there_are_places_and_those_that_have_gone_make_room() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        // The fewest places that a shard has.
        let mut meters = Meters::new(1024);
        let charge = |meters: &mut Meters, number: usize, seconds: u64| {
            let client = bucket(&format!("{number:03}"));
            meters.charge(client, 1e9, WINDOWS, 100.0, Charge::Used, at(seconds));
        };
        let shown = |meters: &mut Meters, seconds: u64| {
            let usage = meters.usage(WINDOWS, at(seconds));
            let names = usage
                .buckets
                .iter()
                .map(|it| it.bucket.parts().2.to_owned());
            (names.collect::<Vec<_>>(), usage.left_out)
        };
        let names = |numbers: std::ops::Range<usize>| -> Vec<_> {
            numbers.map(|number| format!("{number:03}")).collect()
        };
        for number in 0..20 {
            charge(&mut meters, number, 0);
        }
        assert_eq!(shown(&mut meters, 1), (names(0..16), 4));
        // While all places are taken, one without usage gives up its place.
        for number in 4..20 {
            charge(&mut meters, number, 12);
        }
        assert_eq!(shown(&mut meters, 13), (names(4..16), 8));
        for number in 16..20 {
            charge(&mut meters, number, 13);
        }
        assert_eq!(shown(&mut meters, 14), (names(4..20), 8));
        charge(&mut meters, 0, 100);
        assert_eq!(shown(&mut meters, 100), (Vec::new(), 9));
        // With free places, a client is shown for some minutes after it has gone.
        charge(&mut meters, 0, 100);
        assert_eq!(shown(&mut meters, 399), (names(0..1), 9));
        assert_eq!(shown(&mut meters, 400), (Vec::new(), 9));
    }

    #[test]
    fn a_name_that_is_too_long_for_a_page_has_no_place() {
        let mut meters = Meters::new(1);
        let client = bucket(&"x".repeat(257));
        let now = Instant::now();
        meters.charge(client, 1e9, WINDOWS, 100.0, Charge::Used, now);
        let usage = meters.usage(WINDOWS, now);
        assert_eq!((usage.buckets.len(), usage.left_out), (0, 1));
    }

    #[test]
    fn clients_that_have_gone_are_forgotten() {
        let start = Instant::now();
        let mut meters = Meters::new(1);
        for number in 0..20_000_u32 {
            let now = start + Duration::from_millis(100) * number;
            let client = bucket(&number.to_string());
            meters.charge(client, 100.0, WINDOWS, 1.0, Charge::Used, now);
            assert!(meters.of.len() <= SWEEP_MIN + 1);
        }
    }

    #[test]
    fn a_client_with_many_names_takes_no_more_than_the_bound_and_pushes_nobody_out() {
        let start = Instant::now();
        let mut meters = Meters::new(1);
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
        let bytes = meters.of.keys().map(bytes_of);
        assert_eq!(meters.bytes, bytes.fold(0, usize::saturating_add));
    }
}
