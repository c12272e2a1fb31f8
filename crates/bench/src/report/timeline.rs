//! Throughput over time, with the bytes on the broker's tiers below if it has tiers.

use std::fmt::Write as _;

use page::chart::{Frame, WIDTH, series_class, y_axis};
use page::escape::html;
use page::label;
use page::number::{Quantity, significant};
use page::scale::Scale;
use page::svg::{Anchor, Drawing};

use crate::outcome::Interval;

use super::percentile::middle_step;
use super::study::{CellPercentiles, MeasuredDevice, Phase, Study, WriteOrRead, named};

/// Limit on drawn points, about the pixels of a panel; more are averaged with their neighbours.
const POINTS_MAX: usize = 200;
/// Number of intervals below which no curve is drawn.
const INTERVALS_MIN: usize = 4;
const CURVE: f64 = 132.0;
const STRIP: f64 = 60.0;
const GAP: f64 = 26.0;

/// The content of one panel: the same load on several targets.
struct Panel<'a, 'b> {
    phase: &'b Phase<'a>,
    place: &'b MeasuredDevice,
    row: Vec<String>,
    step: Option<f64>,
    /// The first repetition of each target, with the target's index.
    cells: Vec<(usize, &'b CellPercentiles<'a>)>,
}

/// Rates of one target over time, as (seconds, bytes per second).
type Curve = Vec<(f64, f64)>;

/// Returns the section, empty without curves.
pub(super) fn section(study: &Study) -> String {
    let mut page = String::new();
    for phase in &study.phases {
        let mut panels = String::new();
        let chosen = chosen(study, phase);
        for (at, way) in phase.ways().into_iter().enumerate() {
            let curves: Vec<_> = chosen.iter().map(|panel| panel.curves(way)).collect();
            // Panels side by side share their scale.
            let all = curves.iter().flatten().flat_map(|(_, curve)| curve);
            let high = all.map(|(_, rate)| *rate).fold(0.0, f64::max);
            for (panel, curves) in chosen.iter().zip(&curves) {
                panels.push_str(&panel.draw(study, (way, curves, high), at == 0));
            }
        }
        if !panels.is_empty() {
            let open = page::frame::panels(phase.columns());
            let _ = writeln!(page, "<h3>{}</h3>\n{open}{panels}</div>", html(&phase.name));
        }
    }
    if page.is_empty() {
        return page;
    }
    format!(
        "<section id=\"time\"><h2>Over time</h2>\n<p class=\"note\">The first repetition of the largest records \
         in the middle of each sweep, and every load on a broker with tiers. What lies before 0 is warm-up, \
         which counts nowhere else.</p>\n{page}</section>\n"
    )
}

/// Chooses every load with tiers and, for each place, the middle of the sweep of the last row.
fn chosen<'a, 'b>(study: &Study, phase: &'b Phase<'a>) -> Vec<Panel<'a, 'b>> {
    let mut panels = Vec::new();
    let rows = phase.rows();
    let steps: Vec<Option<f64>> = match phase.steps() {
        steps if steps.is_empty() => vec![None],
        steps => steps.into_iter().map(|(step, _)| Some(step)).collect(),
    };
    for (number, row) in rows.iter().enumerate() {
        let middle = middle_step(phase, row);
        for place in &phase.places {
            for step in &steps {
                let cells = firsts(study, phase, row, place, *step);
                let tiers = cells.iter().any(|(_, measured)| {
                    let intervals = &measured.cell.outcome.intervals;
                    intervals
                        .iter()
                        .any(|interval| !interval.tier_bytes.is_empty())
                });
                let typical = number + 1 == rows.len() && *step == middle;
                if !cells.is_empty() && (tiers || typical) {
                    panels.push(Panel {
                        phase,
                        place,
                        row: row.clone(),
                        step: *step,
                        cells,
                    });
                }
            }
        }
    }
    panels
}

fn firsts<'a, 'b>(
    study: &Study,
    phase: &'b Phase<'a>,
    row: &[String],
    place: &MeasuredDevice,
    step: Option<f64>,
) -> Vec<(usize, &'b CellPercentiles<'a>)> {
    let mut firsts: Vec<(usize, &CellPercentiles)> = Vec::new();
    for measured in &phase.cells {
        let cell = measured.cell;
        let fits = cell.device == place.device
            && cell.cold == place.cold
            && cell.outcome.intervals.len() >= INTERVALS_MIN
            && phase.row_of(measured) == row
            && phase.step_of(measured) == step;
        if !fits {
            continue;
        }
        let number = study.number(&cell.target);
        match firsts.iter_mut().find(|(other, _)| *other == number) {
            Some((_, first)) if cell.repetition < first.cell.repetition => *first = measured,
            Some(_) => {}
            None => firsts.push((number, measured)),
        }
    }
    firsts.sort_by_key(|(number, _)| *number);
    firsts
}

impl Panel<'_, '_> {
    /// Returns the rates of each target that has any.
    fn curves(&self, way: WriteOrRead) -> Vec<(usize, Curve)> {
        let flows = |measured: &&CellPercentiles| way.side(&measured.cell.outcome).is_some();
        self.cells
            .iter()
            .filter(|(_, measured)| flows(measured))
            .map(|(number, measured)| (*number, curve(&measured.cell.outcome.intervals, way)))
            .filter(|(_, curve)| curve.len() > 1)
            .collect()
    }

    fn draw(
        &self,
        study: &Study,
        (way, curves, high): (WriteOrRead, &[(usize, Curve)], f64),
        with_tiers: bool,
    ) -> String {
        if curves.is_empty() {
            return String::new();
        }
        let tiers: Vec<(usize, Vec<Curve>)> = self
            .cells
            .iter()
            .map(|(number, measured)| (*number, stacked(&measured.cell.outcome.intervals)))
            .filter(|(_, layers)| with_tiers && !layers.is_empty())
            .collect();
        let mut title = self.phase.row_name(&self.row);
        if let (Some(step), Some(along)) = (self.step, &self.phase.along) {
            let of_step = named(along, &step.to_string());
            title = if title.is_empty() {
                of_step
            } else {
                format!("{title}, {of_step}")
            };
        }
        let under = self.phase.under(self.place, way);
        let height = 24.0 + CURVE + 34.0 + tiers.len() as f64 * (STRIP + GAP);
        let mut drawing = Drawing::new(WIDTH, height);
        let names = curves
            .iter()
            .map(|(number, _)| label::width(&short(&study.targets, *number)));
        let right = WIDTH
            - names
                .fold(label::width("tier 1"), f64::max)
                .min(WIDTH / 3.0)
            - 8.0;
        let mut frame = Frame {
            left: 38.0,
            right,
            top: 24.0,
            bottom: 24.0 + CURVE,
        };
        let times = || {
            curves
                .iter()
                .flat_map(|(_, curve)| curve)
                .map(|(at, _)| *at)
        };
        let (first, last) = (times().fold(0.0, f64::min), times().fold(0.0, f64::max));
        let time = Scale::linear(first, last, (frame.left, frame.right));
        rates(&mut drawing, &frame, &time, (curves, high), &study.targets);
        for (number, layers) in &tiers {
            frame.top = frame.bottom + GAP;
            frame.bottom = frame.top + STRIP;
            fill(
                &mut drawing,
                &frame,
                &time,
                (*number, layers),
                &short(&study.targets, *number),
            );
        }
        time_axis(&mut drawing, &frame, &time, last);
        let name = page::svg::words(
            &["Throughput over time", &self.phase.name, &title, &under],
            ", ",
        );
        page::frame::panel(&title, &under, &drawing.finish(&name), None)
    }
}

fn short(targets: &[String], number: usize) -> String {
    let name = targets.get(number).map_or("", String::as_str);
    if name.chars().count() <= 14 {
        return name.to_owned();
    }
    format!("{}..", name.chars().take(12).collect::<String>())
}

fn rates(
    drawing: &mut Drawing,
    frame: &Frame,
    time: &Scale,
    (curves, high): (&[(usize, Curve)], f64),
    targets: &[String],
) {
    let scale = Scale::from_nothing(high, (frame.bottom, frame.top));
    if let (Some(from), Some(to)) = (time.at(f64::MIN), time.at(0.0))
        && to > from + 1.0
    {
        let size = (to - from, frame.bottom - frame.top);
        drawing.rect((from, frame.top), size, "warmup", "warm-up");
    }
    y_axis(drawing, frame, &scale, Quantity::Rate);
    drawing.line(
        (frame.left, frame.bottom),
        (frame.right, frame.bottom),
        "axis",
    );
    let place = |(at, rate): &(f64, f64)| Some((time.at(*at)?, scale.at(*rate)?));
    for (number, curve) in curves.iter().rev() {
        let points: Vec<_> = curve.iter().filter_map(place).collect();
        drawing.polyline(&points, &series_class("l", Some(*number)));
    }
    let ends: Vec<f64> = curves
        .iter()
        .map(|(_, curve)| {
            curve
                .iter()
                .rev()
                .find_map(place)
                .map_or(f64::NAN, |(_, y)| y + 4.0)
        })
        .collect();
    let inside = (frame.top + 4.0, frame.bottom + 4.0);
    for ((number, _), at) in curves.iter().zip(label::apart(&ends, inside)) {
        if let Some(at) = at {
            let class = series_class("n", Some(*number));
            drawing.text(
                (frame.right + 7.0, at),
                Anchor::Start,
                &class,
                &short(targets, *number),
            );
        }
    }
}

/// Draws the bytes on the tiers stacked, the first tier at the bottom.
fn fill(
    drawing: &mut Drawing,
    frame: &Frame,
    time: &Scale,
    (number, layers): (usize, &[Curve]),
    target: &str,
) {
    let high = layers
        .iter()
        .flatten()
        .map(|(_, bytes)| *bytes)
        .fold(0.0, f64::max);
    let scale = Scale::from_nothing(high, (frame.bottom, frame.top));
    let unit = Quantity::Bytes.unit(scale.high());
    for tick in scale.ticks(2) {
        if let Some(at) = scale.at(tick) {
            drawing.line((frame.left, at), (frame.right, at), "grid");
            let shown = significant(tick / unit.factor);
            drawing.text((frame.left - 5.0, at + 4.0), Anchor::End, "", &shown);
        }
    }
    let corner = (2.0, frame.top - 9.0);
    drawing.text(
        corner,
        Anchor::Start,
        "unit",
        &format!("{} on tiers of {target}", unit.name),
    );
    let place = |(at, bytes): &(f64, f64)| Some((time.at(*at)?, scale.at(*bytes)?));
    let mut below: Vec<(f64, f64)> = layers
        .first()
        .map(|layer| {
            layer
                .iter()
                .filter_map(|(at, _)| Some((time.at(*at)?, frame.bottom)))
                .collect()
        })
        .unwrap_or_default();
    let mut middles = Vec::new();
    for (tier, layer) in layers.iter().enumerate() {
        let above: Vec<_> = layer.iter().filter_map(place).collect();
        let class = format!("{} tier{}", series_class("a", Some(number)), tier.min(3));
        drawing.area(&above, &below, &class);
        let ends = (above.last(), below.last());
        middles.push(match ends {
            (Some(above), Some(below)) => f64::midpoint(above.1, below.1) + 4.0,
            _ => f64::NAN,
        });
        below = above;
    }
    drawing.line(
        (frame.left, frame.bottom),
        (frame.right, frame.bottom),
        "axis",
    );
    let inside = (frame.top + 4.0, frame.bottom + 4.0);
    for (tier, at) in label::apart(&middles, inside).into_iter().enumerate() {
        if let Some(at) = at {
            let name = format!("tier {}", tier + 1);
            drawing.text((frame.right + 7.0, at), Anchor::Start, "", &name);
        }
    }
}

fn time_axis(drawing: &mut Drawing, frame: &Frame, time: &Scale, last: f64) {
    let unit = Quantity::Time.unit(last);
    // Ticks are round in the displayed unit.
    let ends = (frame.left, frame.right);
    let first = time.ticks(5).first().copied().unwrap_or(0.0).min(0.0);
    let shown = Scale::linear(first / unit.factor, last / unit.factor, ends);
    for tick in shown.ticks(5) {
        let Some(at) = time.at(tick * unit.factor) else {
            continue;
        };
        drawing.line((at, frame.bottom), (at, frame.bottom + 3.0), "axis");
        drawing.text(
            (at, frame.bottom + 15.0),
            Anchor::Middle,
            "",
            &significant(tick),
        );
    }
    let middle = f64::midpoint(frame.left, frame.right);
    drawing.text((middle, frame.bottom + 30.0), Anchor::Middle, "", unit.name);
}

/// Returns the rates between the ends of intervals.
fn curve(intervals: &[Interval], way: WriteOrRead) -> Curve {
    let bytes = |interval: &Interval| match way {
        WriteOrRead::Written => interval.produced,
        WriteOrRead::Read => interval.consumed,
    };
    let mut points = Vec::new();
    for pair in intervals.windows(2) {
        let length = pair[1].at - pair[0].at;
        if length.is_finite() && length > 0.0 {
            if points.is_empty() {
                // The length of the first interval is unknown; assume that of the second.
                points.push((pair[0].at, bytes(&pair[0]) as f64 / length));
            }
            points.push((pair[1].at, bytes(&pair[1]) as f64 / length));
        }
    }
    thinned(&points)
}

/// Returns the bytes on the tiers, each added to those below.
fn stacked(intervals: &[Interval]) -> Vec<Curve> {
    let tiers = intervals
        .iter()
        .map(|interval| interval.tier_bytes.len())
        .max();
    (0..tiers.unwrap_or(0))
        .map(|tier| {
            let layer: Curve = intervals
                .iter()
                .filter(|interval| interval.at.is_finite() && !interval.tier_bytes.is_empty())
                .map(|interval| {
                    let below = interval.tier_bytes.iter().take(tier + 1);
                    (interval.at, below.map(|bytes| *bytes as f64).sum())
                })
                .collect();
            thinned(&layer)
        })
        .collect()
}

/// Replaces neighbours by their mean until the points are few enough.
fn thinned(points: &[(f64, f64)]) -> Curve {
    let together = points.len().div_ceil(POINTS_MAX).max(1);
    let mean = |several: &[(f64, f64)]| {
        let of = |value: fn(&(f64, f64)) -> f64| {
            several.iter().map(value).sum::<f64>() / several.len() as f64
        };
        (of(|point| point.0), of(|point| point.1))
    };
    points.chunks(together).map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_the_interval_that_ended() {
        let at = |at: f64, produced: u64| Interval {
            at,
            produced,
            ..Interval::default()
        };
        let intervals = [at(-1.0, 50), at(0.0, 100), at(0.5, 100), at(0.5, 7)];
        assert_eq!(
            curve(&intervals, WriteOrRead::Written),
            [(-1.0, 50.0), (0.0, 100.0), (0.5, 200.0)]
        );
    }

    #[test]
    fn many_points_become_their_means() {
        let points: Vec<_> = (0..1_000).map(|at| (f64::from(at), 3.0)).collect();
        let thin = thinned(&points);
        assert_eq!(thin.len(), POINTS_MAX);
        assert!(thin.iter().all(|point| point.1 == 3.0));
    }

    #[test]
    fn tiers_stand_on_each_other() {
        let interval = Interval {
            tier_bytes: vec![10, 5],
            ..Interval::default()
        };
        let layers = stacked(&[interval]);
        assert_eq!(layers, [vec![(0.0, 10.0)], vec![(0.0, 15.0)]]);
    }
}
