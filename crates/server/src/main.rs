//! The `forebay` binary: the command line, the allocator, the start of logging, and the broker that
//! `serve` runs. A panic ends the process.

use std::process::ExitCode;

use clap::Parser as _;
use server::assemble::BrokerAssembly;
use server::cli::Cli;
use server::config::{Effect, Settings, Warning};
use server::logging;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    Cli::parse().run(serve)
}

fn serve(settings: Settings, warnings: Vec<Warning>) -> anyhow::Result<()> {
    logging::begin(&settings)?;
    logging::abort_on_panic();
    let (version, commit) = (server::version::VERSION, server::version::COMMIT);
    tracing::info!(version, commit, pid = std::process::id(), "forebay");
    say(warnings);
    server::serve::run(settings, |prepared| Ok(BrokerAssembly::new(prepared)))
}

/// Logs each setting that changes what clients see, and how many others have no effect.
fn say(warnings: Vec<Warning>) {
    let (seen, rest): (Vec<_>, Vec<_>) = warnings
        .into_iter()
        .partition(|warning: &Warning| warning.effect == Effect::Clients);
    for Warning {
        key,
        why,
        origin,
        advice,
        ..
    } in seen
    {
        tracing::warn!(%key, %origin, %advice, "{why}");
    }
    if !rest.is_empty() {
        tracing::info!(
            count = rest.len(),
            "settings without effect: `forebay config check FILE` names them"
        );
    }
}
