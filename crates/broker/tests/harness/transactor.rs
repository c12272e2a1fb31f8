//! A transactional producer, of either version of the protocol, and what readers of committed
//! records see.

use wire::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use wire::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use wire::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, EndTxnRequest, FindCoordinatorRequest,
    GroupId, InitProducerIdRequest, TransactionalId, TxnOffsetCommitRequest,
};
use wire::types::ErrorCode;

use super::Cluster;
use super::asks::{error, fetch, outcome, partitions, produce, text, topic_name};
use super::batches::{read, transactional_in};

/// How often it tries again on a retriable error.
const ATTEMPTS: usize = 200;

/// A producer with a transactional id.
pub(crate) struct Transactor<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) id: TransactionalId,
    pub(crate) producer: (i64, i16),
    /// Sequences by partition of the only topic, `t`.
    sequences: [i32; 4],
    /// Speaks version 2 of the transaction protocol.
    newer: bool,
}

impl<'a> Transactor<'a> {
    /// Finds its coordinator and begins; patient.
    pub(crate) async fn begin(cluster: &'a Cluster, id: &str, newer: bool) -> Self {
        let find = FindCoordinatorRequest::default()
            .with_key_type(1)
            .with_coordinator_keys(vec![text(id)]);
        let found = cluster.ask(4, &find).await;
        assert_eq!(error(found.coordinators[0].error_code), None);
        let id = TransactionalId(text(id));
        let mut last = None;
        for _ in 0..ATTEMPTS {
            match Self::try_begin(cluster, &id).await {
                Ok(producer) => {
                    return Self {
                        cluster,
                        id,
                        producer,
                        sequences: [0; 4],
                        newer,
                    };
                }
                Err(
                    code @ (ErrorCode::ConcurrentTransactions
                    | ErrorCode::CoordinatorLoadInProgress),
                ) => {
                    last = Some(code);
                    cluster.pass_ms(20).await;
                }
                Err(code) => panic!("beginning: {code:?}"),
            }
        }
        panic!("no transactional producer: {last:?}");
    }

    /// Its id and epoch.
    pub(crate) fn producer(&self) -> (i64, i16) {
        self.producer
    }

    /// A producer that was there before the broker's restart, and had sent this number of records
    /// to partition 0.
    pub(crate) fn resumed(
        cluster: &'a Cluster,
        id: &str,
        producer: (i64, i16),
        newer: bool,
        sent: i32,
    ) -> Self {
        Self {
            cluster,
            id: TransactionalId(text(id)),
            producer,
            sequences: [sent, 0, 0, 0],
            newer,
        }
    }

    /// As [`Transactor::begin`], on a broker that may fail.
    pub(crate) async fn try_begin_patiently(
        cluster: &'a Cluster,
        id: &str,
        newer: bool,
    ) -> Option<Self> {
        let find = FindCoordinatorRequest::default()
            .with_key_type(1)
            .with_coordinator_keys(vec![text(id)]);
        for _ in 0..ATTEMPTS {
            let found = cluster.ask(4, &find).await;
            if error(found.coordinators[0].error_code).is_some() {
                return None;
            }
            match Self::try_begin(cluster, &TransactionalId(text(id))).await {
                Ok(producer) => return Some(Self::resumed(cluster, id, producer, newer, 0)),
                Err(ErrorCode::ConcurrentTransactions | ErrorCode::CoordinatorLoadInProgress) => {
                    cluster.pass_ms(20).await;
                }
                Err(_) => return None,
            }
        }
        None
    }

    /// Begins, once.
    pub(crate) async fn try_begin(
        cluster: &Cluster,
        id: &TransactionalId,
    ) -> Result<(i64, i16), ErrorCode> {
        let request = InitProducerIdRequest::default()
            .with_transactional_id(Some(id.clone()))
            .with_transaction_timeout_ms(60_000)
            .with_producer_id((-1).into())
            .with_producer_epoch(-1);
        let answer = cluster.ask(4, &request).await;
        match error(answer.error_code) {
            None => Ok((answer.producer_id.0, answer.producer_epoch)),
            Some(code) => Err(code),
        }
    }

    /// Takes a partition in, where that is the producer's own business.
    pub(crate) async fn add(&self, partition: i32) -> Result<(), ErrorCode> {
        if self.newer {
            return Ok(());
        }
        let topic = AddPartitionsToTxnTopic::default()
            .with_name(topic_name("t"))
            .with_partitions(vec![partition]);
        let request = AddPartitionsToTxnRequest::default()
            .with_v3_and_below_transactional_id(self.id.clone())
            .with_v3_and_below_producer_id(self.producer.0.into())
            .with_v3_and_below_producer_epoch(self.producer.1)
            .with_v3_and_below_topics(vec![topic]);
        for _ in 0..ATTEMPTS {
            let answer = self.cluster.ask(3, &request).await;
            let result = &answer.results_by_topic_v3_and_below[0].results_by_partition[0];
            match error(result.partition_error_code) {
                None => return Ok(()),
                Some(ErrorCode::ConcurrentTransactions) => self.cluster.pass_ms(20).await,
                Some(code) => return Err(code),
            }
        }
        Err(ErrorCode::ConcurrentTransactions)
    }

    /// Sends a batch that belongs to the transaction.
    pub(crate) async fn send(&mut self, partition: i32, values: &[&str]) -> Result<i64, ErrorCode> {
        let index = usize::try_from(partition).unwrap();
        let records = transactional_in(self.producer, self.sequences[index], values);
        let request =
            produce("t", -1, &[(partition, records)]).with_transactional_id(Some(self.id.clone()));
        let version = if self.newer { 12 } else { 11 };
        let mut answer = self.cluster.ask(version, &request).await;
        let answer = answer.responses.remove(0).partition_responses.remove(0);
        let sent = outcome(&answer);
        if sent.is_ok() {
            self.sequences[index] += i32::try_from(values.len()).unwrap();
        }
        sent
    }

    /// Takes a partition in and sends.
    pub(crate) async fn write(&mut self, partition: i32, values: &[&str]) {
        self.add(partition).await.expect("a transaction");
        self.send(partition, values).await.expect("an append");
    }

    /// Commits a position of a group with the transaction.
    pub(crate) async fn send_offset(&self, group: &str, offset: i64) -> Option<ErrorCode> {
        let find = FindCoordinatorRequest::default().with_coordinator_keys(vec![text(group)]);
        self.cluster.ask(4, &find).await;
        if !self.newer {
            let request = AddOffsetsToTxnRequest::default()
                .with_transactional_id(self.id.clone())
                .with_producer_id(self.producer.0.into())
                .with_producer_epoch(self.producer.1)
                .with_group_id(GroupId(text(group)));
            let added = error(self.cluster.ask(3, &request).await.error_code);
            if added.is_some() {
                return added;
            }
        }
        let partition = TxnOffsetCommitRequestPartition::default()
            .with_partition_index(0)
            .with_committed_offset(offset);
        let topic = TxnOffsetCommitRequestTopic::default()
            .with_name(topic_name("t"))
            .with_partitions(vec![partition]);
        let request = TxnOffsetCommitRequest::default()
            .with_transactional_id(self.id.clone())
            .with_group_id(GroupId(text(group)))
            .with_producer_id(self.producer.0.into())
            .with_producer_epoch(self.producer.1)
            .with_generation_id(-1)
            .with_topics(vec![topic]);
        let version = if self.newer { 5 } else { 3 };
        for _ in 0..ATTEMPTS {
            let answer = self.cluster.ask(version, &request).await;
            match error(answer.topics[0].partitions[0].error_code) {
                Some(ErrorCode::CoordinatorLoadInProgress) => self.cluster.pass_ms(20).await,
                code => return code,
            }
        }
        Some(ErrorCode::CoordinatorLoadInProgress)
    }

    /// Commits or aborts; patient. An error is the last one.
    pub(crate) async fn end(&mut self, commit: bool) -> Result<(), ErrorCode> {
        let request = EndTxnRequest::default()
            .with_transactional_id(self.id.clone())
            .with_producer_id(self.producer.0.into())
            .with_producer_epoch(self.producer.1)
            .with_committed(commit);
        let version = if self.newer { 5 } else { 4 };
        for _ in 0..ATTEMPTS {
            let answer = self.cluster.ask(version, &request).await;
            match error(answer.error_code) {
                None => {
                    if self.newer {
                        let next = (answer.producer_id.0, answer.producer_epoch);
                        assert_ne!(next, self.producer, "each transaction has its epoch");
                        self.producer = next;
                        self.sequences = [0; 4];
                    }
                    return Ok(());
                }
                Some(ErrorCode::ConcurrentTransactions) => self.cluster.pass_ms(20).await,
                Some(code) => return Err(code),
            }
        }
        Err(ErrorCode::ConcurrentTransactions)
    }
}

impl Cluster {
    /// What a reader of committed records finds in a partition of `t`, and whether it has come to
    /// the end: a transaction that is open holds it back.
    pub(crate) async fn committed_values(&self, partition: i32) -> (Vec<String>, bool) {
        let (mut next, end) = (0, self.offset("t", partition, -1).await);
        let mut values = Vec::new();
        while next < end {
            let request = fetch("t", &[(partition, next)])
                .with_isolation_level(1)
                .with_max_wait_ms(10);
            let answer = self.ask(12, &request).await;
            let found = partitions(&answer)[0];
            assert_eq!(error(found.error_code), None);
            let bytes = found.records.clone().unwrap_or_default();
            let aborted = found.aborted_transactions.iter().flatten();
            let aborted: Vec<_> = aborted
                .map(|it| (it.producer_id.0, it.first_offset))
                .collect();
            let Some((last, some)) = read_committed(&bytes, &aborted) else {
                return (values, false);
            };
            values.extend(some.into_iter().filter(|it| it.0 >= next).map(|it| it.1));
            next = last + 1;
        }
        (values, true)
    }

    /// The same, once nothing is open any more.
    pub(crate) async fn settled_values(&self, partition: i32) -> Vec<String> {
        for _ in 0..ATTEMPTS {
            if let (values, true) = self.committed_values(partition).await {
                return values;
            }
            self.pass_ms(20).await;
        }
        panic!("a transaction in partition {partition} never ends");
    }
}

/// As clients do it: the records that count, and the last offset.
fn read_committed(
    bytes: &bytes::Bytes,
    aborted: &[(i64, i64)],
) -> Option<(i64, Vec<(i64, String)>)> {
    let mut open: Vec<(i64, i64)> = aborted.to_vec();
    let mut last = None;
    let mut found = Vec::new();
    for batch in wire::batch::Batches::new(bytes) {
        let Ok((header, batch)) = batch else { break };
        last = Some(header.last_offset().0);
        let producer = header.producer_id.0;
        if header.is_control() {
            open.retain(|(id, first)| *id != producer || *first > header.base_offset.0);
            continue;
        }
        let is_aborted = header.is_transactional()
            && open
                .iter()
                .any(|(id, first)| *id == producer && *first <= header.base_offset.0);
        if !is_aborted {
            found.extend(read(&bytes.slice_ref(batch)));
        }
    }
    last.map(|last| (last, found))
}
