//! `forebay txn describe`: the state of transactional ids.
//!
//! It asks the coordinator of each id. An error of one id goes to standard error, the others are
//! shown.

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use clap::Args;
use serde::Serialize;
use wire::messages::describe_transactions_response::TransactionState;
use wire::messages::{DescribeTransactionsRequest, TransactionalId};

use crate::ask::{Cluster, Coordinates, Failure, check, patiently, text};
use crate::moment;
use crate::outcome;
use crate::show::{Table, list, or_dash};
use crate::target::ChosenTarget;

#[derive(Debug, Args)]
pub(super) struct Describe {
    /// The transactional ids.
    #[arg(required = true)]
    ids: Vec<String>,
}

#[derive(Serialize)]
struct DescribedTransaction {
    transactional_id: String,
    coordinator: i32,
    producer_id: i64,
    producer_epoch: i16,
    state: String,
    timeout_ms: i32,
    /// `None` if no transaction is under way.
    start_ms: Option<i64>,
    running_ms: Option<i64>,
    topics: Vec<Topic>,
}

#[derive(Serialize)]
struct Topic {
    topic: String,
    partitions: Vec<i32>,
}

impl Describe {
    pub(super) fn run(&self, target: &ChosenTarget) -> anyhow::Result<ExitCode> {
        let mut cluster = target.cluster()?;
        let described = self.ids.iter().map(|id| describe(&mut cluster, id));
        let (described, failed) = outcome::found(described);
        target.format.show(&described, || {
            let texts: Vec<_> = described.iter().map(DescribedTransaction::text).collect();
            texts.join("\n")
        })?;
        Ok(outcome::exit_code(failed))
    }
}

fn describe(cluster: &mut Cluster, id: &str) -> anyhow::Result<DescribedTransaction> {
    let coordinator = cluster.coordinator(Coordinates::Transaction, id)?;
    let within = cluster.within();
    let broker = cluster.broker(coordinator)?;
    let request = DescribeTransactionsRequest::default()
        .with_transactional_ids(vec![TransactionalId(text(id))]);
    let state = patiently(within, || {
        let states = broker.ask_newest(&request)?.transaction_states;
        Ok(answered(states, id)?)
    });
    let state = state.with_context(|| format!("transactional id {id:?}"))?;
    let start = Some(state.transaction_start_time_ms).filter(|&start| start >= 0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
    let now = i64::try_from(now)?;
    let topics = state.topics.into_iter().map(|topic| Topic {
        topic: topic.topic.0.to_string(),
        partitions: topic.partitions,
    });
    Ok(DescribedTransaction {
        transactional_id: id.to_owned(),
        coordinator,
        producer_id: state.producer_id.0,
        producer_epoch: state.producer_epoch,
        state: state.transaction_state.to_string(),
        timeout_ms: state.transaction_timeout_ms,
        start_ms: start,
        running_ms: start.map(|start| (now - start).max(0)),
        topics: topics.collect(),
    })
}

/// Returns what the coordinator answered for the id.
fn answered(states: Vec<TransactionState>, id: &str) -> Result<TransactionState, Failure> {
    let mut states = states.into_iter();
    let state = states.find(|state| state.transactional_id.0.as_str() == id);
    let state = state.ok_or(Failure::LeftOut)?;
    check(state.error_code, None)?;
    Ok(state)
}

impl DescribedTransaction {
    fn text(&self) -> String {
        let mut table = Table::plain();
        let mut fact = |name: &str, value: String| table.row([name.to_owned(), value]);
        fact("TRANSACTIONAL-ID", self.transactional_id.clone());
        fact("COORDINATOR", self.coordinator.to_string());
        fact("PRODUCER-ID", self.producer_id.to_string());
        fact("PRODUCER-EPOCH", self.producer_epoch.to_string());
        fact("STATE", self.state.clone());
        fact("TIMEOUT-MS", self.timeout_ms.to_string());
        fact("START", or_dash(self.start_ms.map(moment::utc)));
        fact("RUNNING-MS", or_dash(self.running_ms));
        for topic in &self.topics {
            fact(
                "PARTITIONS",
                format!("{}:{}", topic.topic, list(&topic.partitions)),
            );
        }
        table.render()
    }
}

#[cfg(test)]
mod tests {
    use wire::types::ErrorCode;

    use super::*;

    #[test]
    fn the_state_of_another_id_is_no_answer() {
        let state = |id: &str, error: i16| {
            TransactionState::default()
                .with_transactional_id(TransactionalId(text(id)))
                .with_error_code(error)
        };
        let of = |id: &str| {
            let states = vec![state("a", 105), state("b", 0)];
            answered(states, id).map(|state| state.transactional_id.0.to_string())
        };
        assert_eq!(of("b"), Ok("b".to_owned()));
        let unknown = Err(ErrorCode::TransactionalIdNotFound.into());
        assert_eq!(of("a"), unknown);
        assert_eq!(of("c"), Err(Failure::LeftOut));
    }
}
