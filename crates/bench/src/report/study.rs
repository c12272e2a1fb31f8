//! What an experiment varied, by phase: the parameter along the x axis, and those that separate the
//! panels.
//!
//! Invariant: a study contains only cells that ended as planned; aborted ones are counted elsewhere
//! and shown as such. Everything but target and repetition distinguishes cells.

use std::collections::{BTreeMap, BTreeSet};

use page::number::same;

use crate::latency::Percentiles;
use crate::outcome::{Cell, LoadOutcome, Run, Side};

use super::parameter;

/// Parameters that run along the x axis if varied, in order of preference.
const ALONG: &[&str] = &["producers", "consumers", "clients", "groups", "rate"];
/// Number of distinct values from which a line is drawn instead of bars.
const STEPS_MIN: usize = 3;

/// Writing or reading; a phase may have both.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum WriteOrRead {
    Written,
    Read,
}

impl WriteOrRead {
    pub(super) const BOTH: [WriteOrRead; 2] = [WriteOrRead::Written, WriteOrRead::Read];

    pub(super) fn side(self, outcome: &LoadOutcome) -> Option<&Side> {
        let side = match self {
            WriteOrRead::Written => outcome.produce.as_ref(),
            WriteOrRead::Read => outcome.consume.as_ref(),
        };
        side.filter(|side| side.bytes > 0)
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            WriteOrRead::Written => "written",
            WriteOrRead::Read => "read",
        }
    }
}

/// A figure of a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Figure {
    /// Bytes of records per second.
    Rate(WriteOrRead),
    /// 99th percentile in microseconds.
    P99(WriteOrRead),
    /// CPU seconds of the broker per GB of records, written and read.
    CpuPerGb,
}

impl Figure {
    pub(super) fn of(self, cell: &CellPercentiles) -> Option<f64> {
        let outcome = &cell.cell.outcome;
        let value = match self {
            Figure::Rate(way) => way.side(outcome)?.bytes as f64 / outcome.seconds,
            Figure::P99(way) => cell.percentiles(way)?.p99 as f64,
            Figure::CpuPerGb => {
                let sides = WriteOrRead::BOTH.iter().filter_map(|way| way.side(outcome));
                let bytes: f64 = sides.map(|side| side.bytes as f64).sum();
                outcome.broker.as_ref()?.cpu_seconds / (bytes / 1e9)
            }
        };
        (value.is_finite() && value > 0.0).then_some(value)
    }
}

/// A cell and its percentiles.
#[derive(Debug)]
pub(super) struct CellPercentiles<'a> {
    pub(super) cell: &'a Cell,
    pub(super) percentiles: [Option<Percentiles>; 2],
}

impl CellPercentiles<'_> {
    pub(super) fn percentiles(&self, way: WriteOrRead) -> Option<&Percentiles> {
        self.percentiles[way as usize].as_ref()
    }
}

/// Where a cell was measured: a device, cold or warm.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct MeasuredDevice {
    /// Position of the device in the order of first use.
    order: usize,
    pub(super) device: String,
    pub(super) cold: bool,
}

/// All cells of one phase.
#[derive(Debug)]
pub(super) struct Phase<'a> {
    pub(super) name: String,
    pub(super) cells: Vec<CellPercentiles<'a>>,
    /// The parameter along the x axis.
    pub(super) along: Option<String>,
    /// Other varied parameters.
    pub(super) others: Vec<String>,
    /// Parameters that were not varied.
    pub(super) fixed: BTreeMap<String, String>,
    pub(super) places: Vec<MeasuredDevice>,
    /// Whether some cells were measured cold and some warm.
    both_temperatures: bool,
}

/// The whole experiment.
#[derive(Debug)]
pub(super) struct Study<'a> {
    pub(super) run: &'a Run,
    pub(super) phases: Vec<Phase<'a>>,
    /// Names of the targets, Forebay first; targets missing in the run's order are last.
    pub(super) targets: Vec<String>,
}

impl<'a> Study<'a> {
    /// Creates the study of a run; an error names the cell whose histogram cannot be read.
    pub(super) fn of(run: &'a Run) -> anyhow::Result<Study<'a>> {
        let mut targets = run.order.clone();
        for cell in &run.cells {
            if !targets.contains(&cell.target) {
                targets.push(cell.target.clone());
            }
        }
        targets.retain(|target| run.cells.iter().any(|cell| cell.target == *target));
        let mut devices: Vec<&str> = Vec::new();
        let mut phases: Vec<Phase<'a>> = Vec::new();
        for (at, cell) in run.cells.iter().enumerate() {
            let measured = measured(at, cell)?;
            if cell.outcome.aborted.is_some() {
                continue;
            }
            if !devices.contains(&cell.device.as_str()) {
                devices.push(&cell.device);
            }
            match phases.iter_mut().find(|phase| phase.name == cell.phase) {
                Some(phase) => phase.cells.push(measured),
                None => phases.push(Phase::starting(measured)),
            }
        }
        for phase in &mut phases {
            phase.look_at(&devices);
        }
        Ok(Study {
            run,
            phases,
            targets,
        })
    }

    /// Returns the index of a target, which selects its colour.
    pub(super) fn number(&self, target: &str) -> usize {
        let found = self.targets.iter().position(|name| name == target);
        found.unwrap_or(self.targets.len())
    }
}

fn measured(at: usize, cell: &Cell) -> anyhow::Result<CellPercentiles<'_>> {
    let percentiles = |way: WriteOrRead, field: &str| {
        let Some(side) = way.side(&cell.outcome) else {
            return Ok(None);
        };
        let found = side
            .latency
            .percentiles()
            .map_err(|error| error.context(format!("cells[{at}].outcome.{field}.latency")))?;
        anyhow::Ok((found.count > 0).then_some(found))
    };
    Ok(CellPercentiles {
        cell,
        percentiles: [
            percentiles(WriteOrRead::Written, "produce")?,
            percentiles(WriteOrRead::Read, "consume")?,
        ],
    })
}

impl<'a> Phase<'a> {
    fn starting(cell: CellPercentiles<'a>) -> Phase<'a> {
        Phase {
            name: cell.cell.phase.clone(),
            cells: vec![cell],
            along: None,
            others: Vec::new(),
            fixed: BTreeMap::new(),
            places: Vec::new(),
            both_temperatures: false,
        }
    }

    /// Determines what was varied.
    fn look_at(&mut self, devices: &[&str]) {
        let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for measured in &self.cells {
            for (name, value) in &measured.cell.parameters {
                values.entry(name).or_default().insert(value);
            }
        }
        let (varied, fixed): (Vec<_>, Vec<_>) =
            values.iter().partition(|(_, values)| values.len() > 1);
        self.fixed = fixed
            .into_iter()
            .flat_map(|(name, values)| {
                values
                    .iter()
                    .map(|value| (name.to_string(), (*value).to_owned()))
            })
            .collect();
        self.along = along(&varied);
        self.others = varied
            .iter()
            .map(|(name, _)| (**name).to_owned())
            .filter(|name| Some(name) != self.along.as_ref())
            .collect();
        // Sizes are last, because panels of one row share them.
        self.others.sort_by_key(|name| parameter::is_size(name));
        let mut places: Vec<MeasuredDevice> = self
            .cells
            .iter()
            .map(|measured| MeasuredDevice {
                order: devices
                    .iter()
                    .position(|device| *device == measured.cell.device)
                    .unwrap_or(devices.len()),
                device: measured.cell.device.clone(),
                cold: measured.cell.cold,
            })
            .collect();
        places.sort();
        places.dedup();
        self.both_temperatures = places.iter().any(|place| place.cold != places[0].cold);
        self.places = places;
    }

    /// Returns the directions in which records flowed.
    pub(super) fn ways(&self) -> Vec<WriteOrRead> {
        let flows = |way: &WriteOrRead| {
            self.cells
                .iter()
                .any(|measured| way.side(&measured.cell.outcome).is_some())
        };
        WriteOrRead::BOTH.into_iter().filter(flows).collect()
    }

    /// Returns the title of a direction of this phase: `both, read`, or `produce` if it has only
    /// one.
    pub(super) fn title(&self, way: WriteOrRead) -> String {
        if self.ways().len() > 1 {
            format!("{}, {}", self.name, way.word())
        } else {
            self.name.clone()
        }
    }

    /// Returns the name of a place.
    pub(super) fn place_name(&self, place: &MeasuredDevice) -> String {
        let device = if place.device.is_empty() {
            "no device"
        } else {
            &place.device
        };
        match (self.both_temperatures, place.cold) {
            (true, true) => format!("{device}, cold"),
            (true, false) => format!("{device}, warm"),
            (false, _) => device.to_owned(),
        }
    }

    /// Returns the values of the parameters other than the x axis, each combination once, in order.
    pub(super) fn rows(&self) -> Vec<Vec<String>> {
        let mut rows: Vec<Vec<String>> = self.cells.iter().map(|one| self.row_of(one)).collect();
        rows.sort_by(|one, two| order_of_rows(one, two));
        rows.dedup();
        rows
    }

    pub(super) fn row_of(&self, measured: &CellPercentiles) -> Vec<String> {
        let value = |name: &String| measured.cell.parameters.get(name).cloned();
        self.others
            .iter()
            .map(|name| value(name).unwrap_or_default())
            .collect()
    }

    /// Returns a row as text: `240 kB records, 3 groups`.
    pub(super) fn row_name(&self, row: &[String]) -> String {
        let named = self
            .others
            .iter()
            .zip(row)
            .map(|(name, value)| named(name, value));
        named.collect::<Vec<_>>().join(", ")
    }

    /// Returns the values of a row as text: `240 kB`.
    pub(super) fn row_values(&self, row: &[String]) -> String {
        let values = self.others.iter().zip(row);
        let values = values.map(|(name, value)| parameter::parameter(name, value));
        values.collect::<Vec<_>>().join(", ")
    }

    /// Returns the text beside the title of a panel: the place, and the direction if there are
    /// both.
    pub(super) fn under(&self, place: &MeasuredDevice, way: WriteOrRead) -> String {
        let place = self.place_name(place);
        if self.ways().len() > 1 {
            format!("{place}, {}", way.word())
        } else {
            place
        }
    }

    /// Returns how many panels are side by side: a column for each place, or as many as fit.
    pub(super) fn columns(&self) -> usize {
        match (self.places.len(), self.rows().len()) {
            // Two by two is easier to compare than three and one.
            (1, 4) if self.along.is_none() => 2,
            (1, _) => 3,
            (places, _) => places,
        }
    }

    /// Returns whether the load has a rate; throughput then only shows whether it was kept.
    pub(super) fn is_paced(&self) -> bool {
        let names = self
            .along
            .iter()
            .chain(&self.others)
            .chain(self.fixed.keys());
        names.into_iter().any(|name| parameter::is_rate(name))
    }

    /// Returns the values along the x axis as (number, name), in order.
    pub(super) fn steps(&self) -> Vec<(f64, String)> {
        let Some(along) = &self.along else {
            return Vec::new();
        };
        let mut steps: Vec<(f64, String)> = self
            .cells
            .iter()
            .filter_map(|measured| measured.cell.parameters.get(along))
            .filter_map(|text| Some((number_of(text)?, parameter::parameter(along, text))))
            .collect();
        steps.sort_by(|one, two| one.0.total_cmp(&two.0));
        steps.dedup_by(|one, two| same(one.0, two.0));
        steps
    }

    /// Returns the cells of a row at a place.
    pub(super) fn cells_of<'b>(
        &'b self,
        row: &'b [String],
        place: &'b MeasuredDevice,
    ) -> impl Iterator<Item = &'b CellPercentiles<'a>> {
        self.cells.iter().filter(move |measured| {
            measured.cell.device == place.device
                && measured.cell.cold == place.cold
                && self.row_of(measured) == row
        })
    }

    /// Returns the position of a cell along the x axis.
    pub(super) fn step_of(&self, measured: &CellPercentiles) -> Option<f64> {
        number_of(measured.cell.parameters.get(self.along.as_ref()?)?)
    }
}

/// Returns a parameter as text: `240 kB records`, `30 producers`, `codec lz4`.
pub(super) fn named(name: &str, value: &str) -> String {
    let shown = parameter::parameter(name, value);
    match name {
        "record" => format!("{shown} records"),
        _ if number_of(value).is_some() && name.ends_with('s') => {
            let name = if value == "1" {
                &name[..name.len() - 1]
            } else {
                name
            };
            format!("{shown} {name}")
        }
        _ => format!("{name} {shown}"),
    }
}

/// Returns the parameter for the x axis: one with enough values, all of them numbers.
fn along(varied: &[(&&str, &BTreeSet<&str>)]) -> Option<String> {
    let fits = |values: &BTreeSet<&str>| {
        values.len() >= STEPS_MIN && values.iter().all(|value| number_of(value).is_some())
    };
    let named = ALONG.iter().find_map(|wanted| {
        varied
            .iter()
            .find(|(name, values)| **name == *wanted && fits(values))
    });
    let longest = || {
        varied
            .iter()
            .filter(|(_, values)| fits(values))
            .max_by_key(|(_, values)| values.len())
    };
    named.or_else(longest).map(|(name, _)| (**name).to_owned())
}

/// Returns a parameter's value as a number, if it is one.
pub(super) fn number_of(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Compares rows by their first value, then the next.
pub(super) fn order_of_rows(one: &[String], two: &[String]) -> std::cmp::Ordering {
    let pairs = one.iter().zip(two);
    pairs
        .map(|(one, two)| order(one, two))
        .find(|order| order.is_ne())
        .unwrap_or(std::cmp::Ordering::Equal)
}

/// Compares numbers by value, before words.
pub(super) fn order(one: &str, two: &str) -> std::cmp::Ordering {
    match (number_of(one), number_of(two)) {
        (Some(one), Some(two)) => one.total_cmp(&two),
        (Some(_), None) => std::cmp::Ordering::Less,
        (None, Some(_)) => std::cmp::Ordering::Greater,
        (None, None) => one.cmp(two),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(phase: &str, parameters: &[(&str, &str)]) -> Cell {
        Cell {
            phase: phase.to_owned(),
            target: "forebay".to_owned(),
            parameters: parameters
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            ..Cell::default()
        }
    }

    #[test]
    fn producers_run_along_and_sizes_make_rows() {
        let mut run = Run::default();
        for producers in ["10", "1", "4"] {
            for record in ["240000", "1000"] {
                run.cells.push(cell(
                    "produce",
                    &[("producers", producers), ("record", record), ("acks", "-1")],
                ));
            }
        }
        let study = Study::of(&run).unwrap();
        let phase = &study.phases[0];
        assert_eq!(phase.along.as_deref(), Some("producers"));
        assert_eq!(phase.rows(), [["1000"], ["240000"]]);
        assert_eq!(phase.row_name(&phase.rows()[1]), "240 kB records");
        let steps: Vec<_> = phase.steps().into_iter().map(|step| step.1).collect();
        assert_eq!(steps, ["1", "4", "10"]);
        assert_eq!(phase.fixed["acks"], "-1");
    }

    #[test]
    fn two_values_are_no_line() {
        let cells = [("producers", "1"), ("producers", "4")].map(|one| cell("produce", &[one]));
        let run = Run {
            cells: cells.to_vec(),
            ..Run::default()
        };
        let study = Study::of(&run).unwrap();
        assert_eq!(study.phases[0].along, None);
        assert_eq!(study.phases[0].rows().len(), 2);
        assert_eq!(named("producers", "1"), "1 producer");
    }

    #[test]
    fn an_unreadable_histogram_is_named() {
        let mut damaged = cell("produce", &[]);
        damaged.outcome.produce = Some(Side {
            bytes: 1,
            latency: crate::outcome::Latency {
                hdr: "%".to_owned(),
            },
            ..Side::default()
        });
        let run = Run {
            cells: vec![cell("produce", &[]), damaged],
            ..Run::default()
        };
        let error = format!("{:#}", Study::of(&run).unwrap_err());
        assert!(
            error.starts_with("cells[1].outcome.produce.latency"),
            "{error}"
        );
    }
}
