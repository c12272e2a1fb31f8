//! Tiers: an ordered list of places for segments, the fastest first, and what is known of each place.
//!
//! A tier is one or several paths (directories). A log has its *home*, its folder in a path of the first tier: checkpoints,
//! producer snapshots and, while there is room, the active segment. A sealed segment's files lie together in the folder of
//! the same name in one tier path, in two only while it moves. The directories are the catalogue: nothing else says
//! where a segment is. `policy` says what belongs where; it is pure.
//! Without a table (plain `log.dirs`) nothing here is asked, counted or paid for.

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
pub use report::{SegmentReport, Verified};
/// Name of the file in a path which says, over restarts, that the path is to be emptied.
pub const DRAINED_FILE: &str = "tier-drained";

pub use table::{PathId, PathUse, TierPath, TierTable};
