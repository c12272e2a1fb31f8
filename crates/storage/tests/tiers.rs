//! What a user of a log on several tiers can notice: that segments move, that nothing else changes,
//! and that no crash, full path, absent path or damaged byte loses a record or serves a wrong one.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod world;

#[path = "tiers/absent.rs"]
mod absent;
#[path = "tiers/ages.rs"]
mod ages;
#[path = "tiers/asides.rs"]
mod asides;
#[path = "tiers/by_name.rs"]
mod by_name;
#[path = "tiers/clocks.rs"]
mod clocks;
#[path = "tiers/crash.rs"]
mod crash;
#[path = "tiers/drain.rs"]
mod drain;
#[path = "tiers/failing.rs"]
mod failing;
#[path = "tiers/foreign.rs"]
mod foreign;
#[path = "tiers/moves.rs"]
mod moves;
#[path = "tiers/refused.rs"]
mod refused;
#[path = "tiers/restart_states.rs"]
mod restart_states;
#[path = "tiers/rewinds.rs"]
mod rewinds;
#[path = "tiers/room.rs"]
mod room;
#[path = "tiers/rot.rs"]
mod rot;
#[path = "tiers/scene.rs"]
mod scene;
#[path = "tiers/stale.rs"]
mod stale;
#[path = "tiers/third_path.rs"]
mod third_path;
#[path = "tiers/twin.rs"]
mod twin;
#[path = "tiers/unreadable.rs"]
mod unreadable;
