//! Runs a load as the command line describes it: from this host or many, checked or not, with a
//! ledger or without.
//!
//! Topics are created before the load and deleted after it, unless they existed before or a ledger
//! needs them later. A check ends by reading everything (`verify/sweep.rs`) while the topics still
//! exist.

use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, ensure};

use crate::agent::Hosts;
use crate::load::{self, Control, HostShare, Security, topics};
use crate::outcome::LoadOutcome;
use crate::spec::Load;
use crate::verify::ledger::Ledger;
use crate::verify::session::Session;
use crate::verify::{self, WrittenTopics, sound};

/// Runs a load; with a ledger it is always checked.
pub async fn run(
    bootstrap: &str,
    load: &Load,
    control: &Control,
    hosts: Option<&mut Hosts>,
    ledger: Option<&Path>,
) -> anyhow::Result<LoadOutcome> {
    let checks = load.verify || ledger.is_some();
    if hosts.is_none() && !checks {
        return load::run(bootstrap, load, control).await;
    }
    ensure!(
        control.host == HostShare::default(),
        "a share of a load is not divided again"
    );
    let session = match ledger {
        _ if !checks => None,
        Some(file) => Some(next_run(file, load)?),
        None => Some(Session::of(verify::random_id(), 1)),
    };
    let makes = !load.topics.existing;
    let security = &Security::open(load.security.as_deref())?;
    if makes && ledger.is_some() {
        topics::create_missing(bootstrap, security, &load.topics).await?;
    } else if makes {
        topics::create(bootstrap, security, &load.topics).await?;
    }
    let mut ours = load.clone();
    ours.topics.existing = true;
    ours.verify = checks;
    let ran = with_topics(bootstrap, &ours, control, hosts, session.map(Arc::new)).await;
    if !makes || ledger.is_some() {
        return ran;
    }
    let deleted = topics::delete(bootstrap, security, &load.topics).await;
    let mut outcome = ran?;
    if let Err(error) = deleted {
        let what = format!("deleting the topics: {error:#}");
        outcome.errors.insert(what, 1);
    }
    Ok(outcome)
}

fn next_run(file: &Path, load: &Load) -> anyhow::Result<Session> {
    let ledger = Ledger::open(file, &load.topics, verify::random_id())?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_ms = now.context("a clock before 1970")?.as_millis();
    Session::next(ledger, i64::try_from(now_ms)?)
}

async fn with_topics(
    bootstrap: &str,
    load: &Load,
    control: &Control,
    hosts: Option<&mut Hosts>,
    session: Option<Arc<Session>>,
) -> anyhow::Result<LoadOutcome> {
    let mut outcome = if let Some(hosts) = hosts {
        let numbering = session.as_ref().map(|session| session.identity());
        let (outcome, acknowledged) = hosts.run(bootstrap, load, control, numbering).await?;
        if let Some(session) = &session {
            session.acknowledged_elsewhere(&acknowledged);
        }
        outcome
    } else {
        let control = Control {
            verification: session.clone().map(|session| session as _),
            ..control.clone()
        };
        load::run(bootstrap, load, &control).await?
    };
    if let Some(session) = session {
        let written = WrittenTopics {
            bootstrap,
            topics: &load.topics,
            security: load.security.as_deref(),
        };
        verify::finish(&written, &session, control, &mut outcome).await;
    }
    Ok(outcome)
}

/// Checks that everything a ledger lists as acknowledged can be read; writes no records.
pub async fn check(
    bootstrap: &str,
    security: Option<&Path>,
    file: &Path,
    control: &Control,
) -> anyhow::Result<LoadOutcome> {
    let ledger = Ledger::existing(file)?;
    let topics = ledger.subject().topics();
    let session = Session::closed(ledger);
    let mut outcome = LoadOutcome::default();
    let written = WrittenTopics {
        bootstrap,
        topics: &topics,
        security,
    };
    verify::finish(&written, &session, control, &mut outcome).await;
    Ok(outcome)
}

/// Returns an error with the counts if a check was not passed.
pub fn must_be_sound(outcome: &LoadOutcome) -> anyhow::Result<()> {
    let Some(verified) = &outcome.verified else {
        return Ok(());
    };
    ensure!(
        sound(verified),
        "not what was written: of {} acknowledged records {} lost, {} duplicated, {} disordered, {} damaged",
        verified.acknowledged,
        verified.lost,
        verified.duplicated,
        verified.disordered,
        verified.damaged
    );
    Ok(())
}
