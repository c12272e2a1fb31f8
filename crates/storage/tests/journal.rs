//! Logs whose small appends go through a journal, on a simulated disk that fails: each start finds
//! every acknowledged record, whatever was only in the ring.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod world;

#[path = "journal/crash.rs"]
mod crash;
#[path = "journal/device.rs"]
mod device;
#[path = "journal/landing.rs"]
mod landing;
#[path = "journal/life.rs"]
mod life;
#[path = "journal/scene.rs"]
mod scene;
#[path = "journal/uses.rs"]
mod uses;
