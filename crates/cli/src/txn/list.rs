//! `forebay txn list`: lists transactional ids.
//!
//! It asks every broker, because each knows only the ids that it coordinates.

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Args;
use serde::Serialize;
use wire::messages::{ListTransactionsRequest, ProducerId};

use crate::ask::{check, patiently, text};
use crate::show::Table;
use crate::target::ChosenTarget;

#[derive(Debug, Args)]
pub(super) struct List {
    /// Only ids in these states (Ongoing, `PrepareAbort`, ..).
    #[arg(long, value_delimiter = ',', value_name = "STATE")]
    state: Vec<String>,
    /// Only ids of these producers.
    #[arg(long, value_delimiter = ',', value_name = "ID")]
    producer_id: Vec<i64>,
    /// Only ids whose transaction has run for at least this long.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(i64).range(0..))]
    running_longer_than: Option<i64>,
}

#[derive(Serialize)]
struct ListedTransaction {
    transactional_id: String,
    coordinator: i32,
    producer_id: i64,
    state: String,
}

impl List {
    pub(super) fn run(&self, target: &ChosenTarget) -> anyhow::Result<ExitCode> {
        let mut cluster = target.cluster()?;
        let within = cluster.within();
        let states = self.state.iter().map(|state| text(state));
        let request = ListTransactionsRequest::default()
            .with_state_filters(states.collect())
            .with_producer_id_filters(self.producer_id.iter().copied().map(ProducerId).collect())
            .with_duration_filter(self.running_longer_than.unwrap_or(-1));
        let mut listed = Vec::new();
        for id in cluster.brokers()? {
            let broker = cluster.broker(id)?;
            let version = broker.version::<ListTransactionsRequest>()?;
            if version < 1 && self.running_longer_than.is_some() {
                bail!("broker {} does not filter by duration", broker.address());
            }
            let answer = patiently(within, || {
                let answer = broker.ask(version, &request)?;
                check(answer.error_code, None)?;
                Ok(answer)
            });
            let answer = answer.with_context(|| format!("transactions of broker {id}"))?;
            if let Some(unknown) = answer.unknown_state_filters.first() {
                bail!("{unknown:?} is no state of a transaction");
            }
            listed.extend(
                answer
                    .transaction_states
                    .into_iter()
                    .map(|state| ListedTransaction {
                        transactional_id: state.transactional_id.0.to_string(),
                        coordinator: id,
                        producer_id: state.producer_id.0,
                        state: state.transaction_state.to_string(),
                    }),
            );
        }
        listed.sort_by(|one, other| one.transactional_id.cmp(&other.transactional_id));
        target.format.show(&listed, || {
            let mut table =
                Table::headed(&["TRANSACTIONAL-ID", "COORDINATOR", "PRODUCER-ID", "STATE"]);
            for one in &listed {
                table.row([
                    one.transactional_id.clone(),
                    one.coordinator.to_string(),
                    one.producer_id.to_string(),
                    one.state.clone(),
                ]);
            }
            table.render()
        })?;
        Ok(ExitCode::SUCCESS)
    }
}
