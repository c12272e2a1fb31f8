//! `Produce` (key 0), versions 3-13: appends batches and answers when they are as durable as the
//! producer asked.
//!
//! All appends of a request begin before any of them waits, in the order of the request, so that
//! overlapping requests of a connection keep their order. If there are many batches, or they are
//! large when decompressed, the shard yields in between, and the later requests of the connection
//! wait until all of them have begun ([`crate::lines`]). `acks=0` gets no response (a failure
//! closes the connection), `acks=1` waits for the write, `acks=all` for the high watermark. A
//! transactional request does not overlap, because its first batches in a partition wait for the
//! coordinator. Clients cannot write to the coordinators' topics. Version 8 added errors by record,
//! 10 the current leader, 13 topic ids.
//!
//! A client needs the right to write to each topic. If a batch belongs to a transaction, it also
//! needs that right on the transactional id: without it the whole request is refused, as in Kafka.
//! A batch that begins after a wait (for the coordinator, for its turn to be judged, or behind such
//! a batch) begins only if the client still has these rights.

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use platform::Platform;
use platform::clock::Instant;
use platform::task::elsewhere;
use wire::acl::Operation;
use wire::batch::{BatchError, WholeBatch};
use wire::kafka::Api;
use wire::kafka::RequestHeader;
use wire::kafka::produce::{
    CurrentLeader, ProducePartitionResponse, ProduceRequest, ProduceResponse, ProduceTopic,
    ProduceTopicResponse,
};
use wire::protocol::StrBytes;
use wire::types::{ErrorCode, LeaderEpoch, Offset, TopicId};

use crate::Broker;
use crate::access::Access;
use crate::dispatch::{CloseReason, Reply};
use crate::error::AppendError;
use crate::fetch_session::TopicKey;
use crate::handler::Context;
use crate::metrics::ErrorTally;
use crate::network::network;
use crate::partition::{AcceptedAppend, Acks, JudgingError, Partition, TransactionProof};
use crate::quota::{Charge, QuotaKind, RequestTime, wire_ms};
use crate::route::{ItemStart, Target, at_partitions_in_line};
use crate::topic_rights::TopicRight;
use crate::transaction::admit;

mod extent;
mod kept;
mod rights;

use extent::{Extent, count, worth};
use kept::{ReadBudget, TopicReader};
use rights::WriteRights;

/// The result of one partition.
type AppendResult = Result<(AcceptedAppend, Offset), ProduceRefusal>;

/// Why an append was refused, and the partition's current leader epoch.
struct ProduceRefusal {
    error: AppendError,
    leader_epoch: LeaderEpoch,
}

/// The reply to a producer.
enum ProduceReply {
    /// A response.
    Answer(ProduceResponse),
    /// No response, as the producer asked (`acks=0`).
    Silence,
    /// The connection is closed: a producer without responses cannot learn of a failure in another
    /// way.
    Hangup(ErrorCode),
}

/// Appends, and charges the producer for the bytes of its request. Without a response (`acks=0`)
/// its time is free, as in Kafka.
pub(crate) async fn respond<P: Platform>(
    broker: &Rc<Broker<P>>,
    (context, access): (&Context, &Access),
    busy: &RequestTime,
    header: &RequestHeader,
    body: Bytes,
) -> Result<Reply, Box<CloseReason>> {
    let (version, id) = (header.version, header.correlation_id);
    let asked = ProduceRequest::decode(&body, version);
    let asked = asked.map_err(|source| CloseReason::malformed(header, source))?;
    // The frame's memory is free for the next request once the records are in the log's memory.
    drop(body);
    let outcome = if access.is_limited() && rights::lacks_transaction(access, &asked) {
        refused_whole(broker, asked, ErrorCode::TransactionalIdAuthorizationFailed)
    } else {
        let sender = (context.client_id.as_str(), context.peer);
        handle(broker, access, asked, version, sender).await
    };
    #[allow(clippy::cast_precision_loss, reason = "frames are far smaller")]
    let bytes = context.frame_bytes as f64;
    let mut pause = broker
        .charge(QuotaKind::Produce, context, bytes, Charge::Used)
        .await;
    match outcome {
        ProduceReply::Answer(mut response) => {
            let time = broker.charge(QuotaKind::Request, context, busy.percent(), Charge::Used);
            pause = pause.max(time.await);
            response.throttle_time_ms = wire_ms(pause);
            let response = response.encode(version, id)?;
            Ok(if pause.is_zero() {
                Reply::Send(response)
            } else {
                Reply::Pause(Some(response), pause)
            })
        }
        ProduceReply::Silence if pause.is_zero() => Ok(Reply::Nothing),
        ProduceReply::Silence => Ok(Reply::Pause(None, pause)),
        ProduceReply::Hangup(code) => Err(CloseReason::Unanswered(code).into()),
    }
}

async fn handle<P: Platform>(
    broker: &Rc<Broker<P>>,
    access: &Access,
    request: ProduceRequest,
    version: i16,
    (client, peer): (&str, SocketAddr),
) -> ProduceReply {
    let acks = acks_of(request.acks);
    let timeout = Duration::from_millis(u64::try_from(request.timeout_ms).unwrap_or(0));
    let now = broker.platform.clock().now();
    // A timeout that the clock cannot represent has expired.
    let after = |wait| now.checked_add(wait).unwrap_or(now);
    let (deadline, judged_until) = (after(timeout), after(JUDGED_MAX));
    let ProduceRequest {
        topics,
        transactional_id,
        ..
    } = request;
    let by_id = version >= 13;
    let (named, mut items) = listed(broker, (client, access), topics, by_id, acks);
    if let Some(id) = &transactional_id {
        // Boxed, so that this does not enlarge the futures of requests without a transaction.
        Box::pin(admit(broker, id.as_str(), version, &mut items)).await;
    }
    let (in_transaction, acks) = (transactional_id.is_some(), acks.unwrap_or(Acks::Leader));
    let rights = WriteRights::of(access, transactional_id);
    let appended = at_partitions_in_line(
        broker,
        Some(peer),
        items,
        move |broker, partition, (records, verified)| {
            // Outside the future, so that the appends begin in the order of the request.
            let terms = Terms {
                judged_until,
                peer: peer.ip(),
                verified,
                zstd: version >= 7,
                in_transaction,
            };
            let until = (acks, deadline);
            start(broker, partition, &records, (terms, &rights), until)
        },
    );
    let appended = appended.await;
    if acks == Acks::None {
        return appended
            .iter()
            .find_map(failure)
            .map_or(ProduceReply::Silence, ProduceReply::Hangup);
    }
    ProduceReply::Answer(answered(broker, named, appended))
}

/// A batch of a request: its partition, or why it is refused, and what it is.
type ProduceItem = (Result<Target, ErrorCode>, (Bytes, TransactionProof));

/// Returns what a request names, and its batches in the same order.
///
/// Apart from the future that waits, which what is needed here would enlarge.
fn listed<P: Platform>(
    broker: &Broker<P>,
    (client, access): (&str, &Access),
    topics: Vec<ProduceTopic>,
    by_id: bool,
    acks: Result<Acks, ErrorCode>,
) -> (ProduceTopics, Vec<ProduceItem>) {
    let mut named = Vec::with_capacity(topics.len());
    let (mut items, mut left) = (Vec::new(), ReadBudget::default());
    let mut right = TopicRight::new(access, Operation::Write);
    for topic in topics {
        let key = TopicKey::from_wire(by_id, &topic.name, topic.topic_id);
        let allowed = right.check(broker, &key);
        let kept = allowed.and_then(|()| TopicReader::of(broker, &key, client));
        let mut indexes = Vec::with_capacity(topic.partitions.len());
        for partition in topic.partitions {
            indexes.push(partition.index);
            let target = allowed
                .and(acks)
                .and_then(|_| broker.target(&key, partition.index));
            let records = partition.records.unwrap_or_default();
            let open = kept.and_then(|kept| kept.check(&records, &mut left));
            let target = target.and_then(|target| open.map(|()| target));
            items.push((target, (records, TransactionProof::Unasked)));
        }
        named.push((topic.name, topic.topic_id, indexes));
    }
    (named, items)
}

/// Returns the reply to a request that is refused as a whole.
fn refused_whole<P: Platform>(
    broker: &Broker<P>,
    request: ProduceRequest,
    code: ErrorCode,
) -> ProduceReply {
    if request.acks == 0 {
        return ProduceReply::Hangup(code);
    }
    let named = request.topics.into_iter().map(|topic| {
        let indexes = topic.partitions.iter().map(|partition| partition.index);
        (topic.name, topic.topic_id, indexes.collect())
    });
    let named: ProduceTopics = named.collect();
    let all = named.iter().flat_map(|(_, _, indexes)| indexes);
    let refused = all.map(|_| Err(code)).collect();
    ProduceReply::Answer(answered(broker, named, refused))
}

/// The topics of a request, each with its partitions.
type ProduceTopics = Vec<(StrBytes, TopicId, Vec<i32>)>;

fn answered<P: Platform>(
    broker: &Broker<P>,
    named: ProduceTopics,
    appended: Vec<Result<AppendResult, ErrorCode>>,
) -> ProduceResponse {
    let mut appended = appended.into_iter();
    let mut errors = ErrorTally::default();
    let topics = named.into_iter().map(|(name, topic_id, indexes)| {
        let answers = indexes.into_iter().zip(appended.by_ref());
        let partitions =
            answers.map(|(index, answer)| partition_response(broker, index, answer, &mut errors));
        ProduceTopicResponse {
            name,
            topic_id,
            partitions: partitions.collect(),
        }
    });
    let topics = topics.collect();
    broker.metrics.errors.count(Api::Produce, &errors);
    ProduceResponse {
        topics,
        ..ProduceResponse::default()
    }
}

fn acks_of(number: i16) -> Result<Acks, ErrorCode> {
    match number {
        0 => Ok(Acks::None),
        1 => Ok(Acks::Leader),
        -1 => Ok(Acks::All),
        _ => Err(ErrorCode::InvalidRequiredAcks),
    }
}

fn failure(appended: &Result<AppendResult, ErrorCode>) -> Option<ErrorCode> {
    match appended {
        Ok(Ok(_)) => None,
        Ok(Err(refused)) => Some(refused.error.code),
        Err(code) => Some(*code),
    }
}

/// Time limit for judging the slow batches of one request, whatever timeout the client gives: the
/// client may have disconnected.
const JUDGED_MAX: Duration = Duration::from_secs(30);

/// The parameters of a batch.
#[derive(Clone, Copy)]
struct Terms {
    /// A slow batch is not judged after this.
    judged_until: Instant,
    /// The address whose turn a slow batch takes.
    peer: IpAddr,
    verified: TransactionProof,
    /// True if the request may use this codec.
    zstd: bool,
    in_transaction: bool,
}

/// Begins an append: now, or after another thread has judged the batch.
#[allow(
    clippy::async_yields_async,
    reason = "the append has begun by then, and is waited for when those behind it have"
)]
fn start<P: Platform>(
    broker: Rc<Broker<P>>,
    partition: Rc<Partition<P>>,
    records: &Bytes,
    (terms, rights): (Terms, &WriteRights),
    (acks, deadline): (Acks, Instant),
) -> ItemStart<impl Future<Output = Result<AppendResult, ErrorCode>> + use<P>> {
    let bytes = records.len();
    let batch = WholeBatch::of_produced(records, terms.zstd);
    let extent = Extent::of(bytes, batch.as_ref().ok());
    let is_transactional = match &batch {
        Ok(batch) => batch.header().is_transactional(),
        // This error takes precedence over other defects of the batch.
        Err(_) => WholeBatch::claims_transaction(records),
    };
    if is_transactional && !terms.in_transaction {
        // The request names no transactional id, so no producer would ever end the transaction.
        let begun = Err(ErrorCode::TransactionalIdAuthorizationFailed.into());
        count(&partition, extent, &begun);
        let worth = worth(&begun, extent);
        return ItemStart::Now(worth, finish(partition, begun, acks, deadline));
    }
    let begun = match rights.check_again(&broker, &partition.name, is_transactional) {
        Ok(()) => begin(&broker, &partition, batch, terms),
        Err(code) => AppendStart::Done(Err(code.into())),
    };
    match begun {
        AppendStart::Done(begun) => {
            count(&partition, extent, &begun);
            let worth = worth(&begun, extent);
            ItemStart::Now(worth, finish(partition, begun, acks, deadline))
        }
        AppendStart::Heavy(batch) => {
            let terms = (terms, rights.clone());
            ItemStart::Later(Box::pin(async move {
                let begun = begin_heavy(&broker, &partition, batch, terms).await;
                count(&partition, extent, &begun);
                finish(partition, begun, acks, deadline)
            }))
        }
    }
}

/// The outcome of beginning an append.
#[allow(
    clippy::large_enum_variant,
    reason = "it is taken apart where it is made"
)]
enum AppendStart {
    /// The append has begun, or was refused.
    Done(Result<AcceptedAppend, AppendError>),
    /// The batch is slow to judge: see [`begin_heavy`].
    Heavy(WholeBatch),
}

/// Judges a batch and appends it.
fn begin<P: Platform>(
    broker: &Broker<P>,
    partition: &Partition<P>,
    batch: Result<WholeBatch, BatchError>,
    terms: Terms,
) -> AppendStart {
    let now_ms = broker.platform.clock().wall_ms();
    let judge = match partition.judge(now_ms) {
        Ok(judge) => judge,
        Err(error) => return AppendStart::Done(Err(error)),
    };
    let batch = match batch {
        Ok(batch) => batch,
        Err(error) => return AppendStart::Done(Err(error.into())),
    };
    match judge.little(&batch) {
        Ok(judged) => AppendStart::Done(partition.take(judged, terms.verified, now_ms)),
        Err(JudgingError::Refused(error)) => AppendStart::Done(Err(error.into())),
        Err(JudgingError::Heavy) => AppendStart::Heavy(batch),
    }
}

/// Judges a slow batch on another thread, one at a time, and appends it if its client may still
/// write there. The batches of one address take turns.
async fn begin_heavy<P: Platform>(
    broker: &Broker<P>,
    partition: &Partition<P>,
    batch: WholeBatch,
    (terms, rights): (Terms, WriteRights),
) -> Result<AcceptedAppend, AppendError> {
    let clock = broker.platform.clock();
    let turn = broker.judging.turn_of(&network(terms.peer)).await;
    if clock.now() > terms.judged_until {
        return Err(ErrorCode::RequestTimedOut.into());
    }
    let judge = partition.judge(clock.wall_ms())?;
    let is_transactional = batch.header().is_transactional();
    let judged = elsewhere(move || {
        // Held until the batch is judged, even if the request is dropped.
        let _turn = turn;
        judge.whole(&batch)
    });
    let judged = judged.await.ok_or(ErrorCode::UnknownServerError)??;
    rights.check_again(broker, &partition.name, is_transactional)?;
    partition.take(judged, terms.verified, clock.wall_ms())
}

async fn finish<P: Platform>(
    partition: Rc<Partition<P>>,
    begun: Result<AcceptedAppend, AppendError>,
    acks: Acks,
    deadline: Instant,
) -> Result<AppendResult, ErrorCode> {
    Ok(finished(&partition, begun, acks, deadline).await)
}

async fn finished<P: Platform>(
    partition: &Partition<P>,
    begun: Result<AcceptedAppend, AppendError>,
    acks: Acks,
    deadline: Instant,
) -> AppendResult {
    let refused = |error| ProduceRefusal {
        error,
        leader_epoch: partition.leader_epoch(),
    };
    let accepted = begun.map_err(refused)?;
    let safe = partition.acknowledged(accepted, acks, deadline).await;
    safe.map_err(|code| {
        partition.metrics.failed_produce_requests.add(1);
        refused(code.into())
    })?;
    Ok((accepted, partition.log.log_start_offset()))
}

fn partition_response<P: Platform>(
    broker: &Broker<P>,
    index: i32,
    answer: Result<AppendResult, ErrorCode>,
    errors: &mut ErrorTally,
) -> ProducePartitionResponse {
    let refused = match answer {
        Ok(Ok((accepted, log_start_offset))) => {
            return ProducePartitionResponse {
                index,
                error: None,
                base_offset: accepted.base_offset,
                log_append_time: accepted.log_append_time,
                log_start_offset,
                record_errors: Vec::new(),
                error_message: None,
                current_leader: None,
            };
        }
        Ok(Err(refused)) => refused,
        Err(code) => ProduceRefusal {
            error: code.into(),
            leader_epoch: LeaderEpoch::NONE,
        },
    };
    let ProduceRefusal {
        error,
        leader_epoch,
    } = refused;
    errors.note(error.code.code());
    let moved = error.code == ErrorCode::NotLeaderOrFollower && leader_epoch >= LeaderEpoch(0);
    let current_leader = moved.then_some(CurrentLeader {
        leader: broker.options.node_id,
        epoch: leader_epoch,
    });
    ProducePartitionResponse {
        record_errors: error.records,
        current_leader,
        ..ProducePartitionResponse::failed(index, error.code, error.message)
    }
}
