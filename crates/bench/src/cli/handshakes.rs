//! `forebay bench handshakes`: a load of connections alone.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;

use crate::load::handshakes::{self, Handshakes, HandshakesOutcome};
use crate::load::{Security, Stop};

/// Connects, shakes hands, logs in and closes, again and again.
#[derive(Debug, Args)]
pub(super) struct HandshakesArgs {
    /// The broker.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9092")]
    bootstrap: String,
    /// File of properties as Kafka's tools take it, for TLS and logins.
    #[arg(long, value_name = "FILE")]
    command_config: Option<PathBuf>,
    /// Connections that are being made at any time.
    #[arg(long, value_name = "COUNT", default_value_t = 16)]
    connections: u32,
    /// Threads of the generator.
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    threads: usize,
    /// How long it goes on.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    seconds: f64,
    /// Resumes sessions of TLS, which spares most of the work of a handshake.
    #[arg(long)]
    resume: bool,
    /// Writes the outcome as JSON to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl HandshakesArgs {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        let security = Security::open(self.command_config.as_deref())?;
        let load = Handshakes {
            connections: self.connections,
            threads: self.threads,
            seconds: self.seconds,
            resumes: self.resume,
        };
        let outcome = handshakes::run(&self.bootstrap, &security, load, &Stop::default())?;
        if let Some(file) = &self.json {
            let text = serde_json::to_string_pretty(&outcome)? + "\n";
            std::fs::write(file, text).with_context(|| format!("writing {}", file.display()))?;
        }
        super::say(&text(&outcome))?;
        anyhow::ensure!(outcome.handshakes > 0, "no connection was made");
        Ok(())
    }
}

fn text(outcome: &HandshakesOutcome) -> String {
    let mut text = format!(
        "{} handshakes in {:.2} s: {:.1} a second\nlatency us: p50 {}, p90 {}, p99 {}, p99.9 {}, \
         max {}\ngenerator: {:.2} s of processor\n",
        outcome.handshakes,
        outcome.seconds,
        outcome.per_second,
        outcome.p50_us,
        outcome.p90_us,
        outcome.p99_us,
        outcome.p99_9_us,
        outcome.max_us,
        outcome.client_cpu_seconds,
    );
    for (reason, count) in &outcome.errors {
        // A reason may hold text of the broker.
        let reason = wire::text::EscapedText(reason);
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "{count} x {reason}");
    }
    text
}
