//! A bar chart for values without an x axis: one bar per series, in groups, each with its name and
//! figure beside it.

use crate::chart::{WIDTH, series_class};
use crate::label;
use crate::number::Quantity;
use crate::scale::Scale;
use crate::svg::{Anchor, Drawing};

const BAR: f64 = 11.0;
const STEP: f64 = 18.0;
const NAME_MAX: f64 = WIDTH / 3.0;

/// A chart of bars.
#[derive(Debug)]
pub struct Bars {
    /// The accessible name of the chart.
    pub name: String,
    /// The quantity of the values.
    pub quantity: Quantity,
    /// The highest value of all neighbouring panels, so that the same length means the same in all
    /// of them.
    pub high: f64,
    /// The groups, from top to bottom.
    pub groups: Vec<Group>,
}

/// Bars that belong together because they are of the same load.
#[derive(Debug)]
pub struct Group {
    /// The text above the bars; none if empty.
    pub title: String,
    /// The bars, from top to bottom.
    pub bars: Vec<Bar>,
}

/// One bar.
#[derive(Debug)]
pub struct Bar {
    /// The text before the bar.
    pub label: String,
    /// The number of the series, which is its colour; `None` for a limit of the machine.
    pub series: Option<usize>,
    /// The length of the bar.
    pub value: f64,
    /// The lowest and the highest repetition.
    pub spread: Option<(f64, f64)>,
}

impl Bar {
    /// Returns the end of the bar or of its spread.
    pub fn highest(&self) -> f64 {
        self.spread
            .map_or(self.value, |(_, high)| high.max(self.value))
    }
}

impl Bars {
    /// Draws the chart.
    pub fn draw(&self) -> String {
        let bars = || self.groups.iter().flat_map(|group| &group.bars);
        let titles = self
            .groups
            .iter()
            .filter(|group| !group.title.is_empty())
            .count();
        let height =
            bars().count() as f64 * STEP + titles as f64 * STEP + self.groups.len() as f64 * 4.0;
        let mut drawing = Drawing::new(WIDTH, height + 4.0);
        let left = bars()
            .map(|bar| label::width(&label::fitted(&bar.label, NAME_MAX)))
            .fold(label::width("socket sink"), f64::max)
            .min(NAME_MAX)
            + 8.0;
        let figure = |bar: &Bar| label::width(&self.quantity.show(bar.value));
        // At least as long as most figures, so that neighbouring panels have the same scale.
        let longest = bars().map(figure).fold(label::width("1.68 GB/s"), f64::max);
        let right = WIDTH - longest - 8.0;
        let scale = Scale::linear(0.0, self.high, (left, right));
        let mut y = 0.0;
        for group in &self.groups {
            if !group.title.is_empty() {
                let title = label::fitted(&group.title, WIDTH);
                drawing.text((0.0, y + 13.0), Anchor::Start, "n", &title);
                y += STEP;
            }
            for bar in &group.bars {
                self.bar(&mut drawing, bar, &scale, left, y);
                y += STEP;
            }
            y += 4.0;
        }
        drawing.finish(&format!("{}. {}", self.name, self.words()))
    }

    fn bar(&self, drawing: &mut Drawing, bar: &Bar, scale: &Scale, left: f64, y: f64) {
        let name = (left - 6.0, y + 11.0);
        drawing.text(
            name,
            Anchor::End,
            &series_class("n", bar.series),
            &label::fitted(&bar.label, NAME_MAX),
        );
        let Some(end) = scale.at(bar.value) else {
            return;
        };
        let figure = self.quantity.show(bar.value);
        let says = format!("{}: {figure}", bar.label);
        let size = ((end - left).max(1.0), BAR);
        drawing.rect((left, y + 2.0), size, &series_class("b", bar.series), &says);
        let mut after = end;
        if let Some((low, high)) = bar.spread
            && let (Some(low), Some(high)) = (scale.at(low), scale.at(high))
        {
            let middle = y + 2.0 + BAR / 2.0;
            drawing.line((low, middle), (high, middle), "spread");
            after = after.max(high);
        }
        drawing.text((after + 5.0, y + 11.0), Anchor::Start, "", &figure);
    }

    fn words(&self) -> String {
        let mut words = Vec::new();
        for group in &self.groups {
            let bars = group
                .bars
                .iter()
                .map(|bar| format!("{} {}", bar.label, self.quantity.show(bar.value)));
            let bars: Vec<String> = bars.collect();
            words.push(crate::svg::words(&[&group.title, &bars.join(", ")], ": "));
        }
        words.join("; ")
    }
}
