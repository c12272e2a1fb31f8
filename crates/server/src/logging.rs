//! Log lines: text or JSON, on standard error; and what happens when something panics.

use std::backtrace::Backtrace;
use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use crate::config::Settings;

/// Begins to log as the settings say. Once per process.
pub fn begin(settings: &Settings) -> anyhow::Result<()> {
    let filter: EnvFilter = settings.log_level.parse()?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal());
    let begun = if settings.log_json {
        lines.json().flatten_event(true).try_init()
    } else {
        lines.try_init()
    };
    begun.map_err(|error| anyhow::anyhow!("logging: {error}"))
}

/// Lets a panic on any thread end the process, with the reason in the log: a broker without one of
/// its shards would answer for some partitions and be silent about the others.
pub fn abort_on_panic() {
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let backtrace = Backtrace::force_capture();
        let thread = thread.name().unwrap_or("unnamed");
        tracing::error!(thread, %panic, %backtrace, "panic, the process ends");
        std::process::abort();
    }));
}
