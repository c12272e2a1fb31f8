//! The load generator: runs a load against a broker and returns its outcome.
//!
//! [`run`] is the entry point. A load is divided among producers and consumers (`plan`), each a
//! task on one of a few threads (`native`). They are light, so that the broker is measured and not
//! the generator: records are encoded once and sent repeatedly (`encode`), and only the headers of
//! fetched records are parsed (`fetch_wire`). A load with a rate is an open loop: latency counts
//! from the time at which a record was due (`pace`). Not here: the check of every record (behind
//! [`hook`]), the coordination of hosts, the definition of a load (`spec`).

use anyhow::{Context as _, bail};

mod alarm;
mod batch;
mod by_key;
mod check;
mod checksum;
mod client;
mod cluster;
mod connecting;
mod consume;
mod consumer;
pub mod control;
mod cost;
mod curve;
mod encode;
mod fetch_wire;
pub mod handshakes;
pub mod hook;
mod lane;
#[cfg(feature = "librdkafka")]
mod librdkafka;
pub mod log_dirs;
mod login;
mod murmur;
mod native;
mod pace;
mod payload;
mod places;
mod plan;
mod produce;
mod produce_wire;
mod producer;
pub mod schedule;
pub mod security;
pub(crate) mod stream;
mod tally;
pub mod topics;
pub(crate) mod transport;
mod worker;

pub use control::{Control, HostShare, Stop};
pub use hook::PartitionPlace;
pub use security::Security;

use crate::outcome::LoadOutcome;
use crate::spec::{Driver, Load};

/// What a build without the driver says.
const NO_LIBRDKAFKA: &str = "there is no driver of librdkafka in this build: cargo build --release \
                             -p forebay-server --features librdkafka";

/// Runs a load against the broker at `bootstrap` (`host:port`, several comma-separated).
///
/// Creates the topics before and deletes them after, unless they exist or many hosts share the load
/// ([`Control::host`]). Errors during the run are counted in the outcome; an error is returned only
/// if the load could not run.
pub async fn run(bootstrap: &str, load: &Load, control: &Control) -> anyhow::Result<LoadOutcome> {
    let verification = control.verification.as_ref().filter(|_| load.verify);
    if load.verify && verification.is_none() {
        bail!("the load is to be checked, and nobody is there to check it");
    }
    let value_bytes_min = verification.map_or(0, |check| check.value_bytes_min());
    check::check(load, value_bytes_min)?;
    if load.driver == Driver::Librdkafka && !cfg!(feature = "librdkafka") {
        bail!("{NO_LIBRDKAFKA}");
    }
    let security = &Security::open(load.security.as_deref())?;
    check::check_security(load, security)?;
    let makes = !load.topics.existing && control.host.of == 1;
    let topics = if load.topics.existing {
        topics::existing(bootstrap, security, &load.topics).await?
    } else {
        topics::names(&load.topics)
    };
    if makes {
        topics::create(bootstrap, security, &load.topics).await?;
    }
    let ran = native::run(bootstrap, security, load, control, &topics).await;
    if makes {
        let deleted = topics::delete(bootstrap, security, &load.topics).await;
        let mut outcome = ran?;
        if let Err(error) = deleted {
            outcome
                .errors
                .insert(format!("deleting the topics: {error:#}"), 1);
        }
        return Ok(checked(outcome, control, load));
    }
    Ok(checked(ran?, control, load))
}

#[cfg(feature = "librdkafka")]
use librdkafka::run as ordinary;

/// Never called: [`run`] has already refused the load.
#[cfg(not(feature = "librdkafka"))]
fn ordinary(_part: native::Part) -> anyhow::Result<native::ThreadResult> {
    bail!("{NO_LIBRDKAFKA}")
}

fn checked(mut outcome: LoadOutcome, control: &Control, load: &Load) -> LoadOutcome {
    let verification = control.verification.as_ref().filter(|_| load.verify);
    outcome.verified = verification.map(|verification| verification.verified());
    outcome
}

/// Calls [`run`] for callers without a runtime.
pub fn run_blocking(
    bootstrap: &str,
    load: &Load,
    control: &Control,
) -> anyhow::Result<LoadOutcome> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime
        .context("starting a runtime")?
        .block_on(run(bootstrap, load, control))
}
