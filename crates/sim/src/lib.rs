//! A simulated world: storage under seeded faults, and checks that it keeps its promises.
//!
//! The seed alone determines a *run*. A run is a sequence of *lives* of one or two log directories.
//! Each life opens the logs, runs producers, readers and an owner (retention, truncation, saves)
//! while the disk misbehaves, and ends with a clean stop, a kill or a power loss; the next life
//! starts on the remaining files. The [`ledger`] knows every accepted batch and what was promised
//! about it. The checks run all the time:
//! * acknowledged records are readable, byte for byte, until they are deleted on purpose;
//! * no read returns records that were not written, or that are at another offset or out of order;
//! * offsets, watermarks and log starts do not fall, and no readable offset is given to another
//!   record;
//! * a batch that is sent again is answered with its first offsets and stored once, even across
//!   restarts;
//! * records on a tier path that is missing or read-only may be refused, and are there when the
//!   path returns; deleted records do not come back with it;
//! * what was acknowledged through a journal is there after any end, also when the journal's device
//!   is lost meanwhile;
//! * a start without one of the log directories is refused and changes nothing;
//! * lookups by timestamp and by the epoch of an offset agree with the records.
//!
//! Not checked: throughput, the network, several brokers, transactions. The same seed gives the
//! same trace (`Report::trace`). The checks must find planted bugs ([`world::PlantedBug`]).

mod actor;
mod checker;
mod directory;
pub mod dirs;
pub mod journaled;
pub mod ledger;
mod life;
mod owner;
pub mod plan;
pub mod planted;
mod producer;
mod reader;
pub mod report;
pub mod tiers;
pub mod world;

use platform::sim::{Rng, SimDisk, SimPlatform};

use dirs::Dirs;
use journaled::Journaled;
use plan::Plan;
use report::{Report, Violation};
use tiers::Tiers;
use world::{LyingPlatform, PlantedBug, World};

/// Runs the world that `seed` describes, optionally with a planted bug.
pub fn run(seed: u64, planted: Option<PlantedBug>) -> Result<Report, Violation> {
    match planted {
        Some(PlantedBug::SyncsAreLies | PlantedBug::ReleasedBeforeSync) => {
            run_on::<LyingPlatform>(seed, planted)
        }
        _ => run_on::<SimPlatform>(seed, planted),
    }
}

fn run_on<W: World>(seed: u64, planted: Option<PlantedBug>) -> Result<Report, Violation> {
    let mut rng = Rng::new(seed);
    let mut plan = Plan::draw(&mut rng, planted);
    let is_for_any = |planted| {
        matches!(
            planted,
            PlantedBug::MissingIsNew | PlantedBug::NoteGoesFirst
        )
    };
    if planted.is_none_or(is_for_any) {
        let lives = plan.lives.len();
        plan.tiers = Tiers::draw(seed, lives);
        if plan.tiers.is_none() {
            plan.dirs = Dirs::draw(seed, plan.logs.len(), lives);
        }
        if plan.tiers.is_none() && plan.dirs.is_none() {
            plan.tiers = Tiers::draw_two(seed, lives);
        }
    }
    if plan.tiers.is_none() && plan.dirs.is_none() {
        plan.journaled = Journaled::draw(seed, plan.lives.len(), planted);
    }
    let mut disk = SimDisk::new(rng.next_u64());
    if let Some(tiers) = &plan.tiers {
        tiers::make_paths(&disk, tiers);
    }
    if let Some(journaled) = &plan.journaled {
        journaled.make_device(&disk);
    }
    let mut run = life::Run::new(seed, plan);
    for number in 0..run.plan.lives.len() {
        disk = run.live::<W>(number, &disk, &mut rng)?;
    }
    Ok(run.into_report())
}
