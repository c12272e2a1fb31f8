//! What a broker costs in processors and memory, as measured: cells by direction, record and batch.
//!
//! Between two cells the cost is interpolated in the logarithm of the batch. Invariant: what is more than four times
//! outside of what was measured is called extrapolated, wherever it is shown.

use serde::{Deserialize, Serialize};

use crate::catalogue::Month;
use crate::quantity::{Bytes, Rate, Seconds};

/// A figure that far outside of what was measured is extrapolated.
const OUTSIDE_MAX: f64 = 4.0;

/// Measurements of one broker.
pub(crate) const CELLS_MAX: usize = 1000;

/// A broker.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Software {
    /// Its name.
    pub id: String,
    /// What it is, in words.
    #[serde(default)]
    pub about: String,
    /// What takes a burst.
    pub absorbs: Absorbs,
    /// The share of memory that may be dirty, where the page cache takes bursts.
    #[serde(default)]
    pub dirty_ratio: f64,
    /// It syncs before it acknowledges.
    pub syncs: bool,
    /// It keeps a log on two local tiers.
    pub tiers: bool,
    /// Memory of its own.
    pub memory: Bytes,
    /// Memory for a replica of a partition.
    pub partition_memory: Bytes,
    /// Replicas on one broker at most.
    pub partitions_max: f64,
    /// What one partition takes.
    pub partition_rate: Rate,
    /// Bytes of a segment.
    pub segment: Bytes,
    /// Bytes of the index for a key; none: it has no keyed records.
    pub index: Option<Bytes>,
    /// Seconds of a core for a lookup, and for an update.
    pub lookup_seconds: Option<f64>,
    /// Reads of a device for a lookup that memory does not answer.
    #[serde(default = "one")]
    pub lookup_reads: f64,
    /// What was measured.
    pub cpu: Vec<Cell>,
    /// Latencies that were measured.
    #[serde(default)]
    pub latency: Vec<LatencyCell>,
    /// Where the other figures are from; without it they are assumptions.
    pub source: Option<String>,
}

/// What takes more than the disks do, for a while.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Absorbs {
    /// The first tier.
    Tier,
    /// Dirty pages: gone with the power.
    PageCache,
    /// Nothing.
    Nothing,
}

/// Which way bytes go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// In.
    Produce,
    /// Out.
    Consume,
    /// Both at once, for every byte that moves: to check the sum of the two.
    Both,
}

/// One measurement of processor time.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// Which way.
    pub direction: Direction,
    /// Bytes of a record.
    pub record: Bytes,
    /// Bytes of a batch, or of what a fetch brings.
    pub batch: Bytes,
    /// Seconds of a core for 10^9 bytes: the median.
    pub seconds: f64,
    /// The lowest.
    pub low: f64,
    /// The highest.
    pub high: f64,
    /// On what machine.
    pub machine: String,
    /// When.
    pub date: Month,
    /// By what.
    pub source: String,
}

/// One measurement of latency.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LatencyCell {
    /// Bytes of a record.
    pub record: Bytes,
    /// Bytes a second of one broker.
    pub rate: Rate,
    /// Cores of the machine.
    pub cores: f64,
    /// The 99th percentile of writing.
    pub p99: Seconds,
    /// By what.
    pub source: String,
}

fn one() -> f64 {
    1.0
}

/// Which end of a range of measurements is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Calibration {
    /// The lowest of each.
    Lowest,
    /// Medians.
    #[default]
    Median,
    /// The highest of each.
    Highest,
}

/// A cost that was looked up.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct CpuCost {
    /// Seconds of a core for 10^9 bytes.
    pub seconds: f64,
    /// More than four times outside of what was measured.
    pub extrapolated: bool,
}

impl Software {
    /// Seconds of a core for 10^9 bytes of such batches.
    pub fn cpu(
        &self,
        direction: Direction,
        record: Bytes,
        batch: Bytes,
        end: Calibration,
    ) -> CpuCost {
        let away = |cell: &Cell| (cell.record / record).ln().abs();
        let of = |cell: &Cell| match end {
            Calibration::Lowest => cell.low,
            Calibration::Median => cell.seconds,
            Calibration::Highest => cell.high,
        };
        let cells = || self.cpu.iter().filter(|cell| cell.direction == direction);
        let nearest = |is_there: &dyn Fn(&Cell) -> bool| {
            cells()
                .filter(|cell| is_there(cell))
                .map(|cell| ((cell.batch / batch).ln().abs() + away(cell), cell))
                .min_by(|one, other| one.0.total_cmp(&other.0))
                .map(|(_, cell)| cell)
        };
        let below = nearest(&|cell| cell.batch <= batch);
        let above = nearest(&|cell| cell.batch >= batch);
        let seconds = match (below, above) {
            (Some(below), Some(above)) if above.batch > below.batch => {
                let share = (batch / below.batch).ln() / (above.batch / below.batch).ln();
                // Costs per byte fall as batches grow: a straight line in both logarithms.
                (of(below).ln() * (1.0 - share) + of(above).ln() * share).exp()
            }
            (Some(cell), _) | (None, Some(cell)) => of(cell),
            (None, None) => 0.0,
        };
        let outside = |value: Bytes, of: fn(&Cell) -> Bytes| {
            let low = cells().map(|cell| of(cell).0).fold(f64::INFINITY, f64::min);
            let high = cells().map(|cell| of(cell).0).fold(0.0, f64::max);
            value.0 * OUTSIDE_MAX < low || value.0 > high * OUTSIDE_MAX
        };
        CpuCost {
            seconds,
            extrapolated: outside(batch, |cell| cell.batch) || outside(record, |cell| cell.record),
        }
    }

    /// The 99th percentile of such records: the least that was measured on a machine as busy or busier. Where none was, that
    /// of the busiest and false: more load makes it no better.
    pub fn latency(&self, record: Bytes, rate_of_a_core: Rate) -> Option<(Seconds, bool)> {
        let near = |cell: &&LatencyCell| {
            let ratio = cell.record / record;
            (1.0 / OUTSIDE_MAX..=OUTSIDE_MAX).contains(&ratio)
        };
        let of_a_core = |cell: &LatencyCell| cell.rate / cell.cores * 1.1;
        let measured = self
            .latency
            .iter()
            .filter(near)
            .filter(|cell| rate_of_a_core <= of_a_core(cell))
            .map(|cell| cell.p99)
            .reduce(Seconds::min);
        let busiest = || {
            let near = self.latency.iter().filter(near);
            near.max_by(|one, other| of_a_core(one).0.total_cmp(&of_a_core(other).0))
        };
        match measured {
            Some(p99) => Some((p99, true)),
            None => busiest().map(|cell| (cell.p99, false)),
        }
    }

    /// The oldest and the newest measurement, and on which machines.
    pub fn measured(&self) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for cell in &self.cpu {
            let said = format!("{}, {}", cell.machine, cell.date);
            if !all.contains(&said) {
                all.push(said);
            }
        }
        all
    }

    pub(crate) fn check(&self) -> Result<(), (String, String)> {
        let wrong = |key: String, value: f64, low: f64, high: f64| {
            let text = format!("{value} is not allowed; allowed: {low} to {high}");
            (!(low..=high).contains(&value)).then_some((key, text))
        };
        let plain = [
            ("dirty_ratio", self.dirty_ratio, 0.0, 1.0),
            ("memory", self.memory.0, 0.0, 1e15),
            ("partition_memory", self.partition_memory.0, 0.0, 1e15),
            ("partitions_max", self.partitions_max, 1.0, 1e9),
            ("partition_rate", self.partition_rate.0, 1.0, 1e15),
            ("segment", self.segment.0, 1.0, 1e15),
            ("index", self.index.unwrap_or_default().0, 0.0, 1e9),
            (
                "lookup_seconds",
                self.lookup_seconds.unwrap_or_default(),
                0.0,
                1e6,
            ),
            ("lookup_reads", self.lookup_reads, 0.0, 1000.0),
        ];
        let mut found = plain
            .iter()
            .find_map(|(key, value, low, high)| wrong((*key).to_owned(), *value, *low, *high));
        if self.cpu.len() > CELLS_MAX || self.latency.len() > CELLS_MAX {
            found =
                found.or_else(|| Some(("cpu".to_owned(), format!("allowed: at most {CELLS_MAX}"))));
        }
        for (at, cell) in self.cpu.iter().enumerate() {
            for (key, value) in [
                ("seconds", cell.seconds),
                ("low", cell.low),
                ("high", cell.high),
            ] {
                found = found.or_else(|| wrong(format!("cpu[{at}].{key}"), value, 1e-9, 1e9));
            }
            for (key, bytes) in [("record", cell.record), ("batch", cell.batch)] {
                found = found.or_else(|| wrong(format!("cpu[{at}].{key}"), bytes.0, 1.0, 1e12));
            }
        }
        for (at, cell) in self.latency.iter().enumerate() {
            for (key, value, low) in [
                ("record", cell.record.0, 1.0),
                ("rate", cell.rate.0, 0.0),
                ("cores", cell.cores, 0.001),
                ("p99", cell.p99.0, 0.0),
            ] {
                found = found.or_else(|| wrong(format!("latency[{at}].{key}"), value, low, 1e15));
            }
        }
        for needed in [Direction::Produce, Direction::Consume] {
            if !self.cpu.iter().any(|cell| cell.direction == needed) {
                let text = "at least one cell to produce and one to consume is needed".to_owned();
                found = found.or(Some(("cpu".to_owned(), text)));
            }
        }
        found.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Catalogue;

    fn cost(id: &str, direction: Direction, record: f64, batch: f64) -> CpuCost {
        let all = Catalogue::shipped().unwrap();
        let software = all.software(id).unwrap();
        software.cpu(direction, Bytes(record), Bytes(batch), Calibration::Median)
    }

    #[test]
    fn what_was_measured_is_found_and_what_is_between_lies_between() {
        let measured = cost("forebay", Direction::Produce, 240e3, 960e3);
        assert!((measured.seconds - 0.526).abs() < 1e-9 && !measured.extrapolated);
        let small = cost("forebay", Direction::Produce, 1e3, 1e3);
        assert!((small.seconds - 23.0).abs() < 1e-9);
        let between = cost("forebay", Direction::Produce, 1e3, 100e3);
        assert!((1.2..8.0).contains(&between.seconds), "{}", between.seconds);
        assert!(cost("forebay", Direction::Produce, 1e3, 200.0).extrapolated);
        assert!(!cost("forebay", Direction::Produce, 1e3, 300.0).extrapolated);
        assert!(cost("forebay", Direction::Produce, 1e3, 4e6).extrapolated);
    }

    #[test]
    fn produce_and_consume_add_up_to_both_at_once() {
        for id in ["forebay", "kafka"] {
            let sum = cost(id, Direction::Produce, 240e3, 960e3).seconds
                + cost(id, Direction::Consume, 240e3, 7e6).seconds;
            let both = 2.0 * cost(id, Direction::Both, 240e3, 960e3).seconds;
            assert!(
                (0.8..1.25).contains(&(sum / both)),
                "{id}: {sum} and {both}"
            );
        }
    }
}
