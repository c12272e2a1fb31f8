//! Bursts and the rule for their length and distance: a burst can last for the free bytes on the
//! first tier over peak less drain; the gap to the next one takes the used bytes over drain less
//! base.
//!
//! The measured values come from the curve. A burst was held for as long as the acknowledged bytes
//! kept up with those due; the gap began when the remaining bytes were acknowledged too, and lasted
//! until the first tier held no more than when the burst began, or no more than its threshold,
//! below which nothing moves down. A dip that the next second makes up is no end of a burst. The
//! precision is one interval of the curve. What did not happen before the load ended is shown as
//! "more than".

use std::fmt::Write as _;

use page::escape::html;
use page::number::{Quantity, ratio};

use crate::outcome::{Interval, Run, Surge};

/// Acknowledged bytes below this part of the due bytes do not keep up.
const KEEPS_UP: f64 = 0.9;

/// Seconds after the start of a dip within which it may be made up.
const MADE_UP: f64 = 1.0;

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
    /// Bytes per second that came to the second tier meanwhile.
    drain: Option<f64>,
}

/// What was measured of one burst.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct MeasuredBurst {
    /// Seconds for which the peak was acknowledged as it came; `None`: to its end.
    pub held: Option<f64>,
    /// Seconds until the first tier had drained; `None`: not before the next burst, or the end.
    pub gap: Option<f64>,
    /// Bytes per second that came to the second tier meanwhile; `None` without two tiers.
    pub drain: Option<f64>,
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

/// Returns the bursts of a phase's first measurement.
pub(super) fn measured(run: &Run, phase: &str) -> Vec<MeasuredBurst> {
    let cell = run.cells.iter().find(|cell| cell.phase == phase);
    let surge = cell.and_then(|cell| cell.surge.as_ref().zip(Some(&cell.outcome.intervals)));
    let bursts = surge.map_or_else(Vec::new, |(surge, intervals)| bursts(surge, intervals));
    bursts
        .into_iter()
        .map(|burst| MeasuredBurst {
            held: burst.held,
            gap: burst.gap,
            drain: burst.drain,
        })
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
    let tier = |tier: usize, at: f64| {
        let last = intervals.iter().rfind(|point| point.at <= at + 1e-6);
        last.and_then(|point| point.tier_bytes.get(tier))
            .map(|bytes| *bytes as f64)
    };
    let until = start + surge.interval;
    let whole = taken_in(surge, intervals, start).unwrap_or(until);
    let (before, after) = (tier(0, start), tier(0, whole));
    // Nothing moves down below the threshold.
    let rest = before.map(|before| before.max(surge.threshold.unwrap_or(0.0)));
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
    let gap_rule = rest
        .zip(after)
        .zip(drain)
        .map(|((rest, after), drain)| rule((after - rest).max(0.0), drain - surge.base));
    let behind = intervals
        .iter()
        .filter(|point| point.at > whole + 1e-6 && point.at <= until + 1e-6);
    let drained = rest.and_then(|rest| {
        let mut points = behind.filter(|point| {
            let fast = point.tier_bytes.first();
            fast.is_some_and(|bytes| *bytes as f64 <= rest)
        });
        points.next().map(|point| point.at - whole)
    });
    let end = intervals.last().map_or(until, |last| last.at.min(until));
    let seconds = drained.unwrap_or(end - whole);
    let came = tier(1, whole)
        .zip(tier(1, whole + seconds))
        .map(|(from, to)| to - from);
    Burst {
        at: start,
        held: held(surge, intervals, start),
        held_rule,
        gap: drained,
        gap_rule,
        drain: came.filter(|_| seconds > 0.0).map(|bytes| bytes / seconds),
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
        let due = surge.peak * (point.at - last);
        if last > start + 1e-6
            && (point.produced as f64) < KEEPS_UP * due
            && !is_made_up(surge, intervals, last, end)
        {
            return Some(last - start);
        }
        last = point.at;
    }
    None
}

/// Returns true if what is due in the second from `dip` on is acknowledged by its end.
fn is_made_up(surge: &Surge, intervals: &[Interval], dip: f64, end: f64) -> bool {
    let until = (dip + MADE_UP).min(end) + 1e-6;
    let within = |point: &&Interval| point.at > dip + 1e-6 && point.at <= until;
    let (mut acknowledged, mut last) = (0.0, dip);
    for point in intervals.iter().filter(within) {
        acknowledged += point.produced as f64;
        last = point.at;
    }
    last > dip && acknowledged >= KEEPS_UP * surge.peak * (last - dip)
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
            threshold: None,
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
    fn a_tier_that_was_below_its_threshold_has_drained_at_the_threshold() {
        let mut points = vec![(10, 50); 15];
        points.extend([(100, 150), (100, 250), (100, 330), (100, 400), (100, 400)]);
        points.extend([(10, 390), (10, 300), (10, 200), (10, 200), (10, 200)]);
        let mut intervals = curve(&points);
        for (interval, second) in intervals.iter_mut().skip(20).zip([60, 160, 270]) {
            interval.tier_bytes[1] = second;
        }
        let mut surge = surge();
        assert_eq!(
            bursts(&surge, &intervals)[0].gap,
            None,
            "never below it again"
        );
        surge.threshold = Some(200.0);
        let burst = bursts(&surge, &intervals).remove(0);
        assert_eq!((burst.gap, burst.gap_rule), (Some(3.0), Some(20.0)));
        assert_eq!(burst.drain, Some(90.0), "270 bytes in three seconds");
    }

    #[test]
    fn a_dip_that_the_next_second_makes_up_is_no_end() {
        let quarters = |produced: [u64; 20]| -> Vec<Interval> {
            let quiet = (1..=60).map(|at| (f64::from(at) / 4.0, 2));
            let peak = (61..=80).map(|at| f64::from(at) / 4.0).zip(produced);
            let all = quiet.chain(peak);
            all.map(|(at, produced)| Interval {
                at,
                produced,
                ..Interval::default()
            })
            .collect()
        };
        let mut produced = [25; 20];
        (produced[5], produced[6]) = (10, 40);
        assert_eq!(bursts(&surge(), &quarters(produced))[0].held, None);
        produced[6] = 25;
        assert_eq!(bursts(&surge(), &quarters(produced))[0].held, Some(1.25));
    }

    #[test]
    fn without_bursts_there_is_no_section() {
        assert_eq!(section(&Run::default()), "");
        assert!(figures(None, Some(f64::INFINITY), 5.0).contains("without end"));
        assert!(figures(None, Some(2.0), 5.0).contains("more than 5"));
    }
}
