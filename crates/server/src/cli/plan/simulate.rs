//! Simulates the bursts of an answer with the policy of tiers, beside the closed form.

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
        let most = self.burst.asked.0.min(SECONDS_MAX);
        while fluid.spilled_mb() < 0.1 && lasted < most {
            fluid.run_for(0.1, self.peak)?;
            lasted += 0.1;
        }
        let spilled = fluid.spilled_mb() > 0.1;
        let highest = fluid.used_mb(0) / self.capacity_mb();
        let mut gap = 0.0;
        while fluid.used_mb(0) > before && gap < SECONDS_MAX {
            fluid.run_for(0.1, self.base)?;
            gap += 0.1;
        }
        Ok(SimulationResult {
            lasted,
            spilled,
            highest,
            gap,
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
    if broker.segment > chosen.segment.0 {
        let megabytes = whole(broker.segment / 1e6);
        let _ = writeln!(
            text,
            "  (in segments of {megabytes} MB, so that there are not too many of them)"
        );
    }
    Ok(text)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "bytes of devices are far from the largest number, and not negative"
)]
fn whole(value: f64) -> u64 {
    value.max(0.0) as u64
}
