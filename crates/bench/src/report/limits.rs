//! The measured limits of the machine: which of them apply to which load, and a table of all.

use std::fmt::Write as _;

use page::chart::{Line, Point};
use page::escape::html;
use page::number::{Quantity, same, significant};

use crate::outcome::{Limit, Run};

use super::study::{MeasuredDevice, Phase, WriteOrRead, named, number_of};

/// Returns the limits that bound a row of a phase at a place.
///
/// A line has one point if the limit holds everywhere, otherwise one per step.
pub(super) fn of(
    run: &Run,
    phase: &Phase,
    row: &[String],
    place: &MeasuredDevice,
    way: WriteOrRead,
) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    if phase.is_paced() {
        // A paced load does not try to reach them.
        return lines;
    }
    for limit in &run.limits {
        let here = limit.device.is_empty() || limit.device == place.device;
        if !here || limit.latency.is_some() || !bounds(&limit.name, way) || !fits(limit, phase, row)
        {
            continue;
        }
        if !(limit.bytes_per_second.is_finite() && limit.bytes_per_second > 0.0) {
            continue;
        }
        let along = phase.along.as_ref();
        let step = along.and_then(|along| number_of(limit.parameters.get(along)?));
        let point = Point {
            x: step.unwrap_or_default(),
            y: limit.bytes_per_second,
            spread: None,
        };
        let is_same = |line: &&mut Line| line.label == limit.name;
        match (lines.iter_mut().find(is_same), step) {
            // The limit was measured at other steps than the row: the best figure is the limit.
            (Some(line), None) => line.points[0].y = line.points[0].y.max(point.y),
            (Some(line), Some(_)) => line.points.push(point),
            (None, _) => lines.push(Line {
                label: limit.name.clone(),
                series: None,
                points: vec![point],
            }),
        }
    }
    for line in &mut lines {
        level(line, phase);
    }
    lines
}

/// Makes a line level at its best figure, unless it was measured at two steps of the sweep or more.
fn level(line: &mut Line, phase: &Phase) {
    let steps = phase.steps();
    line.points.sort_by(|one, two| one.x.total_cmp(&two.x));
    let known = line
        .points
        .iter()
        .filter(|point| steps.iter().any(|(step, _)| same(*step, point.x)));
    if known.count() < 2 {
        let best = line.points.iter().map(|point| point.y).fold(0.0, f64::max);
        line.points = vec![Point {
            x: steps.first().map_or(0.0, |(step, _)| *step),
            y: best,
            spread: None,
        }];
    }
}

/// Returns whether a limit applies: one of writing says nothing about reading.
fn bounds(name: &str, way: WriteOrRead) -> bool {
    let reads = name.contains("read");
    let writes = name.contains("write") || name.contains("sink");
    match way {
        WriteOrRead::Written => writes || !reads,
        WriteOrRead::Read => reads || !writes,
    }
}

fn fits(limit: &Limit, phase: &Phase, row: &[String]) -> bool {
    limit.parameters.iter().all(|(name, value)| {
        if phase.along.as_ref() == Some(name) {
            return true;
        }
        let of_row = phase.others.iter().position(|other| other == name);
        let ours = match of_row {
            Some(at) => row.get(at),
            None => phase.fixed.get(name),
        };
        ours.is_none_or(|ours| ours == value)
    })
}

/// Returns the table of all limits, empty without any.
pub(super) fn section(run: &Run) -> String {
    if run.limits.is_empty() {
        return String::new();
    }
    let mut page = String::from(
        "<section id=\"limits\"><h2>Limits of the machine</h2>\n<p class=\"note\">Measured in the same run. \
         The socket sink reads requests and throws the records away; fio writes and reads the same directory.</p>\n\
         <div class=\"scroll\"><table class=\"plain\"><thead><tr><th scope=\"col\">limit</th><th scope=\"col\">device</th>\
         <th scope=\"col\">load</th><th scope=\"col\" class=\"n\">rate</th><th scope=\"col\" class=\"n\">CPU-s/GB</th>\
         <th scope=\"col\" class=\"n\">p50 / p99 / p99.9 of one</th>\
         <th scope=\"col\">command</th></tr></thead><tbody>\n",
    );
    for limit in &run.limits {
        let load = limit
            .parameters
            .iter()
            .map(|(name, value)| named(name, value));
        let load: Vec<String> = load.collect();
        let cpu = if limit.cpu_seconds_per_gb > 0.0 {
            significant(limit.cpu_seconds_per_gb)
        } else {
            String::new()
        };
        let latency = limit.latency.map_or_else(String::new, |latency| {
            let of = |us: f64| Quantity::Latency.show(us);
            let (half, most) = (of(latency.p50_us), of(latency.p99_us));
            format!("{half} / {most} / {}", of(latency.p999_us))
        });
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{cpu}</td>\
             <td class=\"n\">{latency}</td><td><code>{}</code></td></tr>",
            html(&limit.name),
            html(&limit.device),
            html(&load.join(", ")),
            Quantity::Rate.show(limit.bytes_per_second),
            html(&limit.command)
        );
    }
    page.push_str("</tbody></table></div></section>\n");
    page
}
