//! A line chart in a frame: axes, grid, lines with marks, limits as dashed lines, labels at the
//! ends of lines.
//!
//! It is a pure function from values to a drawing.
//! Invariant: whatever the values, no mark and no line is outside the frame.

use std::fmt::Write as _;

use crate::label;
use crate::number::{Quantity, same, significant};
use crate::scale::Scale;
use crate::svg::{Anchor, Drawing};

/// The width of all panels; the page scales them to fit.
pub const WIDTH: f64 = 340.0;
const HEIGHT: f64 = 214.0;
const TOP: f64 = 24.0;
const LABEL_LETTERS_MAX: usize = 14;
/// An x axis whose values span more than this factor is logarithmic.
const SPAN_LINEAR_MAX: f64 = 8.0;

/// The content of a chart.
#[derive(Debug, Default)]
pub struct Chart {
    /// The accessible name of the chart.
    pub name: String,
    /// The horizontal axis.
    pub x: XAxis,
    /// The vertical axis.
    pub y: YAxis,
    /// The lines; the first is drawn on top.
    pub lines: Vec<Line>,
}

/// The measured steps and their names.
#[derive(Debug, Default)]
pub struct XAxis {
    /// The text below the axis.
    pub title: String,
    /// (value, name), in order.
    pub steps: Vec<(f64, String)>,
    /// The steps have equal distances, whatever their values.
    pub even: bool,
}

/// The quantity and the range of the vertical axis.
#[derive(Debug)]
pub struct YAxis {
    /// The quantity of the figures.
    pub quantity: Quantity,
    /// The highest value to be shown, so that neighbouring panels share their scale.
    pub high: f64,
    /// The lowest value, above zero; the axis is then logarithmic.
    pub log_from: Option<f64>,
}

impl Default for YAxis {
    fn default() -> YAxis {
        YAxis {
            quantity: Quantity::Plain,
            high: 1.0,
            log_from: None,
        }
    }
}

impl YAxis {
    fn scale(&self, ends: (f64, f64)) -> Scale {
        match self.log_from {
            Some(low) => Scale::log_around(low, self.high, ends),
            None => Scale::from_nothing(self.high, ends),
        }
    }

    /// Returns the room that its figures need.
    fn room(&self) -> f64 {
        room(&self.scale((0.0, 1.0)), self.quantity)
    }
}

/// One line.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Line {
    /// The text at its end.
    pub label: String,
    /// The number of the series, which is its colour and form; `None` for a limit of the machine.
    pub series: Option<usize>,
    /// The points; only those whose `x` is a step of the axis are drawn.
    pub points: Vec<Point>,
}

/// One measured value.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Point {
    /// A step of the axis.
    pub x: f64,
    /// The value.
    pub y: f64,
    /// The lowest and the highest repetition.
    pub spread: Option<(f64, f64)>,
}

/// The plotting area within the drawing.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Frame {
    /// Its left edge.
    pub left: f64,
    /// Its right edge.
    pub right: f64,
    /// Its upper edge.
    pub top: f64,
    /// Its lower edge: the x axis.
    pub bottom: f64,
}

impl Chart {
    /// Draws the chart.
    pub fn draw(&self) -> String {
        let mut drawing = Drawing::new(WIDTH, HEIGHT);
        let frame = self.frame();
        let y = self.y.scale((frame.bottom, frame.top));
        y_axis(&mut drawing, &frame, &y, self.y.quantity);
        let places = self.x.draw(&mut drawing, &frame);
        for line in self.lines.iter().rev() {
            line.draw(&mut drawing, &places, &y, &self.x, self.y.quantity);
        }
        self.labels(&mut drawing, &frame, &y);
        drawing.finish(&self.name)
    }

    fn frame(&self) -> Frame {
        let names = self.lines.iter().map(|line| label::width(&line.shown()));
        let right = names.fold(0.0, f64::max).min(WIDTH / 3.0);
        Frame {
            left: self.y.room(),
            right: WIDTH - right - 8.0,
            top: TOP,
            bottom: HEIGHT - 34.0,
        }
    }

    fn labels(&self, drawing: &mut Drawing, frame: &Frame, y: &Scale) {
        let ends: Vec<f64> = self
            .lines
            .iter()
            .map(|line| {
                line.points
                    .iter()
                    .rev()
                    .find_map(|point| y.at(point.y))
                    .map_or(f64::NAN, |at| at + 4.0)
            })
            .collect();
        let inside = (frame.top + 4.0, frame.bottom + 4.0);
        for (line, place) in self.lines.iter().zip(label::apart(&ends, inside)) {
            if let Some(at) = place {
                drawing.text(
                    (frame.right + 7.0, at),
                    Anchor::Start,
                    &line.class("n"),
                    &line.shown(),
                );
            }
        }
    }
}

impl XAxis {
    /// Draws the axis and returns the place of each step.
    fn draw(&self, drawing: &mut Drawing, frame: &Frame) -> Vec<(f64, f64)> {
        let ends = (frame.left + 8.0, frame.right - 6.0);
        let values: Vec<f64> = (0..self.steps.len())
            .zip(&self.steps)
            .map(|(at, (value, _))| if self.even { at as f64 } else { *value })
            .collect();
        let (low, high) = (
            values.first().copied().unwrap_or(0.0),
            values.last().copied().unwrap_or(0.0),
        );
        let scale = if low > 0.0 && high / low > SPAN_LINEAR_MAX && !self.even {
            Scale::log(low, high, ends)
        } else {
            Scale::linear(low, high, ends)
        };
        drawing.line(
            (frame.left, frame.bottom),
            (frame.right, frame.bottom),
            "axis",
        );
        let mut places = Vec::new();
        let mut taken = f64::NEG_INFINITY;
        for ((value, name), at) in self.steps.iter().zip(values) {
            let Some(place) = scale.at(at) else { continue };
            places.push((*value, place));
            drawing.line((place, frame.bottom), (place, frame.bottom + 3.0), "axis");
            let name = label::fitted(name, 2.0 * place.min(WIDTH - place));
            let half = label::width(&name) / 2.0;
            if place - half > taken + 3.0 {
                drawing.text((place, frame.bottom + 15.0), Anchor::Middle, "", &name);
                taken = place + half;
            }
        }
        let middle = f64::midpoint(frame.left, frame.right);
        let title = label::fitted(&self.title, 2.0 * middle.min(WIDTH - middle));
        drawing.text((middle, frame.bottom + 30.0), Anchor::Middle, "", &title);
        places
    }
}

impl Line {
    fn shown(&self) -> String {
        if self.label.chars().count() <= LABEL_LETTERS_MAX {
            return self.label.clone();
        }
        let kept: String = self.label.chars().take(LABEL_LETTERS_MAX - 2).collect();
        format!("{}..", kept.trim_end())
    }

    /// Returns the classes of its line (`l`), marks (`m`) or name (`n`).
    fn class(&self, part: &str) -> String {
        series_class(part, self.series)
    }

    fn draw(
        &self,
        drawing: &mut Drawing,
        steps: &[(f64, f64)],
        y: &Scale,
        axis: &XAxis,
        quantity: Quantity,
    ) {
        let place = |point: &Point| {
            let at = steps.iter().find(|(value, _)| same(*value, point.x))?;
            Some((at.1, y.at(point.y)?))
        };
        let mut placed: Vec<(f64, f64)> = self.points.iter().filter_map(place).collect();
        if let (None, [only]) = (self.series, placed.as_slice()) {
            // A limit without a sweep applies to all steps.
            let height = only.1;
            placed = [steps.first(), steps.last()]
                .into_iter()
                .flatten()
                .map(|(_, at)| (*at, height))
                .collect();
        }
        drawing.polyline(&placed, &self.class("l"));
        let Some(series) = self.series else { return };
        for point in &self.points {
            let Some(at) = place(point) else { continue };
            if let Some((low, high)) = point.spread
                && let (Some(low), Some(high)) = (y.at(low), y.at(high))
            {
                drawing.line((at.0, low), (at.0, high), &self.class("w"));
            }
            let step = axis.steps.iter().find(|(value, _)| same(*value, point.x));
            let says = point.says(
                &self.label,
                step.map_or("", |(_, name)| name),
                axis,
                quantity,
            );
            drawing.mark(at, series, &self.class("m"), &says);
        }
    }
}

impl Point {
    fn says(&self, label: &str, step: &str, axis: &XAxis, quantity: Quantity) -> String {
        let mut text = format!(
            "{label}: {} at {step} {}",
            quantity.show(self.y),
            axis.title
        );
        if let Some((low, high)) = self.spread.filter(|(low, high)| low < high) {
            let unit = quantity.unit(high);
            let ends = [low, high].map(|end| significant(end / unit.factor));
            let _ = write!(text, " ({}..{} {})", ends[0], ends[1], unit.name);
        }
        text.trim_end().to_owned()
    }
}

/// Returns the class of a part of a series, or of a limit.
pub fn series_class(part: &str, series: Option<usize>) -> String {
    match series {
        Some(series) => format!("{part} t{}", series % SERIES_COLOURS),
        None => format!("{part} limit"),
    }
}

/// The number of colours that the page has for targets.
pub const SERIES_COLOURS: usize = 6;

/// Returns the room that the figures of an axis need on its left.
pub fn room(scale: &Scale, quantity: Quantity) -> f64 {
    let factor = quantity.unit(scale.typical()).factor;
    let ticks = scale.ticks(scale.ticks_max());
    let widths = ticks
        .iter()
        .map(|tick| label::width(&significant(tick / factor)));
    widths.fold(label::width("0.25"), f64::max) + 8.0
}

/// Draws grid lines with values, and the unit in the corner.
pub fn y_axis(drawing: &mut Drawing, frame: &Frame, scale: &Scale, quantity: Quantity) {
    let ticks = scale.ticks(scale.ticks_max());
    let unit = quantity.unit(scale.typical());
    for tick in &ticks {
        let Some(at) = scale.at(*tick) else { continue };
        drawing.line((frame.left, at), (frame.right, at), "grid");
        drawing.text(
            (frame.left - 5.0, at + 4.0),
            Anchor::End,
            "",
            &significant(tick / unit.factor),
        );
    }
    if !unit.name.is_empty() {
        drawing.text((2.0, 11.0), Anchor::Start, "unit", unit.name);
    }
}

#[cfg(test)]
mod tests;
