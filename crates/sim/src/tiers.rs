//! A second tier under the logs of some runs, whose path is missing in some lives and there again in others.
//!
//! Drawn apart from the rest of the plan, so that the runs without tiers are what they were.
//! Whatever is missing, nothing may be concluded from that: what is there is served, the rest is refused and comes back.

use std::path::Path;
use std::sync::Arc;

use platform::sim::{Rng, SimDisk};
use storage::checkpoint::meta_properties;
use storage::tier::policy::PolicySettings;
use storage::tier::{Capacity, Medium, PathOptions, Safety, TierOptions, TierTable};
use wire::types::Uuid;

use crate::directory::DIR;

const BULK: &str = "/bulk";
/// Room that nobody fills.
const SPACE_BYTES: u64 = 1 << 40;
/// Sets the draw apart from that of the plan.
const SALT: u64 = 0x7469_6572;

/// The tiers of a run.
#[derive(Clone, Debug)]
pub struct Tiers {
    /// In which lives the other path is missing.
    missing: Vec<bool>,
}

impl Tiers {
    /// Decides for a run of so many lives whether it has tiers, and which.
    pub(crate) fn draw(seed: u64, lives: usize) -> Option<Self> {
        let mut rng = Rng::new(seed ^ SALT);
        rng.chance(25).then(|| Self {
            missing: (0..lives).map(|life| life > 0 && rng.chance(35)).collect(),
        })
    }

    pub(crate) fn is_missing(&self, life: usize) -> bool {
        self.missing.get(life).copied().unwrap_or(false)
    }

    /// The paths as a life finds them.
    pub(crate) fn table(&self, life: usize) -> Arc<TierTable> {
        let table = TierTable::new(vec![tier("fast", DIR), tier("bulk", BULK)]);
        for path in table.paths() {
            path.note_space(SPACE_BYTES, SPACE_BYTES);
            // Each start finds the same directories, and knows which is missing.
            path.set_identity(Uuid::from_u128(1 + u128::from(path.id.0)));
        }
        if self.is_missing(life) {
            for path in table.paths_of(1) {
                path.fail("it is not mounted");
            }
        }
        table
    }
}

/// Makes the other path, durably, with the file that says which it is: a start of the broker does so before any log is
/// opened, and takes a path offline that it cannot make.
pub(crate) fn make_path(disk: &SimDisk) {
    let identity = Path::new(BULK).join(meta_properties::FILE);
    let made = disk.put(&identity, b"version=1\n");
    made.expect("nothing is there yet");
}

fn tier(name: &str, dir: &str) -> TierOptions {
    TierOptions {
        name: name.into(),
        paths: vec![PathOptions {
            dir: dir.into(),
            capacity: Capacity::Bytes(SPACE_BYTES),
        }],
        medium: Medium::File,
        safety: Safety::Durable,
        read_bytes_per_second: None,
        write_bytes_per_second: None,
    }
}

/// Moves what is sealed as soon as it is.
pub(crate) fn eager() -> PolicySettings {
    PolicySettings {
        threshold: Some(0.0),
        hysteresis: 0.0,
        reserve: 0.0,
        threads: 1,
        bytes_per_second: None,
        residency_ms: 0,
        heat_ms: 0,
        ..PolicySettings::DEFAULTS
    }
}
