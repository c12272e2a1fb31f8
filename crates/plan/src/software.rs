//! The processor time and memory of a broker, as measured: cells by direction, record and batch.
//!
//! Between two cells the cost is interpolated linearly in the logarithms of batch and cost.
//! Invariant: a result for a size more than four times outside the measured range is marked as
//! extrapolated.

use serde::{Deserialize, Serialize};

use crate::catalogue::Month;
use crate::quantity::{Bytes, Rate, Seconds};

/// Factor outside the measured range above which a figure is extrapolated.
const OUTSIDE_MAX: f64 = 4.0;

/// Maximum number of measurements of one broker.
pub(crate) const CELLS_MAX: usize = 1000;

/// A broker.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Software {
    /// Its id.
    pub id: String,
    /// A description.
    #[serde(default)]
    pub about: String,
    /// What absorbs a burst.
    pub absorbs: BurstAbsorber,
    /// Share of memory that may be dirty, if the page cache absorbs bursts.
    #[serde(default)]
    pub dirty_ratio: f64,
    /// True if it syncs before it acknowledges.
    pub syncs: bool,
    /// True if it keeps a log on two local tiers.
    pub tiers: bool,
    /// Memory of the process itself.
    pub memory: Bytes,
    /// Memory for each replica.
    pub partition_memory: Bytes,
    /// Maximum replicas on one broker.
    pub partitions_max: f64,
    /// Highest rate of one partition.
    pub partition_rate: Rate,
    /// Bytes of a segment.
    pub segment: Bytes,
    /// Bytes of the index for each key; `None` if it has no keyed records.
    pub index: Option<Bytes>,
    /// Core seconds for a lookup, and for an update.
    pub lookup_seconds: Option<f64>,
    /// Device reads for a lookup that memory does not answer.
    #[serde(default = "one")]
    pub lookup_reads: f64,
    /// Measurements of processor time.
    pub cpu: Vec<Cell>,
    /// Measurements of latency.
    #[serde(default)]
    pub latency: Vec<LatencyCell>,
    /// Source of the other figures; without it they are assumptions.
    pub source: Option<String>,
}

/// What absorbs, for a while, a rate above that of the disks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BurstAbsorber {
    /// The first tier.
    Tier,
    /// Dirty pages: lost with the power.
    PageCache,
    /// Nothing.
    Nothing,
}

/// The direction of bytes.
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
    /// Direction.
    pub direction: Direction,
    /// Bytes of a record.
    pub record: Bytes,
    /// Bytes of a batch, or of a fetch.
    pub batch: Bytes,
    /// Core seconds for 10^9 bytes: the median.
    pub seconds: f64,
    /// The lowest value.
    pub low: f64,
    /// The highest value.
    pub high: f64,
    /// The machine.
    pub machine: String,
    /// The month.
    pub date: Month,
    /// The source of the measurement.
    pub source: String,
}

/// One measurement of latency.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LatencyCell {
    /// Bytes of a record.
    pub record: Bytes,
    /// Bytes per second of one broker.
    pub rate: Rate,
    /// Cores of the machine.
    pub cores: f64,
    /// The 99th percentile of the produce latency.
    pub p99: Seconds,
    /// The source of the measurement.
    pub source: String,
}

fn one() -> f64 {
    1.0
}

/// The value of each measurement that is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Calibration {
    /// The lowest of each.
    Lowest,
    /// The median of each.
    #[default]
    Median,
    /// The highest of each.
    Highest,
}

/// A cost for a batch and a record.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct CpuCost {
    /// Core seconds for 10^9 bytes.
    pub seconds: f64,
    /// True if a size is more than four times outside the measured range.
    pub extrapolated: bool,
}

impl Software {
    /// Returns the core seconds for 10^9 bytes of batches of this size.
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
                // The cost per byte falls as batches grow: a straight line in both logarithms.
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

    /// Returns the 99th percentile for records of this size, and whether a measurement covers the
    /// load.
    ///
    /// With true, it is the lowest value measured on machines at least this busy. Without such a
    /// measurement it is the value of the busiest machine, with false: more load does not improve
    /// it.
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

    /// Returns the machine and month of every measurement, each once.
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
