//! The curve over time, merged from each thread's part of each interval.

use std::collections::BTreeMap;

use tokio::sync::mpsc;

use super::control::Progress;
use super::tally::Window;
use crate::outcome::Interval;

/// The intervals of all threads.
#[derive(Debug)]
pub(super) struct Curve {
    seconds: f64,
    windows: BTreeMap<i64, (Window, usize)>,
}

/// Collects until every thread has ended; reports each interval as soon as all threads have sent
/// their part.
pub(super) async fn collect(
    mut seen: mpsc::UnboundedReceiver<Window>,
    threads: usize,
    seconds: f64,
    progress: Option<Progress>,
) -> Curve {
    let mut curve = Curve {
        seconds,
        windows: BTreeMap::new(),
    };
    while let Some(window) = seen.recv().await {
        let index = window.index;
        let told = curve.add(window);
        if let (Some(progress), true) = (&progress, told == threads) {
            progress(&curve.windows[&index].0.interval(seconds));
        }
    }
    curve
}

impl Curve {
    /// Adds a part and returns the number of threads that have sent theirs for this interval.
    fn add(&mut self, window: Window) -> usize {
        if let Some((whole, told)) = self.windows.get_mut(&window.index) {
            whole.add(&window);
            *told += 1;
            return *told;
        }
        self.windows.insert(window.index, (window, 1));
        1
    }

    /// Returns the intervals as they are reported.
    ///
    /// `end` is when counting ended; an interval that had run for less than half its length by then
    /// is left out, because its rate would mean nothing.
    pub(super) fn intervals(&self, end: f64) -> Vec<Interval> {
        let windows = self.windows.values().map(|(window, _)| window);
        let begun = windows.filter(|window| {
            let start = window.index as f64 * self.seconds;
            end - start >= self.seconds / 2.0
        });
        begun.map(|window| window.interval(self.seconds)).collect()
    }
}
