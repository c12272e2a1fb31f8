//! The bursts of an answer by the policy of tiers itself, beside the closed form.

use std::fmt::Write as _;

use ::plan::answer::Plan;
use ::plan::quantity::{Seconds, significant};
use storage::tier::fluid::{Cut, Fluid, MB};
use storage::tier::policy::{PolicySettings, decide};

/// A burst that lasts longer than this is not waited for.
const SECONDS_MAX: f64 = 20_000.0;

/// Rates and capacities of more segments than this are not simulated one by one.
const SEGMENTS_MAX: f64 = 400.0;

/// What the closed form and the policy say of one broker's burst and gap, and how full the first tier is meanwhile.
pub(super) fn beside(plan: &Plan) -> anyhow::Result<String> {
    let chosen = plan.chosen.as_ref();
    let parts = chosen.and_then(|chosen| {
        let burst = chosen.burst.as_ref().filter(|burst| !burst.in_page_cache)?;
        Some((chosen, burst, chosen.fast.as_ref()?, chosen.threshold?))
    });
    let Some((chosen, burst, fast, threshold)) = parts else {
        return Ok("simulation: there is no burst into a first tier\n".to_owned());
    };
    let topics = chosen.topics.iter();
    let base = topics.fold(0.0, |sum, topic| {
        sum + topic.base.0 * f64::from(topic.replication)
    });
    let peak = chosen.broker.taken.0;
    let mut segment = chosen.segment.0;
    while fast.capacity.0 / segment > SEGMENTS_MAX {
        segment *= 2.0;
    }
    let settings = PolicySettings {
        threshold: Some(threshold),
        bytes_per_second: Some(whole(burst.drain.0)),
        heat_ms: 0,
        residency_ms: 1000,
        ..PolicySettings::DEFAULTS
    };
    let cut = Cut {
        logs: 4,
        segment_bytes: whole(segment),
    };
    let capacities = [whole(fast.capacity.0), u64::MAX / 4];
    let mut fluid = Fluid::cut(settings, &capacities, decide, cut);
    let capacity_mb = fast.capacity.0 / 1e6;
    fluid.retention_mb = whole(capacity_mb * 2.0);
    fluid.fill_with_sealed(whole(capacity_mb * threshold));
    fluid.run_for(60.0, base / 1e6)?;
    let before = fluid.used_mb(0);
    let mut lasted = 0.0;
    while fluid.spilled_mb() < 0.1 && lasted < burst.asked.0 && lasted < SECONDS_MAX {
        fluid.run_for(0.1, peak / 1e6)?;
        lasted += 0.1;
    }
    let spilled = fluid.spilled_mb() > 0.1;
    let highest = fluid.used_mb(0) / capacity_mb;
    let mut gap = 0.0;
    while fluid.used_mb(0) > before && gap < SECONDS_MAX {
        fluid.run_for(0.1, base / 1e6)?;
        gap += 0.1;
    }
    let mut text = String::new();
    let _ = writeln!(
        text,
        "\nThe policy of tiers itself, on one broker     planned         simulated"
    );
    let end = if spilled {
        "then it spilled"
    } else {
        "nothing spilled"
    };
    let _ = writeln!(
        text,
        "  the burst                                   {:<14}  {}, {end}",
        burst.asked.to_string(),
        Seconds(lasted)
    );
    let planned = burst
        .curve
        .iter()
        .map(|(_, fill)| *fill)
        .fold(0.0, f64::max);
    let _ = writeln!(
        text,
        "  the first tier then is full to              {:<14}  {} %",
        format!("{} %", significant(planned * 100.0)),
        significant(highest * 100.0)
    );
    let _ = writeln!(
        text,
        "  until its bytes are gone                    {:<14}  {}",
        burst.gap.to_string(),
        Seconds(gap)
    );
    if segment > chosen.segment.0 {
        let _ = writeln!(
            text,
            "  (in segments of {} MB, so that there are not too many of them)",
            whole(segment / MB as f64)
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
