//! Latency percentiles, one panel per device and record size, from histograms merged over
//! repetitions.

use std::fmt::Write as _;

use page::chart::{Chart, Line, Point, XAxis, YAxis};
use page::escape::html;
use page::number::{Quantity, same};

use crate::latency::Percentiles;
use crate::outcome::Latency;

use super::study::{CellPercentiles, MeasuredDevice, Phase, Study, WriteOrRead, named};

const NAMES: [&str; 6] = ["p50", "p90", "p99", "p99.9", "p99.99", "max"];
/// Number of loads up to which all are shown uncollapsed.
const ROWS_SHOWN: usize = 4;
/// Values that each percentile needs; with fewer, it would equal the largest value.
const COUNTS_MIN: [u64; 6] = [1, 10, 100, 1_000, 10_000, 1];

/// Returns the section, empty without latencies.
pub(super) fn section(study: &Study) -> anyhow::Result<String> {
    let mut page = String::new();
    for phase in &study.phases {
        let rows = phase.rows();
        let (mut shown, mut more) = (String::new(), String::new());
        for way in phase.ways() {
            for (at, row) in rows.iter().enumerate() {
                // The smallest and the largest records are the most informative; the others are
                // collapsed.
                let shown_at_once = rows.len() <= ROWS_SHOWN || at == 0 || at + 1 == rows.len();
                let panels = row_panels(study, phase, row, way)?;
                if shown_at_once { &mut shown } else { &mut more }.push_str(&panels);
            }
        }
        let open = page::frame::panels(phase.columns());
        if !shown.is_empty() {
            let _ = writeln!(page, "<h3>{}</h3>\n{open}{shown}</div>", html(&phase.name));
        }
        if !more.is_empty() {
            let _ = writeln!(
                page,
                "<details><summary>{}, the loads in between</summary>{open}{more}</div></details>",
                html(&phase.name)
            );
        }
    }
    if page.is_empty() {
        return Ok(page);
    }
    Ok(format!(
        "<section id=\"latency\"><h2>Latency</h2>\n<p class=\"note\">Writing: from when a record was meant to \
         be sent to its acknowledgement. Reading: from its timestamp to its arrival. Both axes are drawn by \
         factors of ten. Histograms are merged over repetitions; a percentile that too few records are behind \
         is left out. As fast as possible means that latency is mostly the queue the client itself keeps full.\
         </p>\n{page}</section>\n"
    ))
}

fn row_panels(
    study: &Study,
    phase: &Phase,
    row: &[String],
    way: WriteOrRead,
) -> anyhow::Result<String> {
    let mut panels = String::new();
    let step = middle_step(phase, row);
    let mut of_places = Vec::new();
    for place in &phase.places {
        let lines = lines(study, phase, row, place, (way, step))?;
        if !lines.is_empty() {
            of_places.push((place, lines));
        }
    }
    // Panels side by side share their scale and their percentiles.
    let all = of_places.iter().flat_map(|(_, lines)| lines);
    let points: Vec<Point> = all.flat_map(|line| line.points.clone()).collect();
    let low = points
        .iter()
        .map(|point| point.y)
        .fold(f64::INFINITY, f64::min);
    let high = points.iter().map(|point| point.y).fold(0.0, f64::max);
    let steps: Vec<(f64, String)> = NAMES
        .iter()
        .enumerate()
        .map(|(at, name)| (at as f64, (*name).to_owned()))
        .filter(|(at, _)| points.iter().any(|point| same(point.x, *at)))
        .collect();
    let mut title = phase.row_name(row);
    if let (Some(step), Some(along)) = (step, &phase.along) {
        let of_step = named(along, &step.to_string());
        title = if title.is_empty() {
            of_step
        } else {
            format!("{title}, {of_step}")
        };
    }
    for (place, lines) in of_places {
        let under = phase.under(place, way);
        let chart = Chart {
            name: describe(
                &(page::svg::words(&["Latency", &phase.name, &title, &under], ", ") + "."),
                &lines,
            ),
            x: XAxis {
                title: "share of records".to_owned(),
                steps: steps.clone(),
                even: true,
            },
            y: YAxis {
                quantity: Quantity::Latency,
                high,
                log_from: Some(low),
            },
            lines,
        };
        panels.push_str(&page::frame::panel(&title, &under, &chart.draw(), None));
    }
    Ok(panels)
}

/// Describes a chart in words, for screen readers.
fn describe(name: &str, lines: &[Line]) -> String {
    let mut name = name.to_owned();
    for line in lines {
        let ends = [line.points.first(), line.points.last()]
            .into_iter()
            .flatten();
        let ends: Vec<String> = ends.map(|point| Quantity::Latency.show(point.y)).collect();
        let _ = write!(name, " {}: median {}.", line.label, ends.join(", largest "));
    }
    name
}

fn lines(
    study: &Study,
    phase: &Phase,
    row: &[String],
    place: &MeasuredDevice,
    (way, step): (WriteOrRead, Option<f64>),
) -> anyhow::Result<Vec<Line>> {
    let mut lines = Vec::new();
    for (number, target) in study.targets.iter().enumerate() {
        let mine = |measured: &&CellPercentiles| {
            measured.cell.target == *target && (step.is_none() || phase.step_of(measured) == step)
        };
        let sides = phase
            .cells_of(row, place)
            .filter(mine)
            .filter_map(|measured| way.side(&measured.cell.outcome));
        let merged = Latency::merge(sides.map(|side| &side.latency))?.percentiles()?;
        let points = points(&merged);
        if !points.is_empty() {
            lines.push(Line {
                label: target.clone(),
                series: Some(number),
                points,
            });
        }
    }
    Ok(lines)
}

fn points(merged: &Percentiles) -> Vec<Point> {
    let values = [
        merged.p50,
        merged.p90,
        merged.p99,
        merged.p99_9,
        merged.p99_99,
        merged.max,
    ];
    values
        .into_iter()
        .zip(COUNTS_MIN)
        .enumerate()
        .filter(|(_, (value, least))| merged.count >= *least && *value > 0)
        .map(|(at, (value, _))| Point {
            x: at as f64,
            y: value as f64,
            spread: None,
        })
        .collect()
}

/// Returns the middle one of the steps at which most targets were measured.
pub(super) fn middle_step(phase: &Phase, row: &[String]) -> Option<f64> {
    let steps = phase.steps();
    let targets_at = |step: f64| {
        let cells = phase.cells.iter().filter(|measured| {
            phase.step_of(measured) == Some(step) && phase.row_of(measured) == *row
        });
        let targets: std::collections::BTreeSet<_> = cells.map(|one| &one.cell.target).collect();
        targets.len()
    };
    let most = steps.iter().map(|(step, _)| targets_at(*step)).max()?;
    let full: Vec<f64> = steps
        .iter()
        .map(|(step, _)| *step)
        .filter(|step| targets_at(*step) == most)
        .collect();
    full.get(full.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_records_have_no_tail() {
        let merged = Percentiles {
            count: 120,
            p50: 10,
            p90: 20,
            p99: 30,
            p99_9: 40,
            p99_99: 40,
            max: 40,
            ..Percentiles::default()
        };
        let names: Vec<_> = points(&merged)
            .iter()
            .map(|point| NAMES[point.x as usize])
            .collect();
        assert_eq!(names, ["p50", "p90", "p99", "max"]);
    }
}
