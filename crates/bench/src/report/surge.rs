//! Bursts and the rule for their length and distance: a burst can last for the free bytes on the
//! first tier over peak less drain; the gap to the next one takes the used bytes over drain less
//! base.
//!
//! The measured values come from the curve. A burst was held for as long as the acknowledged bytes
//! kept up with those due; the gap began when the remaining bytes were acknowledged too, and lasted
//! until the first tier held no more than when the burst began. The precision is one interval of
//! the curve. What did not happen before the load ended is shown as "more than".

use std::fmt::Write as _;

use page::escape::html;
use page::number::{Quantity, ratio};

use crate::outcome::{Interval, Run, Surge};

/// Acknowledged bytes below this part of the due bytes do not keep up.
const KEEPS_UP: f64 = 0.9;

/// Seconds of the base load that count as in flight.
const UNDER_WAY: f64 = 0.5;

/// One measured burst.
#[derive(Clone, PartialEq, Debug)]
struct Burst {
    /// When it began, in seconds.
    at: f64,
    /// How long the peak was acknowledged as it came; `None`: to its end.
    held: Option<f64>,
    /// The same by the rule, if there is a first tier.
    held_rule: Option<f64>,
    /// Seconds from the acknowledgement of all its bytes until the first tier had drained; `None`:
    /// not before the next burst, or the end.
    gap: Option<f64>,
    gap_rule: Option<f64>,
}

/// Returns the section, empty without bursts.
pub(super) fn section(run: &Run) -> String {
    let mut rows = String::new();
    for cell in &run.cells {
        let Some(surge) = &cell.surge else { continue };
        for (number, burst) in (1..).zip(bursts(surge, &cell.outcome.intervals)) {
            let _ = writeln!(
                rows,
                "<tr><th scope=\"row\">{}</th><td>{}</td><td class=\"n\">{number}</td>{}{}</tr>",
                html(&cell.target),
                html(&cell.phase),
                figures(burst.held, burst.held_rule, surge.length),
                figures(
                    burst.gap,
                    burst.gap_rule,
                    if burst.gap_rule.is_some() {
                        surge.interval - surge.length
                    } else {
                        0.0
                    }
                ),
            );
        }
    }
    if rows.is_empty() {
        return rows;
    }
    format!(
        "<section id=\"bursts\"><h2>Bursts</h2>\n<p class=\"note\">How long the peak was taken in as fast as it came, \
         and how long the first tier took, once all of it had been taken in, to have as much room again. By the rule: room on \
         the first tier when the burst began, over peak less what the second tier takes; and what the burst left there, \
         over what the second tier takes less base.</p>\n<div class=\"scroll\"><table class=\"plain\"><thead><tr><th scope=\"col\">target</th>\
         <th scope=\"col\">phase</th><th scope=\"col\" class=\"n\">burst</th><th scope=\"col\" class=\"n\">taken in for</th>\
         <th scope=\"col\" class=\"n\">by the rule</th><th scope=\"col\" class=\"n\">ratio</th>\
         <th scope=\"col\" class=\"n\">drained after</th><th scope=\"col\" class=\"n\">by the rule</th>\
         <th scope=\"col\" class=\"n\">ratio</th></tr></thead><tbody>\n{rows}</tbody></table></div>\n</section>\n"
    )
}

/// Returns how long the bursts of a phase's first measurement were held, and how long they took to
/// drain.
pub(super) fn measured(run: &Run, phase: &str) -> Vec<(Option<f64>, Option<f64>)> {
    let cell = run.cells.iter().find(|cell| cell.phase == phase);
    let surge = cell.and_then(|cell| cell.surge.as_ref().zip(Some(&cell.outcome.intervals)));
    let bursts = surge.map_or_else(Vec::new, |(surge, intervals)| bursts(surge, intervals));
    bursts
        .into_iter()
        .map(|burst| (burst.held, burst.gap))
        .collect()
}

/// Returns the table cells with the measured value, the one by the rule, and their ratio.
///
/// A value that was not reached is shown as more than `most`.
fn figures(measured: Option<f64>, rule: Option<f64>, most: f64) -> String {
    let show = |seconds: f64| Quantity::Time.show(seconds);
    let shown = match measured {
        Some(seconds) => show(seconds),
        None if most > 0.0 => format!("more than {}", show(most)),
        None => String::new(),
    };
    let by_rule = match rule {
        Some(seconds) if seconds.is_finite() => show(seconds),
        Some(_) => "without end".to_owned(),
        None => String::new(),
    };
    let compared = match (measured, rule) {
        (Some(measured), Some(rule)) if rule > 0.0 && rule.is_finite() => ratio(measured / rule),
        _ => String::new(),
    };
    let mut cells = String::new();
    for text in [shown, by_rule, compared] {
        let _ = write!(cells, "<td class=\"n\">{}</td>", html(&text));
    }
    cells
}

/// Returns the bursts whose peak ended before the end of the curve.
fn bursts(surge: &Surge, intervals: &[Interval]) -> Vec<Burst> {
    let quiet = surge.interval - surge.length;
    let Some(end) = intervals.last().map(|last| last.at) else {
        return Vec::new();
    };
    let starts = (0..).map(|turn| quiet + f64::from(turn) * surge.interval);
    starts
        .take_while(|start| start + surge.length <= end)
        .map(|start| burst(surge, intervals, start))
        .collect()
}

fn burst(surge: &Surge, intervals: &[Interval], start: f64) -> Burst {
    let fast = |at: f64| {
        let last = intervals.iter().rfind(|point| point.at <= at + 1e-6);
        last.and_then(|point| point.tier_bytes.first())
            .map(|bytes| *bytes as f64)
    };
    let until = start + surge.interval;
    let whole = taken_in(surge, intervals, start).unwrap_or(until);
    let (before, after) = (fast(start), fast(whole));
    let rule = |bytes: f64, rate: f64| {
        if rate > 0.0 {
            bytes / rate
        } else {
            f64::INFINITY
        }
    };
    let drain = surge.drain;
    let held_rule = surge
        .first_tier
        .zip(before)
        .zip(drain)
        .map(|((capacity, before), drain)| rule((capacity - before).max(0.0), surge.peak - drain));
    let gap_rule = before
        .zip(after)
        .zip(drain)
        .map(|((before, after), drain)| rule((after - before).max(0.0), drain - surge.base));
    let behind = intervals
        .iter()
        .filter(|point| point.at > whole + 1e-6 && point.at <= until + 1e-6);
    let drained = before.and_then(|before| {
        let mut points = behind.filter(|point| {
            let fast = point.tier_bytes.first();
            fast.is_some_and(|bytes| *bytes as f64 <= before)
        });
        points.next().map(|point| point.at - whole)
    });
    Burst {
        at: start,
        held: held(surge, intervals, start),
        held_rule,
        gap: drained,
        gap_rule,
    }
}

/// Returns when everything due since the start of a burst was acknowledged, if before the next
/// burst.
///
/// This is at the end of the peak or later. Up to half a second of base load may be missing,
/// because it may be in flight.
fn taken_in(surge: &Surge, intervals: &[Interval], start: f64) -> Option<f64> {
    let end = start + surge.length;
    let mut acknowledged = 0.0;
    for point in intervals {
        if point.at <= start + 1e-6 {
            continue;
        }
        acknowledged += point.produced as f64;
        let due = surge.peak * surge.length + surge.base * (point.at - end);
        if point.at >= end - 1e-6 && due - acknowledged <= surge.base * UNDER_WAY {
            return Some(point.at).filter(|at| *at <= start + surge.interval);
        }
    }
    None
}

/// Returns how long after its start the acknowledgements of a burst fell behind what was due.
fn held(surge: &Surge, intervals: &[Interval], start: f64) -> Option<f64> {
    let end = start + surge.length;
    let mut last = start;
    for point in intervals {
        if point.at <= start + 1e-6 {
            continue;
        }
        if point.at > end + 1e-6 {
            return None;
        }
        // An interval that began before the burst contains base load.
        let seconds = point.at - last;
        let due = surge.peak * seconds;
        if last > start + 1e-6 && (point.produced as f64) < KEEPS_UP * due {
            return Some(last - start);
        }
        last = point.at;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn surge() -> Surge {
        Surge {
            base: 10.0,
            peak: 100.0,
            length: 5.0,
            interval: 20.0,
            first_tier: Some(400.0),
            drain: Some(20.0),
        }
    }

    /// Intervals of a second: acknowledged bytes, and bytes on the first tier at the end.
    fn curve(points: &[(u64, u64)]) -> Vec<Interval> {
        let each = points.iter().zip(1u32..);
        each.map(|((produced, fast), at)| Interval {
            at: f64::from(at),
            produced: *produced,
            tier_bytes: vec![*fast, 0],
            ..Interval::default()
        })
        .collect()
    }

    #[test]
    fn a_burst_is_held_until_what_comes_is_not_taken_in() {
        // 15 quiet seconds, three at the peak, two that fall behind, two that catch up, then the
        // tier drains in four.
        let mut points = vec![(10, 200); 15];
        points.extend([(100, 280), (98, 360), (95, 400), (30, 400), (25, 400)]);
        points.extend([(90, 400), (80, 400)]);
        points.extend([(10, 350), (10, 300), (10, 250), (10, 200), (10, 190)]);
        let found = bursts(&surge(), &curve(&points));
        assert_eq!(found.len(), 1);
        let burst = &found[0];
        assert_eq!(
            (burst.at, burst.held, burst.gap),
            (15.0, Some(3.0), Some(4.0))
        );
        // 200 free bytes over 80 per second; 200 used bytes over 10 per second.
        assert_eq!((burst.held_rule, burst.gap_rule), (Some(2.5), Some(20.0)));
    }

    #[test]
    fn what_did_not_end_is_not_given_an_end() {
        let mut points = vec![(10, 200); 15];
        points.extend([(100, 280); 5]);
        points.extend([(10, 280); 3]);
        let burst = bursts(&surge(), &curve(&points)).remove(0);
        assert_eq!((burst.held, burst.gap), (None, None));
        // A base load that the second tier cannot take leaves no rate to drain with.
        let mut full = surge();
        full.base = 20.0;
        let burst = bursts(&full, &curve(&points)).remove(0);
        assert_eq!(burst.gap_rule, Some(f64::INFINITY));
        // Without tiers there is no rule.
        let mut plain = curve(&points);
        for point in &mut plain {
            point.tier_bytes.clear();
        }
        let burst = bursts(&surge(), &plain).remove(0);
        assert_eq!((burst.held_rule, burst.gap_rule), (None, None));
    }

    #[test]
    fn without_bursts_there_is_no_section() {
        assert_eq!(section(&Run::default()), "");
        assert!(figures(None, Some(f64::INFINITY), 5.0).contains("without end"));
        assert!(figures(None, Some(2.0), 5.0).contains("more than 5"));
    }
}
