//! Merges the outcomes of several hosts that ran one load together.
//!
//! Invariants: latencies are merged as histograms; the bytes of the curve are preserved, whatever
//! the hosts' clocks show. Hosts begin at a common time, but each reports its own; the earliest is
//! the start of the whole, and the intervals of the other hosts are shifted to it and spread over
//! its grid in proportion. An edge within a tenth of an interval of the grid counts as on it:
//! clocks are not more precise than that.

use std::collections::BTreeMap;

use super::{Interval, Latency, LoadOutcome, RecordCheckResult, Side, Usage};
use crate::latency::Percentiles;

/// Distance from the grid, in intervals, up to which an edge counts as on it.
const SNAP: f64 = 0.1;

impl LoadOutcome {
    /// Returns the outcome of the whole load, from the first start to the last end.
    ///
    /// The broker is the same for all hosts, so its usage is that of the first host that reports
    /// it; the usages of generators are added.
    pub fn merge(parts: &[Self]) -> anyhow::Result<Self> {
        let started_ms = parts.iter().map(|part| part.started_ms).min();
        let started_ms = started_ms.unwrap_or_default();
        let mut whole = Self {
            started_ms,
            produce: merge_sides(parts.iter().filter_map(|part| part.produce.as_ref()))?,
            consume: merge_sides(parts.iter().filter_map(|part| part.consume.as_ref()))?,
            intervals: merge_intervals(parts, started_ms)?,
            broker: parts.iter().find_map(|part| part.broker.clone()),
            client: merge_usages(parts.iter().filter_map(|part| part.client.as_ref())),
            verified: merge_verified(parts.iter().filter_map(|part| part.verified.as_ref())),
            hosts: parts.iter().flat_map(|part| part.hosts.clone()).collect(),
            ..Self::default()
        };
        let mut reasons: Vec<&str> = Vec::new();
        for part in parts {
            whole.seconds = whole
                .seconds
                .max(part.seconds + behind(part.started_ms, started_ms));
            for (error, count) in &part.errors {
                *whole.errors.entry(error.clone()).or_default() += count;
            }
            reasons.extend(part.aborted.as_deref());
        }
        reasons.dedup();
        whole.aborted = (!reasons.is_empty()).then(|| reasons.join("; "));
        Ok(whole)
    }
}

/// Returns the seconds from one time to a later one.
fn behind(later_ms: i64, started_ms: i64) -> f64 {
    (later_ms - started_ms) as f64 / 1e3
}

fn merge_sides<'a>(sides: impl Iterator<Item = &'a Side>) -> anyhow::Result<Option<Side>> {
    let sides: Vec<_> = sides.collect();
    if sides.is_empty() {
        return Ok(None);
    }
    Ok(Some(Side {
        records: sides.iter().map(|side| side.records).sum(),
        bytes: sides.iter().map(|side| side.bytes).sum(),
        wire_bytes: sides.iter().map(|side| side.wire_bytes).sum(),
        requests: sides.iter().map(|side| side.requests).sum(),
        latency: Latency::merge(sides.iter().map(|side| &side.latency))?,
    }))
}

fn merge_usages<'a>(usages: impl Iterator<Item = &'a Usage>) -> Option<Usage> {
    usages.cloned().reduce(|all, one| Usage {
        cpu_seconds: all.cpu_seconds + one.cpu_seconds,
        system_seconds: all.system_seconds + one.system_seconds,
        resident_bytes_max: all.resident_bytes_max + one.resident_bytes_max,
        disk_written_bytes: all.disk_written_bytes + one.disk_written_bytes,
        disk_read_bytes: all.disk_read_bytes + one.disk_read_bytes,
        network_received_bytes: all.network_received_bytes + one.network_received_bytes,
        network_sent_bytes: all.network_sent_bytes + one.network_sent_bytes,
    })
}

fn merge_verified<'a>(
    found: impl Iterator<Item = &'a RecordCheckResult>,
) -> Option<RecordCheckResult> {
    found.cloned().reduce(|all, one| RecordCheckResult {
        acknowledged: all.acknowledged + one.acknowledged,
        read: all.read + one.read,
        lost: all.lost + one.lost,
        duplicated: all.duplicated + one.duplicated,
        disordered: all.disordered + one.disordered,
        damaged: all.damaged + one.damaged,
    })
}

/// The parts that fall into one interval of the whole.
#[derive(Default)]
struct Slot {
    end: f64,
    produced: f64,
    consumed: f64,
    latencies: Vec<Latency>,
    tier_bytes: Vec<u64>,
}

fn merge_intervals(parts: &[LoadOutcome], started_ms: i64) -> anyhow::Result<Vec<Interval>> {
    let length = interval_length(parts);
    let mut slots: BTreeMap<i64, Slot> = BTreeMap::new();
    for part in parts {
        let shift = behind(part.started_ms, started_ms);
        let mut start = None;
        for one in &part.intervals {
            let end = snapped((one.at + shift) / length);
            // An interval begins where the previous one ended.
            let begin = start.unwrap_or(end - 1.0).min(end);
            start = Some(end);
            spread(one, begin, end, &mut slots);
        }
    }
    let mut whole = Vec::with_capacity(slots.len());
    let (mut produced, mut consumed) = (Rounding::default(), Rounding::default());
    for slot in slots.into_values() {
        let mut interval = Interval {
            at: slot.end * length,
            produced: produced.next(slot.produced),
            consumed: consumed.next(slot.consumed),
            // Percentiles of hosts cannot be merged, so without histograms there are none.
            p50_us: 0,
            p99_us: 0,
            latency: Latency::merge(&slot.latencies)?,
            tier_bytes: slot.tier_bytes,
        };
        if !interval.latency.is_empty() {
            let of_all = Percentiles::of(&interval.latency.histogram()?);
            (interval.p50_us, interval.p99_us) = (of_all.p50, of_all.p99);
        }
        whole.push(interval);
    }
    Ok(whole)
}

/// Adds an interval to the intervals of the grid that it overlaps; times are in intervals.
///
/// Latencies cannot be divided: they go to the last grid interval that holds at least half of it,
/// otherwise to the one in which it ends.
fn spread(one: &Interval, begin: f64, end: f64, slots: &mut BTreeMap<i64, Slot>) {
    let ends_in = end.ceil() as i64 - 1;
    let (first, last) = if end > begin {
        (begin.floor() as i64, ends_in.max(begin.floor() as i64))
    } else {
        // Both edges count as the same grid line: it belongs to the interval that ends there.
        (ends_in.max(0), ends_in.max(0))
    };
    let mut home = last;
    for index in first..=last {
        let from = begin.max(index as f64);
        let to = end.min((index + 1) as f64);
        let part = if end > begin {
            (to - from) / (end - begin)
        } else {
            1.0
        };
        let slot = slots.entry(index).or_insert_with(|| Slot {
            end: to,
            ..Slot::default()
        });
        slot.end = slot.end.max(to);
        slot.produced += one.produced as f64 * part;
        slot.consumed += one.consumed as f64 * part;
        if part >= 0.5 {
            home = index;
        }
    }
    let slot = slots.entry(home).or_default();
    if !one.latency.is_empty() {
        slot.latencies.push(one.latency.clone());
    }
    // The tiers are the broker's, so every host that reports them reports the same.
    slot.tier_bytes
        .resize(slot.tier_bytes.len().max(one.tier_bytes.len()), 0);
    for (all, seen) in slot.tier_bytes.iter_mut().zip(&one.tier_bytes) {
        *all = (*all).max(*seen);
    }
}

/// Returns the most common interval length: the median of the distances between ends.
fn interval_length(parts: &[LoadOutcome]) -> f64 {
    let mut lengths: Vec<f64> = parts
        .iter()
        .flat_map(|part| part.intervals.windows(2))
        .map(|pair| pair[1].at - pair[0].at)
        .filter(|length| *length > 0.0)
        .collect();
    lengths.sort_by(f64::total_cmp);
    match lengths.get(lengths.len() / 2) {
        // Ends are slightly late now and then; the configured length is a round number.
        Some(length) if *length >= 0.5 => (length * 10.0).round() / 10.0,
        Some(length) => ((length * 1e3).round() / 1e3).max(1e-3),
        None => 1.0,
    }
}

fn snapped(edge: f64) -> f64 {
    let grid = edge.round();
    if (edge - grid).abs() <= SNAP {
        grid
    } else {
        edge
    }
}

/// Rounds parts so that their sum equals the rounded whole.
#[derive(Default)]
struct Rounding {
    exact: f64,
    given: u64,
}

impl Rounding {
    fn next(&mut self, part: f64) -> u64 {
        self.exact += part;
        let given = (self.exact.round() as u64).saturating_sub(self.given);
        self.given += given;
        given
    }
}

#[cfg(test)]
mod tests;
