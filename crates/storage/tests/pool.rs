//! Segment files made in advance: taken by the logs that roll, replaced, never more than their
//! share, never taken for data, and given up before anything is refused.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod world;

#[path = "pool/crash.rs"]
mod crash;
#[path = "pool/rolls.rs"]
mod rolls;
#[path = "pool/room.rs"]
mod room;
#[path = "pool/scene.rs"]
mod scene;
