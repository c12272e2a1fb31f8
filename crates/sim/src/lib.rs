//! The simulated world: storage under seeded faults, and the checks that it keeps its promises.
//!
//! A *run* is decided by its seed alone. It is a row of *lives* of one log directory: each opens the logs, lets
//! producers, readers and an owner (retention, truncation, saves) loose on them while the disk misbehaves, and ends by a
//! clean stop, a kill or a loss of power; the next life starts on what is left.
//! The [`ledger`] knows every batch that was ever accepted and what was promised about it. Checked all the time:
//! * what was acknowledged is readable, byte for byte, until it is deleted on purpose;
//! * nothing is read that was not written, or at another offset, or out of order;
//! * offsets, watermarks and log starts do not fall, and no offset that could be read is given away twice;
//! * a batch that is sent again is answered with its first offsets and stored once, across restarts too;
//! * what is on a tier's path that is missing or read-only may be refused, and is there when the path is; nothing that was
//!   deleted comes back with it;
//! * a start without one of the log directories is refused and changes nothing;
//! * lookups by timestamp and the epoch of an offset agree with the records.
//!
//! Not checked: throughput, the network, several brokers, transactions.
//! The same seed gives the same trace (`Report::trace`). Planted bugs ([`world::Planted`]) must be found.

mod actor;
mod checker;
mod directory;
pub mod dirs;
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
use plan::Plan;
use report::{Report, Violation};
use tiers::Tiers;
use world::{LyingPlatform, Planted, World};

/// Runs the world that `seed` describes, perhaps with a bug planted in it.
pub fn run(seed: u64, planted: Option<Planted>) -> Result<Report, Violation> {
    match planted {
        Some(Planted::SyncsAreLies) => run_on::<LyingPlatform>(seed, planted),
        _ => run_on::<SimPlatform>(seed, planted),
    }
}

fn run_on<W: World>(seed: u64, planted: Option<Planted>) -> Result<Report, Violation> {
    let mut rng = Rng::new(seed);
    let mut plan = Plan::draw(&mut rng, planted);
    let is_for_any = |planted| matches!(planted, Planted::MissingIsNew | Planted::NoteGoesFirst);
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
    let mut disk = SimDisk::new(rng.next_u64());
    if let Some(tiers) = &plan.tiers {
        tiers::make_paths(&disk, tiers);
    }
    let mut run = life::Run::new(seed, plan);
    for number in 0..run.plan.lives.len() {
        disk = run.live::<W>(number, &disk, &mut rng)?;
    }
    Ok(run.into_report())
}
