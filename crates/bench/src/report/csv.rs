//! `cells.csv`: one row per cell, including aborted ones, in the order of measurement.
//!
//! `docs/bench-report.md` describes the columns. Quoting follows RFC 4180; unknown values are
//! empty.

use std::collections::BTreeSet;

use crate::outcome::{Cell, LoadOutcome, Run, Side};

/// A column that every file has: its name, and the function for its value.
type Column = (&'static str, fn(&Cell) -> String);

const COLUMNS: &[Column] = &[
    ("seconds", |cell| number(cell.outcome.seconds)),
    ("broker_cpu_seconds", |cell| {
        broker(cell, |usage| number(usage.cpu_seconds))
    }),
    ("broker_system_seconds", |cell| {
        broker(cell, |usage| number(usage.system_seconds))
    }),
    ("broker_resident_bytes_max", |cell| {
        broker(cell, |usage| usage.resident_bytes_max.to_string())
    }),
    ("broker_disk_written_bytes", |cell| {
        broker(cell, |usage| usage.disk_written_bytes.to_string())
    }),
    ("broker_disk_read_bytes", |cell| {
        broker(cell, |usage| usage.disk_read_bytes.to_string())
    }),
    ("client_cpu_seconds", |cell| {
        let client = cell.outcome.client.as_ref();
        client.map_or_else(String::new, |usage| number(usage.cpu_seconds))
    }),
    ("errors", |cell| {
        cell.outcome.errors.values().sum::<u64>().to_string()
    }),
    ("lost", |cell| verified(cell, |found| found.lost)),
    ("duplicated", |cell| {
        verified(cell, |found| found.duplicated)
    }),
    ("disordered", |cell| {
        verified(cell, |found| found.disordered)
    }),
    ("damaged", |cell| verified(cell, |found| found.damaged)),
    ("aborted", |cell| {
        cell.outcome.aborted.clone().unwrap_or_default()
    }),
];

/// The columns of each side of a load, prefixed with `produce_` or `consume_`.
const SIDE: [&str; 10] = [
    "records",
    "bytes",
    "wire_bytes",
    "requests",
    "bytes_per_second",
    "p50_us",
    "p90_us",
    "p99_us",
    "p99_9_us",
    "max_us",
];

/// Returns the file; an error names the cell whose histogram cannot be read.
pub(super) fn of(run: &Run) -> anyhow::Result<String> {
    let parameters: BTreeSet<&String> = run
        .cells
        .iter()
        .flat_map(|cell| cell.parameters.keys())
        .collect();
    let mut head: Vec<String> = ["phase", "target", "device", "cold", "repetition"]
        .map(str::to_owned)
        .to_vec();
    head.extend(parameters.iter().map(|name| format!("parameter.{name}")));
    for side in ["produce", "consume"] {
        head.extend(SIDE.iter().map(|name| format!("{side}_{name}")));
    }
    head.extend(COLUMNS.iter().map(|(name, _)| (*name).to_owned()));
    let mut file = line(&head);
    for (at, cell) in run.cells.iter().enumerate() {
        let mut values = vec![
            cell.phase.clone(),
            cell.target.clone(),
            cell.device.clone(),
            cell.cold.to_string(),
            cell.repetition.to_string(),
        ];
        for name in &parameters {
            values.push(cell.parameters.get(*name).cloned().unwrap_or_default());
        }
        for side in [&cell.outcome.produce, &cell.outcome.consume] {
            let found = side_values(side.as_ref(), &cell.outcome);
            values.extend(found.map_err(|error| error.context(format!("cells[{at}]")))?);
        }
        values.extend(COLUMNS.iter().map(|(_, value)| value(cell)));
        file.push_str(&line(&values));
    }
    Ok(file)
}

fn side_values(side: Option<&Side>, outcome: &LoadOutcome) -> anyhow::Result<Vec<String>> {
    let Some(side) = side else {
        return Ok(vec![String::new(); SIDE.len()]);
    };
    let latency = side.latency.percentiles()?;
    let mut values = [side.records, side.bytes, side.wire_bytes, side.requests]
        .map(|count| count.to_string())
        .to_vec();
    values.push(number(side.bytes as f64 / outcome.seconds));
    let percentiles = [
        latency.p50,
        latency.p90,
        latency.p99,
        latency.p99_9,
        latency.max,
    ];
    values.extend(percentiles.map(|value| {
        if latency.count > 0 {
            value.to_string()
        } else {
            String::new()
        }
    }));
    Ok(values)
}

fn broker(cell: &Cell, value: fn(&crate::outcome::Usage) -> String) -> String {
    cell.outcome.broker.as_ref().map(value).unwrap_or_default()
}

fn verified(cell: &Cell, value: fn(&crate::outcome::RecordCheckResult) -> u64) -> String {
    let found = cell.outcome.verified.as_ref();
    found.map_or_else(String::new, |found| value(found).to_string())
}

/// Returns all digits, or an empty string if the value is not finite.
fn number(value: f64) -> String {
    if value.is_finite() {
        value.to_string()
    } else {
        String::new()
    }
}

fn line(values: &[String]) -> String {
    let quoted = values.iter().map(|value| {
        if value.contains(['"', ',', '\n', '\r']) {
            format!("\"{}\"", value.replace('"', "\"\""))
        } else {
            value.clone()
        }
    });
    quoted.collect::<Vec<_>>().join(",") + "\r\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_per_cell_and_every_column_is_described() {
        let mut cell = Cell {
            phase: "produce, \"cold\"".to_owned(),
            target: "forebay".to_owned(),
            ..Cell::default()
        };
        cell.parameters
            .insert("record".to_owned(), "1000".to_owned());
        cell.outcome.produce = Some(Side {
            bytes: 10,
            ..Side::default()
        });
        let run = Run {
            cells: vec![cell],
            ..Run::default()
        };
        let file = of(&run).unwrap();
        let lines: Vec<_> = file.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(
            lines[1].starts_with("\"produce, \"\"cold\"\"\",forebay,,false,0,1000,"),
            "{file}"
        );
        assert!(!file.contains("NaN") && !file.contains("inf"), "{file}");
        let described = include_str!("../../../../docs/bench-report.md");
        for column in lines[0].split(',') {
            let column = column.replace("parameter.record", "parameter.*");
            let column = column.replace("produce_", "*_").replace("consume_", "*_");
            assert!(
                described.contains(&format!("`{column}`")),
                "{column} is not described"
            );
        }
    }
}
