//! Simulates the bursts of an answer with the policy of tiers, beside the closed form, and draws
//! how full the first tier is by both.

use std::fmt::Write as _;

use ::plan::answer::{BurstAnswer, FleetFigures, Plan};
use ::plan::mix::TierAnswer;
use ::plan::quantity::{Seconds, significant};
use storage::tier::fluid::{Fluid, LogLayout};
use storage::tier::policy::{PolicySettings, decide};

/// Longest burst or gap that is simulated.
const SECONDS_MAX: f64 = 20_000.0;

/// Largest number of segments of a tier that are simulated one by one.
const SEGMENTS_MAX: f64 = 400.0;

/// Lines of the drawing, and places of a line.
const DRAWN_LINES: u32 = 16;
const DRAWN_PLACES: usize = 50;

/// One broker of an answer, to be simulated.
struct Broker<'a> {
    burst: &'a BurstAnswer,
    fast: &'a TierAnswer,
    threshold: f64,
    segment: f64,
    /// Megabytes per second into the broker, with copies.
    peak: f64,
    base: f64,
}

/// The result of the simulation.
struct SimulationResult {
    lasted: f64,
    spilled: bool,
    highest: f64,
    gap: f64,
    /// Seconds from the start of the burst, and the fill of the first tier.
    curve: Vec<(f64, f64)>,
}

impl<'a> Broker<'a> {
    fn of(chosen: &'a FleetFigures) -> Option<Self> {
        let burst = chosen.burst.as_ref().filter(|burst| !burst.in_page_cache)?;
        let fast = chosen.fast.as_ref()?;
        let topics = chosen.topics.iter();
        let base = topics.fold(0.0, |sum, topic| {
            sum + topic.base.0 * f64::from(topic.replication)
        });
        let mut segment = chosen.segment.0;
        while fast.capacity.0 / segment > SEGMENTS_MAX {
            segment *= 2.0;
        }
        Some(Self {
            burst,
            fast,
            threshold: chosen.threshold?,
            segment,
            peak: chosen.broker.taken.0 / 1e6,
            base: base / 1e6,
        })
    }

    /// Returns the policy in balance at the threshold.
    fn settled(&self) -> anyhow::Result<Fluid> {
        let settings = PolicySettings {
            threshold: Some(self.threshold),
            bytes_per_second: Some(whole(self.burst.drain.0)),
            heat_ms: 0,
            residency_ms: 1000,
            ..PolicySettings::DEFAULTS
        };
        let cut = LogLayout {
            logs: 4,
            segment_bytes: whole(self.segment),
        };
        let capacities = [whole(self.fast.capacity.0), u64::MAX / 4];
        let mut fluid = Fluid::cut(settings, &capacities, decide, cut);
        fluid.retention_mb = whole(self.capacity_mb() * 2.0);
        fluid.fill_with_sealed(whole(self.capacity_mb() * self.threshold));
        fluid.run_for(60.0, self.base)?;
        Ok(fluid)
    }

    fn capacity_mb(&self) -> f64 {
        self.fast.capacity.0 / 1e6
    }

    fn simulate(&self) -> anyhow::Result<SimulationResult> {
        let mut fluid = self.settled()?;
        let before = fluid.used_mb(0).max(self.capacity_mb() * self.threshold);
        let mut lasted = 0.0;
        // Bounded: a point for each step of a burst and a gap of at most `SECONDS_MAX` each.
        let mut curve = vec![(0.0, fluid.used_mb(0) / self.capacity_mb())];
        let most = self.burst.asked.0.min(SECONDS_MAX);
        while fluid.spilled_mb() < 0.1 && lasted < most {
            fluid.run_for(0.1, self.peak)?;
            lasted += 0.1;
            curve.push((lasted, fluid.used_mb(0) / self.capacity_mb()));
        }
        let spilled = fluid.spilled_mb() > 0.1;
        let highest = fluid.used_mb(0) / self.capacity_mb();
        let mut gap = 0.0;
        while fluid.used_mb(0) > before && gap < SECONDS_MAX {
            fluid.run_for(0.1, self.base)?;
            gap += 0.1;
            curve.push((lasted + gap, fluid.used_mb(0) / self.capacity_mb()));
        }
        Ok(SimulationResult {
            lasted,
            spilled,
            highest,
            gap,
            curve,
        })
    }
}

/// Compares the closed form with the policy for one broker's burst and gap, and for how full the
/// first tier gets.
pub(super) fn beside(plan: &Plan) -> anyhow::Result<String> {
    let Some(chosen) = &plan.chosen else {
        return Ok(String::new());
    };
    let Some(broker) = Broker::of(chosen) else {
        return Ok("simulation: there is no burst into a first tier\n".to_owned());
    };
    let simulated = broker.simulate()?;
    let burst = broker.burst;
    let end = if simulated.spilled {
        "then it spilled"
    } else {
        "nothing spilled"
    };
    let highest = burst
        .curve
        .iter()
        .map(|(_, fill)| *fill)
        .fold(0.0, f64::max);
    let percent = |share: f64| format!("{} %", significant(share * 100.0));
    let rows = [
        (
            "the burst",
            burst.asked.to_string(),
            format!("{}, {end}", Seconds(simulated.lasted)),
        ),
        (
            "the first tier then is full to",
            percent(highest),
            percent(simulated.highest),
        ),
        (
            "until its bytes are gone",
            burst.gap.to_string(),
            Seconds(simulated.gap).to_string(),
        ),
    ];
    let mut text =
        "\nThe policy of tiers itself, on one broker     planned         simulated\n".to_owned();
    // Writing to a `String` cannot fail.
    for (what, planned, seen) in rows {
        let _ = writeln!(text, "  {what:<42}  {planned:<14}  {seen}");
    }
    text.push_str(&drawn(&burst.curve, &simulated.curve));
    if broker.segment > chosen.segment.0 {
        let megabytes = whole(broker.segment / 1e6);
        let _ = writeln!(
            text,
            "  (in segments of {megabytes} MB, so that there are not too many of them)"
        );
    }
    Ok(text)
}

/// Draws the fill of the first tier over time: `p` where it was planned, `s` where it was
/// simulated, `*` where both are the same.
fn drawn(planned: &[(f64, f64)], simulated: &[(f64, f64)]) -> String {
    let last = |curve: &[(f64, f64)]| curve.last().map_or(0.0, |(at, _)| *at);
    // The planned curve has a second burst.
    let gone = planned.get(2).map_or(0.0, |(at, _)| *at);
    let end = last(simulated).max(gone);
    if end <= 0.0 || !end.is_finite() {
        return String::new();
    }
    let mut text = "  how full the first tier is: p planned, s simulated, * both\n".to_owned();
    for line in 0..=DRAWN_LINES {
        let at = end * f64::from(line) / f64::from(DRAWN_LINES);
        let (by_plan, by_policy) = (fill_at(planned, at), fill_at(simulated, at));
        let mut places = vec![' '; DRAWN_PLACES + 1];
        for (fill, mark) in [(by_plan, 'p'), (by_policy, 's')] {
            let place = place_of(fill);
            if let Some(drawn) = places.get_mut(place) {
                *drawn = if *drawn == ' ' { mark } else { '*' };
            }
        }
        let places: String = places.into_iter().collect();
        // Writing to a `String` cannot fail.
        let _ = writeln!(
            text,
            "  {:>9} |{places}| {:>3.0} % {:>3.0} %",
            Seconds(at).to_string(),
            by_plan * 100.0,
            by_policy * 100.0
        );
    }
    text
}

/// Returns the fill at a time, between the points of a curve on a straight line.
fn fill_at(curve: &[(f64, f64)], at: f64) -> f64 {
    let behind = curve.partition_point(|(time, _)| *time <= at);
    let before = behind.checked_sub(1).and_then(|index| curve.get(index));
    match (before, curve.get(behind)) {
        (Some((from, low)), Some((to, high))) if to > from => {
            low + (high - low) * (at - from) / (to - from)
        }
        (Some((_, fill)), _) | (None, Some((_, fill))) => *fill,
        (None, None) => 0.0,
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a place of a short line"
)]
fn place_of(fill: f64) -> usize {
    (fill.clamp(0.0, 1.0) * DRAWN_PLACES as f64).round() as usize
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "bytes of devices are far from the largest number, and not negative"
)]
fn whole(value: f64) -> u64 {
    value.max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_curves_are_drawn_over_the_same_time() {
        let planned = [
            (0.0, 0.5),
            (4.0, 1.0),
            (20.0, 0.5),
            (30.0, 0.5),
            (34.0, 1.0),
        ];
        let simulated = [(0.0, 0.5), (4.0, 0.9), (16.0, 0.5)];
        let text = drawn(&planned, &simulated);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 18, "{text}");
        assert!(
            lines[1].contains('*') && lines[1].ends_with("|  50 %  50 %"),
            "{text}"
        );
        // After 3.75 s: both rise, the planned one higher.
        assert!(
            lines[4].contains("s   p") && lines[4].ends_with("|  97 %  88 %"),
            "{text}"
        );
        assert!(
            lines[17].contains("20 s") && lines[17].ends_with("|  50 %  50 %"),
            "{text}"
        );
        assert_eq!(drawn(&[], &[]), "");
    }
}
