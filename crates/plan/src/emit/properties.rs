//! `server.properties` of one broker of a fleet, with its tiers. The paths are examples for the
//! operator to change.

use std::fmt::Write as _;

use super::{comment, whole};
use crate::answer::{FleetFigures, Plan};
use crate::mix::TierAnswer;
use crate::quantity::significant;

/// Returns the file.
pub fn file(plan: &Plan, chosen: &FleetFigures) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "# One of {} brokers of the plan {}: {}",
        chosen.brokers,
        comment(&plan.name),
        comment(&chosen.mix)
    );
    let _ = writeln!(
        text,
        "# Change the paths to where the devices are mounted, and node.id on each broker."
    );
    let _ = writeln!(text, "node.id=1");
    match &chosen.fast {
        Some(fast) => tiers(&mut text, chosen, fast),
        None => {
            let _ = writeln!(text, "log.dirs={}", paths("data", chosen.bulk.count));
        }
    }
    let _ = writeln!(text, "log.segment.bytes={}", whole(chosen.segment.0));
    if let [only] = chosen.topics.as_slice() {
        let _ = writeln!(text, "num.partitions={}", whole(only.partitions));
        if let Some(time) = only.keep_time {
            let _ = writeln!(text, "log.retention.ms={}", whole(time.0 * 1000.0));
        }
        if let Some(bytes) = only.keep_bytes {
            let _ = writeln!(text, "log.retention.bytes={}", whole(bytes.0));
        }
    }
    if let Some(most) = chosen
        .topics
        .iter()
        .map(|topic| topic.record.0.max(topic.batch.0))
        .reduce(f64::max)
        && most * 1.1 > 1_048_588.0
    {
        let _ = writeln!(text, "message.max.bytes={}", whole(most * 1.1));
    }
    text
}

fn paths(name: &str, count: u32) -> String {
    let all: Vec<String> = (0..count)
        .map(|at| format!("/mnt/{name}{at}/forebay"))
        .collect();
    all.join(",")
}

fn tiers(text: &mut String, chosen: &FleetFigures, fast: &TierAnswer) {
    let _ = writeln!(text, "storage.tiers=fast,bulk");
    for (name, tier) in [("fast", fast), ("bulk", &chosen.bulk)] {
        let _ = writeln!(text, "\n# {} x {}", tier.count, comment(&tier.device));
        // Persistent memory is one file system over the modules of a processor, or one for each
        // namespace.
        let _ = writeln!(
            text,
            "storage.tier.{name}.paths={}",
            paths(name, tier.count)
        );
        let each = tier.capacity.0 / f64::from(tier.count.max(1));
        let _ = writeln!(text, "storage.tier.{name}.capacity={}", whole(each));
        let _ = writeln!(
            text,
            "storage.tier.{name}.read.bytes.per.second={}",
            whole(tier.read.0)
        );
        let _ = writeln!(
            text,
            "storage.tier.{name}.write.bytes.per.second={}",
            whole(tier.write.0)
        );
        if tier.dax {
            let _ = writeln!(text, "storage.tier.{name}.medium=dax");
        }
        if tier.volatile {
            let _ = writeln!(text, "storage.tier.{name}.durability=volatile");
        }
    }
    let _ = writeln!(text);
    if fast.dax {
        let _ = writeln!(text, "log.pmem.pool.ratio=0.99");
    }
    if let (Some(threshold), Some(mover)) = (chosen.threshold, chosen.mover) {
        let _ = writeln!(
            text,
            "# {} % of the first tier stays free for bursts.",
            significant((1.0 - threshold) * 100.0)
        );
        let _ = writeln!(text, "storage.migrate.threshold={threshold:.4}");
        let _ = writeln!(text, "storage.migrate.bytes.per.second={}", whole(mover.0));
        let _ = writeln!(text, "storage.migrate.threads={}", threads(chosen));
    } else {
        let _ = writeln!(
            text,
            "# Nothing moves: what the first tier has no room for is written to the second."
        );
        let _ = writeln!(text, "storage.migrate.threshold=-1");
    }
}

/// Returns one thread for each device of the slower tier, since a move writes to one of them.
fn threads(chosen: &FleetFigures) -> u32 {
    chosen.bulk.count.clamp(1, 64)
}
