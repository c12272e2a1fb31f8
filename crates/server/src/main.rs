//! The `forebay` binary: the command line, the allocator, the start of logging, and the broker that
//! `serve` runs. A panic ends the process.

use std::process::ExitCode;

use clap::Parser as _;
use server::assemble::BrokerAssembly;
use server::cli::Cli;
use server::config::{Settings, Warning};
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
    for Warning { key, why, origin } in warnings {
        tracing::warn!(%key, %origin, "{why}");
    }
    server::serve::run(settings, |prepared| Ok(BrokerAssembly::new(prepared)))
}
