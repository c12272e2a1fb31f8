//! Experiments as files: which loads run on which brokers and devices, and in which order.
//!
//! `file` is the TOML format, `sweep` makes one load per combination of the values that a phase
//! varies, `choice` applies changes from the command line, `plan` puts all measurements in one
//! order, `need` lists what the machine must have. This module is pure: it starts, mounts and
//! measures nothing; `runner` does.

pub mod choice;
pub mod file;
pub mod need;
pub mod plan;
pub mod sweep;

pub use file::{Device, DeviceKind, Experiment, FirstTier, Phase, Target, TargetKind};

use std::path::Path;

use anyhow::{Context as _, bail};

/// The experiments in this binary, as (name, file).
pub const SHIPPED: &[(&str, &str)] = &[
    ("quick", include_str!("../experiments/quick.toml")),
    ("car-ingest", include_str!("../experiments/car-ingest.toml")),
    (
        "openmessaging-1-topic-100-partitions-1kb",
        include_str!("../experiments/openmessaging-1-topic-100-partitions-1kb.toml"),
    ),
    ("catch-up", include_str!("../experiments/catch-up.toml")),
    ("latency", include_str!("../experiments/latency.toml")),
    ("burst", include_str!("../experiments/burst.toml")),
    ("steady", include_str!("../experiments/steady.toml")),
    (
        "cold-readers",
        include_str!("../experiments/cold-readers.toml"),
    ),
    ("tier-cost", include_str!("../experiments/tier-cost.toml")),
    ("surge", include_str!("../experiments/surge.toml")),
    ("partitions", include_str!("../experiments/partitions.toml")),
];

/// Returns the shipped experiment of this name, or the one in the file.
pub fn find(name: &str) -> anyhow::Result<Experiment> {
    if let Some((_, text)) = SHIPPED.iter().find(|(known, _)| *known == name) {
        return file::parse(text, name);
    }
    if !Path::new(name).exists() {
        let known: Vec<_> = SHIPPED.iter().map(|(name, _)| *name).collect();
        bail!(
            "there is no file {name}, and no experiment of that name: {}",
            known.join(", ")
        );
    }
    let text = std::fs::read_to_string(name).with_context(|| format!("reading {name}"))?;
    file::parse(&text, name)
}
