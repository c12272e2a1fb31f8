//! Processor time measured on the user's own machine: a file of cells that replaces the shipped
//! ones.
//!
//! A measured cell is used as it is; shipped cells without a measurement are scaled by the mean
//! ratio of measured to shipped time.

use serde::{Deserialize, Serialize};

use crate::catalogue::{Catalogue, Month};
use crate::document::{Document, Problem};
use crate::load::check_name;
use crate::quantity::Bytes;
use crate::software::{CELLS_MAX, Calibration as End, Cell, Direction};

/// Measurements of one machine (`calibration.toml`).
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Measurements {
    /// The machine.
    pub machine: String,
    /// The month of the measurement.
    pub date: Month,
    /// The measurements.
    #[serde(default)]
    pub cell: Vec<MeasuredCell>,
}

/// One measurement.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredCell {
    /// The software.
    pub software: String,
    /// The direction.
    pub direction: Direction,
    /// Bytes of a record.
    pub record_bytes: f64,
    /// Bytes of a batch.
    pub batch_bytes: f64,
    /// Core seconds for 10^9 bytes: the median.
    pub seconds: f64,
    /// The lowest value.
    pub low: f64,
    /// The highest value.
    pub high: f64,
}

impl Measurements {
    /// Reads a file.
    pub fn read(origin: &str, text: &str) -> Result<Self, Problem> {
        let document = Document::parse(origin, text)?;
        let read: Self = document.read()?;
        check_name("machine", &read.machine).map_err(|(key, text)| document.problem(&key, text))?;
        if read.cell.len() > CELLS_MAX {
            return Err(document.problem("cell", format!("allowed: at most {CELLS_MAX}")));
        }
        for (at, cell) in read.cell.iter().enumerate() {
            for (key, value) in [
                ("record_bytes", cell.record_bytes),
                ("batch_bytes", cell.batch_bytes),
                ("seconds", cell.seconds),
                ("low", cell.low),
                ("high", cell.high),
            ] {
                if !(1e-9..=1e15).contains(&value) {
                    let text = format!("{value} is not allowed; allowed: more than nothing");
                    return Err(document.problem(&format!("cell[{at}].{key}"), text));
                }
            }
        }
        Ok(read)
    }

    /// Returns the text of a file.
    pub fn write(&self) -> String {
        // Strings, numbers and a list of tables always serialize to TOML.
        toml::to_string(self).unwrap_or_default()
    }

    /// Applies the measurements to a catalogue.
    pub fn apply(&self, catalogue: &mut Catalogue) {
        for software in &mut catalogue.software {
            for direction in [Direction::Produce, Direction::Consume, Direction::Both] {
                let wanted = |cell: &&MeasuredCell| {
                    cell.software == software.id && cell.direction == direction
                };
                let measured: Vec<&MeasuredCell> = self.cell.iter().filter(wanted).collect();
                if measured.is_empty() {
                    continue;
                }
                let ratios = measured.iter().map(|cell| {
                    let (record, batch) = (Bytes(cell.record_bytes), Bytes(cell.batch_bytes));
                    let shipped = software.cpu(direction, record, batch, End::Median).seconds;
                    (cell.seconds / shipped.max(1e-9)).ln()
                });
                let ratios: Vec<f64> = ratios.collect();
                let factor = (ratios.iter().sum::<f64>() / length(&ratios)).exp();
                for cell in software
                    .cpu
                    .iter_mut()
                    .filter(|cell| cell.direction == direction)
                {
                    cell.seconds *= factor;
                    cell.low *= factor;
                    cell.high *= factor;
                    cell.machine = format!("{}, scaled to {}", cell.machine, self.machine);
                    cell.date = self.date;
                }
                for cell in measured {
                    let same = |other: &Cell| {
                        let near = |one: f64, two: Bytes| (one / two.0 - 1.0).abs() < 0.01;
                        other.direction == direction
                            && near(cell.record_bytes, other.record)
                            && near(cell.batch_bytes, other.batch)
                    };
                    software.cpu.retain(|other| !same(other));
                    software.cpu.push(Cell {
                        direction,
                        record: Bytes(cell.record_bytes),
                        batch: Bytes(cell.batch_bytes),
                        seconds: cell.seconds,
                        low: cell.low,
                        high: cell.high,
                        machine: self.machine.clone(),
                        date: self.date,
                        source: "calibration".to_owned(),
                    });
                }
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a few measurements")]
fn length(all: &[f64]) -> f64 {
    all.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_is_taken_and_the_rest_is_scaled() {
        let text = "machine = \"mine\"\ndate = \"2026-12\"\n[[cell]]\nsoftware = \"forebay\"\ndirection = \"produce\"\nrecord_bytes = 240000.0\nbatch_bytes = 960000.0\nseconds = 0.263\nlow = 0.2\nhigh = 0.3\n";
        let read = Measurements::read("calibration.toml", text).unwrap();
        assert_eq!(Measurements::read("again", &read.write()).unwrap(), read);
        let mut catalogue = Catalogue::shipped().unwrap();
        let before = catalogue.software("forebay").unwrap().clone();
        read.apply(&mut catalogue);
        let after = catalogue.software("forebay").unwrap();
        let cost = |software: &crate::software::Software, direction, record: f64, batch: f64| {
            software
                .cpu(direction, Bytes(record), Bytes(batch), End::Median)
                .seconds
        };
        assert!((cost(after, Direction::Produce, 240e3, 960e3) - 0.263).abs() < 1e-9);
        let (one, other) = (
            cost(&before, Direction::Produce, 1e3, 1e3),
            cost(after, Direction::Produce, 1e3, 1e3),
        );
        assert!((other / one - 0.5).abs() < 1e-6);
        let same = |direction| {
            (
                cost(&before, direction, 1e3, 7.5e6),
                cost(after, direction, 1e3, 7.5e6),
            )
        };
        let (one, other) = same(Direction::Consume);
        assert_eq!(one.to_bits(), other.to_bits());
    }

    #[test]
    fn a_wrong_figure_is_named() {
        let text = "machine = \"mine\"\ndate = \"2026-12\"\n[[cell]]\nsoftware = \"forebay\"\ndirection = \"produce\"\nrecord_bytes = 0.0\nbatch_bytes = 1.0\nseconds = 1.0\nlow = 1.0\nhigh = 1.0\n";
        let said = Measurements::read("c.toml", text).unwrap_err().to_string();
        assert!(
            said.starts_with("c.toml:6: cell[0].record_bytes: 0 is not allowed"),
            "{said}"
        );
    }
}
