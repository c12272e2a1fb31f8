//! `tune.toml`: facts about the load for a tuner of the machine. A hint, not settings.

use std::fmt::Write as _;

use super::{comment, whole};
use crate::answer::{FleetFigures, Plan};

/// Returns the hint.
pub fn hint(plan: &Plan, chosen: &FleetFigures) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "# What one broker of the plan {} does at the peak: for the choice of a profile.",
        comment(&plan.name)
    );
    let large = chosen.topics.iter().any(|topic| topic.batch.0 >= 262_144.0);
    let _ = writeln!(
        text,
        "profile = \"{}\"",
        if large { "throughput" } else { "balanced" }
    );
    let _ = writeln!(
        text,
        "network_in_bytes_per_second = {}",
        whole(chosen.broker.taken.0)
    );
    let _ = writeln!(
        text,
        "network_out_bytes_per_second = {}",
        whole(chosen.broker.given.0)
    );
    let _ = writeln!(text, "cores = {:.2}", chosen.broker.cpu);
    let _ = writeln!(text, "memory_bytes = {}", whole(chosen.memory.0));
    text
}
