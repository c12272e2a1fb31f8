//! What clients of a running broker can notice, asked in frames.

#[path = "harness/cluster.rs"]
mod harness;

#[path = "served/every_api.rs"]
mod every_api;
#[path = "served/produce.rs"]
mod produce;
#[path = "served/questions.rs"]
mod questions;
