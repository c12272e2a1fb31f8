//! The `forebay` server: configuration, listeners, connections, shards, admin endpoint.
//!
//! Invariant: glue only. The rules of Kafka and of storage live in other crates; requests pass
//! through as frames of bytes.

pub mod admin;
pub mod admission;
pub mod assemble;
pub mod audit;
mod certificates;
pub mod cli;
pub mod config;
pub mod connection;
pub mod handshake;
pub mod health;
mod line_bound;
pub mod listener;
pub mod logging;
pub mod machine;
mod media;
pub mod metrics;
mod notify;
pub mod oauth;
mod planner;
pub mod rights;
mod rings_lock;
pub mod run;
mod secrecy;
pub mod serve;
pub mod shards;
mod signals;
pub mod tiers;
mod trouble;
pub mod version;
mod wall;
mod watchdog;
