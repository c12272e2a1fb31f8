//! `verify.toml`: the experiment that proves a plan on one broker, for `forebay bench run`.
//!
//! Rates and capacities are those of one broker times a scale. Times stay the same, unless a burst
//! with its gap takes longer than `ROUND_MAX`: then capacities and times shrink together, which
//! changes no rate. Before the bursts, the first tier is filled to its threshold: a plan is about
//! bursts that find it there, and below it nothing moves down.

use std::fmt::Write as _;

use super::{comment, whole};
use crate::answer::{FleetFigures, Plan, TopicAnswer};
use crate::quantity::{Bytes, Rate, Seconds};

/// Longest time of a burst with its gap.
const ROUND_MAX: Seconds = Seconds(60.0);

/// Seconds of a measurement without bursts.
const SECONDS: f64 = 4.0;

/// Connections of a load on one machine.
const PRODUCERS: u32 = 4;

/// The part of a plan that is measured: one broker, scaled.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ScaledPlan {
    /// Factor on rates.
    pub rate: f64,
    /// Factor on times.
    pub time: f64,
    /// Rate from producers at the peak.
    pub peak: Rate,
    /// Rate from producers between bursts.
    pub base: Rate,
    /// Length and interval of bursts, if there are any.
    pub burst: Option<(Seconds, Seconds)>,
    /// How long the peak takes to fill the first tier to its threshold.
    pub fill: Seconds,
    /// Rate of the second tier's devices, if they are held to it.
    pub held: Option<Rate>,
}

/// Returns the part of a plan that is measured.
///
/// A single broker has no followers: its producers send as much as it would take in total.
pub fn scaled(chosen: &FleetFigures, scale: f64) -> ScaledPlan {
    let copies = chosen.broker.taken / chosen.broker.peak;
    let base: Rate = chosen
        .topics
        .iter()
        .map(|topic| topic.base * f64::from(topic.replication))
        .sum();
    let burst = chosen.burst.as_ref().filter(|burst| !burst.in_page_cache);
    let round = burst.map(|burst| burst.asked + burst.allowed);
    let time = round.map_or(1.0, |round| (ROUND_MAX / round).min(1.0));
    let peak = chosen.broker.peak * (copies * scale);
    let kept = chosen.fast.as_ref().zip(chosen.threshold);
    let kept = kept.filter(|_| burst.is_some());
    let fill = kept.map_or(Bytes::ZERO, |(fast, threshold)| {
        fast.capacity * (threshold.max(0.0) * scale * time)
    });
    let written = chosen.bulk.write * (f64::from(chosen.bulk.count) * scale);
    ScaledPlan {
        rate: scale,
        time,
        peak,
        fill: fill / peak,
        held: (scale < 1.0).then_some(written.max(Rate(1e6))),
        base: base * scale,
        burst: burst.map(|burst| (burst.asked * time, (burst.asked + burst.allowed) * time)),
    }
}

/// Returns the file. Below a scale of 1, the second tier is limited to its share of the rate.
pub fn file(plan: &Plan, chosen: &FleetFigures, scale: f64) -> String {
    let scaled = scaled(chosen, scale);
    let mut text = String::new();
    let _ = writeln!(
        text,
        "# Proves one broker of the plan {} at {} of its rates, with times at {}: forebay bench run verify.toml --dir DIR",
        comment(&plan.name),
        scale,
        scaled.time
    );
    let _ = writeln!(text, "name = \"plan-verify\"");
    let _ = writeln!(
        text,
        "about = \"One broker of a plan: rate and processor time of writing and reading, and its bursts.\""
    );
    let _ = writeln!(text, "targets = [\"planned\"]");
    let _ = writeln!(text, "limits = false\n");
    let _ = writeln!(text, "[target.planned]\nkind = \"forebay\"");
    if let Some(fast) = &chosen.fast {
        let capacity = fast.capacity.0 * scaled.rate * scaled.time;
        let _ = writeln!(
            text,
            "first_tier = {{ kind = \"disk\", capacity = {} }}",
            whole(capacity)
        );
        let threshold = chosen.threshold.unwrap_or(-1.0);
        let _ = write!(
            text,
            "settings = {{ \"storage.migrate.threshold\" = \"{threshold:.4}\""
        );
        let mover = chosen.mover.map(|mover| mover * scale);
        // A device that is held to the same rate bounds moves by itself, and catches up on what two
        // bounds would each lose.
        if let Some(mover) = mover.filter(|mover| scaled.held.is_none_or(|held| *mover < held)) {
            let _ = write!(
                text,
                ", \"storage.migrate.bytes.per.second\" = \"{}\"",
                whole(mover.0.max(1.0))
            );
        }
        // In times this short, reads must not keep segments on their tier.
        let _ = writeln!(
            text,
            ", \"storage.migrate.residency.ms\" = \"1000\", \"storage.migrate.heat.ms\" = \"0\" }}"
        );
    }
    devices(&mut text, &scaled);
    phases(&mut text, chosen, &scaled);
    text
}

fn devices(text: &mut String, scaled: &ScaledPlan) {
    let _ = writeln!(text, "\n[[device]]\nname = \"bulk\"");
    let Some(held) = scaled.held else {
        // The option --dir names the directory.
        let _ = writeln!(text, "kind = \"disk\"");
        return;
    };
    // The bytes of the measured rounds of bursts, and of the phases before them.
    let rounds = scaled.burst.map_or(Bytes::ZERO, |(length, interval)| {
        (scaled.peak * length + scaled.base * (interval - length)) * 3.0
    });
    let steady = scaled.peak * (Seconds(SECONDS * 2.0) + scaled.fill);
    let size = (rounds + steady).0.max(1e9) * 1.1 + 2e9;
    let _ = writeln!(
        text,
        "kind = \"limited\"\nsize = {}\nrate = {}",
        whole(size),
        whole(held.0)
    );
}

/// Returns the topic with the highest peak.
fn largest(chosen: &FleetFigures) -> Option<&TopicAnswer> {
    chosen
        .topics
        .iter()
        .max_by(|one, other| one.peak.0.total_cmp(&other.peak.0))
}

fn produce(topic: &TopicAnswer, rate: &str, bytes: Rate) -> String {
    let record = topic.record.0.clamp(1.0, 100e6);
    let batch = topic.batch.0.clamp(record, 100e6);
    // Batches as large as planned need time to fill.
    let fills = batch / (bytes.0.max(1.0) / f64::from(PRODUCERS)) * 1000.0;
    let linger = (fills * 2.0).clamp(2.0, 1000.0).ceil();
    format!(
        "produce = {{ producers = {PRODUCERS}, record = {}, batch_bytes = {}, linger_ms = {linger}, acks = {}, in_flight_max = 5{rate} }}",
        whole(record),
        whole(batch),
        topic.acks
    )
}

fn phases(text: &mut String, chosen: &FleetFigures, scaled: &ScaledPlan) {
    let Some(topic) = largest(chosen) else { return };
    let most = topic.batch.0.max(topic.record.0) * 1.1;
    let large = if most > 1_048_588.0 {
        format!(", \"max.message.bytes\" = \"{}\"", whole(most))
    } else {
        String::new()
    };
    let segment = (chosen.segment.0 * scaled.rate * scaled.time).clamp(16e6, 1_073_741_824.0);
    let topics = format!(
        "topics = {{ count = 1, partitions = {PRODUCERS}, configs = {{ \"segment.bytes\" = \"{}\"{large} }} }}",
        whole(segment)
    );
    let bytes = whole(scaled.peak.0 * SECONDS);
    let steady = format!(
        ", rate = {{ shape = \"constant\", rate = {} }}",
        whole(scaled.peak.0)
    );
    let _ = writeln!(
        text,
        "\n[[warm]]\nseconds = 3\nbytes_max = 100_000_000\n{topics}\n{}",
        produce(topic, "", scaled.peak)
    );
    // The rate is exactly the planned one, so the processor time is comparable.
    let _ = writeln!(
        text,
        "\n[[phase]]\nname = \"produce\"\n[phase.load]\nseconds = {SECONDS}\nbytes_max = {bytes}\n{topics}\n{}",
        produce(topic, &steady, scaled.peak)
    );
    let _ = writeln!(
        text,
        "\n[[phase]]\nname = \"consume\"\nreads = \"produce\"\n[phase.load]\nseconds = {SECONDS}\nbytes_max = {bytes}\n{topics}\nconsume = {{ consumers = {PRODUCERS}, from = \"earliest\", max_bytes = 52_428_800, partition_max_bytes = {} }}",
        whole(most.max(1_048_576.0))
    );
    if let Some((length, interval)) = scaled.burst {
        let peak = whole(scaled.peak.0);
        let rate = format!(
            ", rate = {{ shape = \"burst\", base = {}, peak = {peak}, length = {:.3}, interval = {:.3}, warmup = {peak} }}",
            whole(scaled.base.0.max(1.0)),
            length.0,
            interval.0
        );
        let _ = writeln!(
            text,
            "\n[[phase]]\nname = \"burst\"\n[phase.load]\nwarmup_seconds = {:.3}\nseconds = {:.0}\ninterval_seconds = 0.25\n{topics}\n{}\nconsume = {{ consumers = {PRODUCERS}, from = \"latest\", max_bytes = 52_428_800, partition_max_bytes = {} }}",
            scaled.fill.0,
            (interval.0 * 2.9).ceil(),
            produce(topic, &rate, scaled.peak),
            whole(most.max(1_048_576.0))
        );
    }
}
