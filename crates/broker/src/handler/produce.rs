//! `Produce` (key 0), versions 3-13: appends batches and answers when they are as safe as the producer asked.
//!
//! All appends of a request are begun before anything waits, in the order of the request, so that requests that
//! overlap on a connection keep their order. Where they are so many, or so much when decompressed, that others must have
//! their turn in between, the requests behind wait until they have begun ([`crate::lines`]). `acks=0` is not answered (a failure ends the connection), `acks=1` waits for the write, `acks=all` for the
//! high watermark. A request of a transaction runs alone, because its first batches in a partition wait for the
//! coordinator. Topics of the coordinators are closed to clients. Version 8 brought errors by record, 10 the current
//! leader, 13 topic ids.

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use platform::Platform;
use platform::clock::Instant;
use platform::task::elsewhere;
use wire::batch::{BatchError, WholeBatch};
use wire::kafka::produce::{
    CurrentLeader, ProducePartitionResponse, ProduceRequest, ProduceResponse, ProduceTopicResponse,
};
use wire::protocol::StrBytes;
use wire::types::{ErrorCode, LeaderEpoch, Offset, TopicId};

use crate::Broker;
use crate::error::AppendError;
use crate::fetch_session::TopicKey;
use crate::network::network;
use crate::partition::{Accepted, Acks, Partition, Unjudged, Verified};
use crate::route::{Begun, at_partitions_in_line};
use crate::transaction::admit;

/// Bytes of records, decompressed, that take as long as another item of a request.
const ITEM_BYTES: usize = 16 << 10;

mod kept;

use kept::{Kept, Left};

/// What one partition answers.
type Appended = Result<(Accepted, Offset), Refused>;

/// Why an append was refused, and who leads the partition now.
struct Refused {
    error: AppendError,
    leader_epoch: LeaderEpoch,
}

/// What a producer gets.
pub(crate) enum Outcome {
    /// An answer.
    Answer(ProduceResponse),
    /// Nothing, as it asked (`acks=0`).
    Silence,
    /// The end of the connection: of a failure that is not answered it learns in no other way.
    Hangup(ErrorCode),
}

pub(crate) async fn handle<P: Platform>(
    broker: &Rc<Broker<P>>,
    request: ProduceRequest,
    version: i16,
    (client, peer): (&str, SocketAddr),
) -> Outcome {
    let acks = acks_of(request.acks);
    let timeout = Duration::from_millis(u64::try_from(request.timeout_ms).unwrap_or(0));
    let now = broker.platform.clock().now();
    // A timeout that no clock can hold is over at once.
    let after = |wait| now.checked_add(wait).unwrap_or(now);
    let (deadline, judged_until) = (after(timeout), after(JUDGED_MAX));
    let ProduceRequest {
        topics,
        transactional_id,
        ..
    } = request;
    let mut named = Vec::with_capacity(topics.len());
    let (mut items, mut left) = (Vec::new(), Left::default());
    for topic in topics {
        let key = TopicKey::from_wire(version >= 13, &topic.name, topic.topic_id);
        let kept = Kept::of(broker, &key, client);
        let mut indexes = Vec::with_capacity(topic.partitions.len());
        for partition in topic.partitions {
            indexes.push(partition.index);
            let target = acks.and_then(|_| broker.target(&key, partition.index));
            let records = partition.records.unwrap_or_default();
            let open = kept.and_then(|kept| kept.check(&records, &mut left));
            let target = target.and_then(|target| open.map(|()| target));
            items.push((target, (records, Verified::Unasked)));
        }
        named.push((topic.name, topic.topic_id, indexes));
    }
    if let Some(id) = &transactional_id {
        // Boxed, so that requests without a transaction do not grow by what this needs.
        Box::pin(admit(broker, id.as_str(), version, &mut items)).await;
    }
    let in_transaction = transactional_id.is_some();
    let acks = acks.unwrap_or(Acks::Leader);
    let appended = at_partitions_in_line(
        broker,
        Some(peer),
        items,
        move |broker, partition, (records, verified)| {
            // Outside the future: begun now, in order.
            let terms = Terms {
                judged_until,
                peer: peer.ip(),
                verified,
                zstd: version >= 7,
                in_transaction,
            };
            start(broker, partition, &records, terms, (acks, deadline))
        },
    );
    let appended = appended.await;
    if acks == Acks::None {
        return appended
            .iter()
            .find_map(failure)
            .map_or(Outcome::Silence, Outcome::Hangup);
    }
    Outcome::Answer(answered(broker, named, appended))
}

/// The topics of a request, each with its partitions.
type Named = Vec<(StrBytes, TopicId, Vec<i32>)>;

fn answered<P: Platform>(
    broker: &Broker<P>,
    named: Named,
    appended: Vec<Result<Appended, ErrorCode>>,
) -> ProduceResponse {
    let mut appended = appended.into_iter();
    let topics = named.into_iter().map(|(name, topic_id, indexes)| {
        let answers = indexes.into_iter().zip(appended.by_ref());
        let partitions = answers.map(|(index, answer)| partition_response(broker, index, answer));
        ProduceTopicResponse {
            name,
            topic_id,
            partitions: partitions.collect(),
        }
    });
    ProduceResponse {
        topics: topics.collect(),
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

fn failure(appended: &Result<Appended, ErrorCode>) -> Option<ErrorCode> {
    match appended {
        Ok(Ok(_)) => None,
        Ok(Err(refused)) => Some(refused.error.code),
        Err(code) => Some(*code),
    }
}

/// How long batches of one request that take long to judge are judged, whatever timeout the client gives: it may be gone.
const JUDGED_MAX: Duration = Duration::from_secs(30);

/// What a batch comes with.
#[derive(Clone, Copy)]
struct Terms {
    /// It is not judged after this, if that takes long.
    judged_until: Instant,
    /// Whose turn it takes then.
    peer: IpAddr,
    verified: Verified,
    /// The request may carry this codec.
    zstd: bool,
    in_transaction: bool,
}

/// Begins an append: now, or when it has been judged elsewhere.
#[allow(
    clippy::async_yields_async,
    reason = "the append has begun by then, and is waited for when those behind it have"
)]
fn start<P: Platform>(
    broker: Rc<Broker<P>>,
    partition: Rc<Partition<P>>,
    records: &Bytes,
    terms: Terms,
    (acks, deadline): (Acks, Instant),
) -> Begun<impl Future<Output = Result<Appended, ErrorCode>> + use<P>> {
    let bytes = records.len();
    let batch = WholeBatch::of_produced(records, terms.zstd);
    let extent = Extent::of(bytes, batch.as_ref().ok());
    let is_transactional = match &batch {
        Ok(batch) => batch.header().is_transactional(),
        // That it is refused for that comes before what else is wrong with it.
        Err(_) => WholeBatch::claims_transaction(records),
    };
    if is_transactional && !terms.in_transaction {
        // Nobody would ever end it: the request names no transactional id.
        let begun = Err(ErrorCode::TransactionalIdAuthorizationFailed.into());
        count(&partition, extent, &begun);
        let worth = worth(&begun, extent);
        return Begun::Now(worth, finish(partition, begun, acks, deadline));
    }
    match begin(&broker, &partition, batch, terms) {
        Begins::Done(begun) => {
            count(&partition, extent, &begun);
            let worth = worth(&begun, extent);
            Begun::Now(worth, finish(partition, begun, acks, deadline))
        }
        Begins::Heavy(batch) => Begun::Later(Box::pin(async move {
            let begun = begin_heavy(&broker, &partition, batch, terms).await;
            count(&partition, extent, &begun);
            finish(partition, begun, acks, deadline)
        })),
    }
}

/// What of a batch is counted.
#[derive(Clone, Copy)]
struct Extent {
    bytes: usize,
    records: u32,
    is_compressed: bool,
}

impl Extent {
    /// Of bytes that a client sent, which are this batch, or none.
    fn of(bytes: usize, batch: Option<&WholeBatch>) -> Self {
        let header = batch.map(WholeBatch::header);
        Self {
            bytes,
            // It is not judged yet: there may be fewer than none.
            records: header.map_or(0, |header| header.record_count.unsigned_abs()),
            is_compressed: header.is_some_and(|header| header.compression_code() != 0),
        }
    }
}

/// How far an append has come at once.
#[allow(
    clippy::large_enum_variant,
    reason = "it is taken apart where it is made"
)]
enum Begins {
    /// It has begun, or was refused.
    Done(Result<Accepted, AppendError>),
    /// Judging it takes long: see [`begin_heavy`].
    Heavy(WholeBatch),
}

/// Judges a batch and appends it.
fn begin<P: Platform>(
    broker: &Broker<P>,
    partition: &Partition<P>,
    batch: Result<WholeBatch, BatchError>,
    terms: Terms,
) -> Begins {
    let now_ms = broker.platform.clock().wall_ms();
    let judge = match partition.judge(now_ms) {
        Ok(judge) => judge,
        Err(error) => return Begins::Done(Err(error)),
    };
    let batch = match batch {
        Ok(batch) => batch,
        Err(error) => return Begins::Done(Err(error.into())),
    };
    match judge.little(&batch) {
        Ok(judged) => Begins::Done(partition.take(judged, terms.verified, now_ms)),
        Err(Unjudged::Refused(error)) => Begins::Done(Err(error.into())),
        Err(Unjudged::Heavy) => Begins::Heavy(batch),
    }
}

/// The same for a batch that takes long to judge: on another thread, one at a time, and of the batches of an address one
/// after the other.
async fn begin_heavy<P: Platform>(
    broker: &Broker<P>,
    partition: &Partition<P>,
    batch: WholeBatch,
    terms: Terms,
) -> Result<Accepted, AppendError> {
    let clock = broker.platform.clock();
    let turn = broker.judging.turn_of(&network(terms.peer)).await;
    if clock.now() > terms.judged_until {
        return Err(ErrorCode::RequestTimedOut.into());
    }
    let judge = partition.judge(clock.wall_ms())?;
    let judged = elsewhere(move || {
        // Held until it is done, also if nobody waits for it any more.
        let _turn = turn;
        judge.whole(&batch)
    });
    let judged = judged.await.ok_or(ErrorCode::UnknownServerError)??;
    partition.take(judged, terms.verified, clock.wall_ms())
}

fn count<P: Platform>(
    partition: &Partition<P>,
    extent: Extent,
    begun: &Result<Accepted, AppendError>,
) {
    let metrics = &partition.metrics;
    metrics.produce_requests.add(1);
    let bytes = extent.bytes as u64;
    match begun {
        Ok(_) => {
            metrics.messages_in.add(u64::from(extent.records));
            metrics.bytes_in.add(bytes);
        }
        Err(error) => {
            tracing::debug!(partition = %partition.name, code = ?error.code, reason = ?error.message, "append refused");
            metrics.failed_produce_requests.add(1);
            metrics.bytes_rejected.add(bytes);
        }
    }
}

/// What an append was worth, in items of a request. What was refused may have been decompressed to whatever it is.
fn worth(begun: &Result<Accepted, AppendError>, extent: Extent) -> usize {
    let bytes = match begun {
        Ok(accepted) => accepted.work_bytes,
        Err(_) if extent.is_compressed => usize::MAX,
        Err(_) => extent.bytes,
    };
    (bytes / ITEM_BYTES).saturating_add(1)
}

async fn finish<P: Platform>(
    partition: Rc<Partition<P>>,
    begun: Result<Accepted, AppendError>,
    acks: Acks,
    deadline: Instant,
) -> Result<Appended, ErrorCode> {
    Ok(finished(&partition, begun, acks, deadline).await)
}

async fn finished<P: Platform>(
    partition: &Partition<P>,
    begun: Result<Accepted, AppendError>,
    acks: Acks,
    deadline: Instant,
) -> Appended {
    let refused = |error| Refused {
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
    answer: Result<Appended, ErrorCode>,
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
        Err(code) => Refused {
            error: code.into(),
            leader_epoch: LeaderEpoch::NONE,
        },
    };
    let Refused {
        error,
        leader_epoch,
    } = refused;
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
