//! Writes made-up runs and their reports into a directory: what the browser tests look at, and a
//! way to see what a change of the report does. `cargo run -p forebay-bench --example
//! sample_reports -- DIR`

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    missing_docs,
    unreachable_pub,
    reason = "a program for tests; figures of samples are rounded"
)]

use std::path::PathBuf;

use anyhow::Context as _;

#[path = "../tests/report/samples.rs"]
mod samples;

fn main() -> anyhow::Result<()> {
    let dir = std::env::args_os().nth(1).context("which directory?")?;
    for (name, run) in samples::all() {
        let dir = PathBuf::from(&dir).join(name);
        std::fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
        bench::report::write(&run, &dir)?;
        std::fs::write(dir.join("run.json"), serde_json::to_string(&run)?)?;
    }
    Ok(())
}
