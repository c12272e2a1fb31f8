//! The broker's CPU time per GB, over the record size if that was varied.

use std::fmt::Write as _;

use page::bars::{Bar, Bars, Group};
use page::chart::{Chart, Line, Point, XAxis, YAxis};
use page::escape::html;
use page::number::{Quantity, same};

use super::pairs::median;
use super::study::{CellPercentiles, Figure, MeasuredDevice, Phase, Study};
use super::sweep::{highest, spread};

/// Number of rows from which a line is drawn instead of bars.
const ROWS_MIN: usize = 3;

/// Returns the section, empty if no broker's CPU time is known.
pub(super) fn section(study: &Study) -> String {
    let mut page = String::new();
    for phase in &study.phases {
        let rows = phase.rows();
        let of_places: Vec<(&MeasuredDevice, Vec<Line>)> = phase
            .places
            .iter()
            .map(|place| (place, lines(study, phase, &rows, place)))
            .filter(|(_, lines)| !lines.is_empty())
            .collect();
        if of_places.is_empty() {
            continue;
        }
        let all = of_places.iter().flat_map(|(_, lines)| lines);
        let high = all.map(highest).fold(0.0, f64::max);
        let _ = write!(
            page,
            "<h3>{}</h3>\n{}",
            html(&phase.name),
            page::frame::panels(phase.columns())
        );
        for (place, lines) in of_places {
            let place = phase.place_name(place);
            let drawn = if rows.len() >= ROWS_MIN {
                chart(phase, &rows, &place, lines, high)
            } else {
                bars(phase, &rows, &place, &lines, high)
            };
            page.push_str(&page::frame::panel(&place, "", &drawn, None));
        }
        page.push_str("</div>\n");
    }
    if page.is_empty() {
        return page;
    }
    format!(
        "<section id=\"cpu\"><h2>Processor time per GB</h2>\n<p class=\"note\">Processor seconds of the \
         broker's process for 10<sup>9</sup> bytes of records, those written and those read together. Less is \
         better. Marks are medians over the sweep, thin lines reach from the lowest to the highest.</p>\n\
         {page}</section>\n"
    )
}

/// Returns a line per target, whose points have the row index as x.
fn lines(study: &Study, phase: &Phase, rows: &[Vec<String>], place: &MeasuredDevice) -> Vec<Line> {
    let mut lines = Vec::new();
    for (target, name) in study.targets.iter().enumerate() {
        let mut points = Vec::new();
        for (at, row) in rows.iter().enumerate() {
            let mine = |measured: &&CellPercentiles| measured.cell.target == *name;
            let cells = phase.cells_of(row, place).filter(mine);
            let values: Vec<f64> = cells.filter_map(|one| Figure::CpuPerGb.of(one)).collect();
            if let Some(y) = median(&values) {
                points.push(Point {
                    x: at as f64,
                    y,
                    spread: spread(&values),
                });
            }
        }
        if !points.is_empty() {
            lines.push(Line {
                label: name.clone(),
                series: Some(target),
                points,
            });
        }
    }
    lines
}

fn chart(phase: &Phase, rows: &[Vec<String>], place: &str, lines: Vec<Line>, high: f64) -> String {
    let steps = rows
        .iter()
        .enumerate()
        .map(|(at, row)| (at as f64, phase.row_values(row)));
    let chart = Chart {
        name: words(phase, rows, place, &lines),
        x: XAxis {
            title: phase.others.join("/"),
            steps: steps.collect(),
            even: true,
        },
        y: YAxis {
            quantity: Quantity::CpuPerGb,
            high,
            log_from: None,
        },
        lines,
    };
    chart.draw()
}

fn bars(phase: &Phase, rows: &[Vec<String>], place: &str, lines: &[Line], high: f64) -> String {
    let group = |(at, row): (usize, &Vec<String>)| {
        let bar = |line: &Line| {
            let point = line.points.iter().find(|point| same(point.x, at as f64))?;
            Some(Bar {
                label: line.label.clone(),
                series: line.series,
                value: point.y,
                spread: point.spread,
            })
        };
        Group {
            title: phase.row_name(row),
            bars: lines.iter().filter_map(bar).collect(),
        }
    };
    let bars = Bars {
        name: format!("Processor time per GB, {}, {place}", phase.name),
        quantity: Quantity::CpuPerGb,
        high,
        groups: rows
            .iter()
            .enumerate()
            .map(group)
            .filter(|group| !group.bars.is_empty())
            .collect(),
    };
    bars.draw()
}

fn words(phase: &Phase, rows: &[Vec<String>], place: &str, lines: &[Line]) -> String {
    let mut text = format!("Processor time per GB, {}, {place}.", phase.name);
    for line in lines {
        let figures = line.points.iter().filter_map(|point| {
            let row = rows.get(point.x as usize)?;
            Some(format!(
                "{} {}",
                phase.row_name(row),
                Quantity::CpuPerGb.show(point.y)
            ))
        });
        let figures: Vec<String> = figures.collect();
        let _ = write!(text, " {}: {}.", line.label, figures.join(", "));
    }
    text
}
