//! Tiers: an ordered list of places for segments, the fastest first, and the state of each place.
//!
//! A tier has one or several paths (directories). A log has a *home*, its folder in a path of the
//! first tier: it holds checkpoints, producer snapshots and, while there is room, the active
//! segment. The files of a sealed segment lie together in the folder of the same name in one tier
//! path, and in two only while the segment moves. The directories are the catalogue: no other
//! record says where a segment is. `policy` decides what belongs where, without side effects.
//! Without a table (plain `log.dirs`) none of this code runs or costs anything.

pub(crate) mod copy;
pub mod fluid;
mod gather;
mod mover;
pub mod options;
pub(crate) mod pace;
pub mod policy;
pub mod pool;
mod report;
pub mod table;
pub(crate) mod verify;

pub use mover::Mover;
pub use options::{Capacity, Medium, PathOptions, Safety, TierOptions};
pub use pace::MoveRate;
pub use pool::PoolOptions;
pub use report::{SegmentReport, VerifyOutcome};
/// Name of the file in a path that marks the path as draining, across restarts.
pub const DRAINED_FILE: &str = "tier-drained";

pub use table::{PathId, PathUse, TierPath, TierTable};
