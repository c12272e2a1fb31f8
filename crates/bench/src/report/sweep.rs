//! Throughput over the varied parameters: a panel per device and record size, a line per target,
//! limits dashed.

use std::fmt::Write as _;

use page::bars::{Bar, Bars, Group};
use page::chart::{Chart, Line, Point, XAxis, YAxis};
use page::escape::html;
use page::number::Quantity;

use super::limits;
use super::pairs::median;
use super::study::{CellPercentiles, Figure, MeasuredDevice, Phase, Study, WriteOrRead};

/// A limit this many times above the measured values is given as text; drawn, it would flatten the
/// rest.
const LIMIT_ABOVE_MAX: f64 = 1.6;

/// Returns the section.
pub(super) fn section(study: &Study) -> String {
    let mut page = String::from("<section id=\"throughput\"><h2>Throughput</h2>\n");
    for phase in &study.phases {
        let _ = writeln!(page, "<h3>{}</h3>", html(&phase.name));
        if !phase.fixed.is_empty() {
            let fixed = phase
                .fixed
                .iter()
                .map(|(name, value)| super::study::named(name, value));
            let fixed: Vec<String> = fixed.collect();
            let _ = writeln!(page, "<p class=\"note\">{}</p>", html(&fixed.join(", ")));
        }
        page.push_str(&page::frame::panels(phase.columns()));
        for way in phase.ways() {
            if phase.along.is_some() {
                for row in phase.rows() {
                    lines(&mut page, study, phase, &row, way);
                }
            } else {
                bars(&mut page, study, phase, way);
            }
        }
        page.push_str("</div>\n");
    }
    page.push_str("</section>\n");
    page
}

fn lines(page: &mut String, study: &Study, phase: &Phase, row: &[String], way: WriteOrRead) {
    let of_places: Vec<_> = phase
        .places
        .iter()
        .map(|place| target_lines(study, phase, row, place, Figure::Rate(way)))
        .collect();
    // Panels side by side share their scale, so that a lower line is slower.
    let measured = of_places.iter().flatten().map(highest).fold(0.0, f64::max);
    let near = |limit: &Line| highest(limit) <= measured * LIMIT_ABOVE_MAX;
    let of = |place: &MeasuredDevice| limits::of(study.run, phase, row, place, way);
    let limits: Vec<_> = phase.places.iter().map(of).collect();
    let drawn = limits.iter().flatten().filter(|limit| near(limit));
    let high = drawn.map(highest).fold(measured, f64::max);
    for ((place, mut drawn), limits) in phase.places.iter().zip(of_places).zip(limits) {
        if drawn.is_empty() {
            continue;
        }
        let (near, far): (Vec<_>, Vec<_>) = limits.into_iter().partition(near);
        drawn.extend(near);
        let (title, under) = (phase.row_name(row), phase.under(place, way));
        let chart = Chart {
            name: describe(
                &(page::svg::words(&["Throughput", &phase.name, &title, &under], ", ") + "."),
                &drawn,
            ),
            x: XAxis {
                title: phase.along.clone().unwrap_or_default(),
                steps: phase.steps(),
                even: false,
            },
            y: YAxis {
                quantity: Quantity::Rate,
                high,
                log_from: None,
            },
            lines: drawn,
        };
        let far = far
            .iter()
            .map(|limit| format!("{} {}", limit.label, Quantity::Rate.show(highest(limit))));
        let far: Vec<String> = far.collect();
        let below = (!far.is_empty()).then(|| format!("Above the frame: {}", far.join(", ")));
        page.push_str(&page::frame::panel(
            &title,
            &under,
            &chart.draw(),
            below.as_deref(),
        ));
    }
}

/// Draws a panel per place with a group of bars per load; with one place, a panel per load.
fn bars(page: &mut String, study: &Study, phase: &Phase, way: WriteOrRead) {
    let mut panels: Vec<(String, String, Vec<Group>)> = Vec::new();
    for place in &phase.places {
        let mut groups: Vec<Group> = Vec::new();
        for row in phase.rows() {
            let bars = group(study, phase, &row, place, way);
            if !bars.is_empty() {
                let title = phase.row_name(&row);
                groups.push(Group { title, bars });
            }
        }
        let under = phase.under(place, way);
        if phase.places.len() > 1 {
            panels.push((String::new(), under, groups));
            continue;
        }
        for mut group in groups {
            let title = std::mem::take(&mut group.title);
            panels.push((title, under.clone(), vec![group]));
        }
    }
    let groups = panels.iter().flat_map(|(_, _, groups)| groups);
    let high = groups
        .flat_map(|group| &group.bars)
        .map(Bar::highest)
        .fold(0.0, f64::max);
    for (title, under, groups) in panels {
        if groups.is_empty() {
            continue;
        }
        let bars = Bars {
            name: (page::svg::words(&["Throughput", &phase.name, &title, &under], ", ")),
            quantity: Quantity::Rate,
            high,
            groups,
        };
        page.push_str(&page::frame::panel(&title, &under, &bars.draw(), None));
    }
}

/// Returns the bars of one load at a place: targets, then limits.
fn group(
    study: &Study,
    phase: &Phase,
    row: &[String],
    place: &MeasuredDevice,
    way: WriteOrRead,
) -> Vec<Bar> {
    let mut bars: Vec<Bar> = Vec::new();
    for (number, target) in study.targets.iter().enumerate() {
        let cells = phase.cells_of(row, place);
        let cells = cells.filter(|measured| measured.cell.target == *target);
        let values: Vec<f64> = cells.filter_map(|one| Figure::Rate(way).of(one)).collect();
        if let Some(value) = median(&values) {
            bars.push(Bar {
                label: target.clone(),
                series: Some(number),
                value,
                spread: spread(&values),
            });
        }
    }
    if bars.is_empty() {
        return bars;
    }
    let limits = limits::of(study.run, phase, row, place, way);
    bars.extend(limits.iter().map(|limit| Bar {
        label: limit.label.clone(),
        series: None,
        value: highest(limit),
        spread: None,
    }));
    bars
}

/// Returns the lines of the targets that were measured at a place.
pub(super) fn target_lines(
    study: &Study,
    phase: &Phase,
    row: &[String],
    place: &MeasuredDevice,
    figure: Figure,
) -> Vec<Line> {
    let mut lines = Vec::new();
    for (number, target) in study.targets.iter().enumerate() {
        let cells: Vec<&CellPercentiles> = phase
            .cells_of(row, place)
            .filter(|measured| measured.cell.target == *target)
            .collect();
        let at = |step: f64| {
            let here = cells.iter().filter(|one| phase.step_of(one) == Some(step));
            let values: Vec<f64> = here.filter_map(|one| figure.of(one)).collect();
            Some(Point {
                x: step,
                y: median(&values)?,
                spread: spread(&values),
            })
        };
        let points: Vec<Point> = phase
            .steps()
            .iter()
            .filter_map(|(step, _)| at(*step))
            .collect();
        if !points.is_empty() {
            lines.push(Line {
                label: target.clone(),
                series: Some(number),
                points,
            });
        }
    }
    lines
}

/// Returns the lowest and highest of several values.
pub(super) fn spread(values: &[f64]) -> Option<(f64, f64)> {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (values.len() > 1).then_some((low, high))
}

/// Returns the highest value of a line.
pub(super) fn highest(line: &Line) -> f64 {
    let ends = |point: &Point| point.spread.map_or(point.y, |(_, high)| high.max(point.y));
    line.points.iter().map(ends).fold(0.0, f64::max)
}

/// Describes a chart in words, for screen readers.
fn describe(name: &str, lines: &[Line]) -> String {
    let mut text = name.to_owned();
    for line in lines {
        let values: Vec<f64> = line.points.iter().map(|point| point.y).collect();
        let figures = match spread(&values) {
            Some(ends) => {
                let ends = [ends.0, ends.1].map(|end| Quantity::Rate.show(end));
                ends.join(" to ")
            }
            None => Quantity::Rate.show(highest(line)),
        };
        let _ = write!(text, " {}: {figures}.", line.label);
    }
    text
}
