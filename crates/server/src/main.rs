//! The `forebay` binary: the command line, the allocator, the start of logging, and the broker that
//! `serve` runs. A panic ends the process.

use std::process::ExitCode;

use clap::Parser as _;
use server::cli::Cli;
use server::config::{Settings, StartWarnings, Warning};
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
    server::run::broker(settings)
}

/// Logs each setting that the operator has to look at, and how many others have no effect.
fn say(warnings: Vec<Warning>) {
    let said = StartWarnings::of(warnings);
    for warning in said.named {
        let Warning {
            key,
            why,
            origin,
            advice,
            ..
        } = warning;
        tracing::warn!(%key, %origin, %advice, "{why}");
    }
    if said.more > 0 {
        tracing::warn!(
            count = said.more,
            "more settings without the intended effect: `forebay config check FILE` and `forebay \
             config show --given` name them"
        );
    }
    if said.without_effect > 0 {
        tracing::info!(
            count = said.without_effect,
            "settings without effect: `forebay config check FILE` names them"
        );
    }
    if said.service_links > 0 {
        tracing::info!(
            count = said.service_links,
            "environment variables of a Kubernetes service called forebay are no settings"
        );
    }
}
