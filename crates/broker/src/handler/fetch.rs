//! `Fetch` (key 1), versions 4-18: records from partitions, as stored, as soon as there are enough
//! of them.
//!
//! The session is resolved first ([`crate::fetch_session`]), then the partitions are read on their
//! shards ([`crate::fetching`]). Version 7 added sessions, 11 rack and preferred replica, 12
//! diverging epochs, 13 topic ids. This node has no followers yet; a fetch from a follower gets an
//! error for each partition.
//!
//! A client needs the right to read each topic: every fetch of a session asks for all its
//! partitions. Those that it has lost while the fetch waited or read are not sent, unlike in Kafka.
//!
//! As in Kafka, a partition that a request names several times is read once, at its first position,
//! with the parameters of its last. Unlike in Kafka, the wait has a bound (`WAIT_MAX`): after days
//! of waiting, only the broker would still know the request.

use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use platform::Platform;
use platform::task::yield_now;
use wire::acl::Operation;
use wire::error::EncodeError;
use wire::kafka::Api;
use wire::kafka::fetch::{
    AbortedTransaction, Encoding, EpochEnd, FetchPartitionResponse, FetchRequest, FetchResponse,
    FetchTopicResponse,
};
use wire::kafka::{RequestHeader, Response};
use wire::protocol::StrBytes;
use wire::types::{ErrorCode, NodeId, Offset, TopicId};

use crate::Broker;
use crate::access::Access;
use crate::answers::HeldBytes;
use crate::dispatch::{CloseReason, Reply};
use crate::fetch_session::{
    self, AnswerState, Key, PartitionFetch, ResolvedFetch, SessionClaim, SessionRequest, TopicKey,
};
use crate::fetching::{FetchLimits, FetchedPartition, FetchedPartitions, fetch_all, slices_bytes};
use crate::handler::Context;
use crate::many::RequestPlace;
use crate::metrics::ErrorTally;
use crate::partition::Isolation;
use crate::quota::{Charge, QuotaKind, RequestTime, wire_ms};
use crate::rests::{PIECE, Rests, each};
use crate::route::Target;
use crate::session::Session;
use crate::topic_rights::TopicRight;

/// Maximum wait for `min_bytes`, whatever the client asks for.
const WAIT_MAX: Duration = Duration::from_mins(5);
/// Up to this number of partitions, repeated ones are searched for by comparison.
const FEW: usize = 16;

/// Reads, and charges the consumer for the bytes of the response. A throttled consumer gets only
/// the throttle time.
pub(crate) async fn respond<P: Platform>(
    broker: &Rc<Broker<P>>,
    (context, access): (&Context, &Access),
    busy: &RequestTime,
    header: &RequestHeader,
    body: Bytes,
) -> Result<Reply, Box<CloseReason>> {
    let (version, id) = (header.version, header.correlation_id);
    let peer = context.peer.ip();
    let mut place = broker.place_for_bytes(body.len(), peer).await;
    let asked = if place.is_none() {
        FetchRequest::decode(&body, version)
    } else {
        let decode = move || FetchRequest::decode(&body, version);
        // Boxed, so that this does not enlarge the futures of small requests.
        let decoded = Box::pin(broker.beside_for((peer, busy), decode)).await;
        decoded.ok_or(CloseReason::Stopping)?
    };
    let asked = asked.map_err(|source| CloseReason::malformed(header, source))?;
    let mut time = Duration::ZERO;
    let mut bytes_pause = Duration::ZERO;
    let limits = (context, broker.fetch_bytes_max(context));
    // Without an authorizer a session has no owner.
    let authorizer = broker.options.authorizer.as_ref();
    let client = (access, authorizer.map(|_| &*context.session));
    let asked = (asked, version);
    let response = handle(broker, client, asked, limits, &mut place, async |size| {
        time = broker
            .charge(QuotaKind::Request, context, busy.percent(), Charge::Used)
            .await;
        let charge = if time.is_zero() {
            Charge::IfAllowed
        } else {
            Charge::Never
        };
        #[allow(clippy::cast_precision_loss, reason = "answers are far smaller")]
        let bytes = size as f64;
        let charged = broker.charge(QuotaKind::Fetch, context, bytes, charge);
        bytes_pause = charged.await;
        time.is_zero() && bytes_pause.is_zero()
    });
    // What may have been read counts until the connection counts the answer.
    let (mut response, _aside) = response.await;
    let pause = time.max(bytes_pause);
    response.throttle_time_ms = wire_ms(pause);
    let response = if response.parts() <= PIECE {
        response.encode(version, id)?
    } else {
        in_turns(response.begin(version, id)?).await?
    };
    Ok(if pause.is_zero() {
        Reply::Send(response)
    } else {
        Reply::Pause(Some(response), pause)
    })
}

/// Encodes a large response, and yields in between.
async fn in_turns(mut encoding: Encoding) -> Result<Response, EncodeError> {
    while encoding.more(PIECE) {
        yield_now().await;
    }
    encoding.finish()
}

/// Answers a fetch.
///
/// The client's address is charged for the memory; `bytes_max` is the maximum that the client's
/// quota leaves; a request about very many partitions takes a `place`; `may_send` is called once
/// the size of the response is known.
async fn handle<P: Platform>(
    broker: &Rc<Broker<P>>,
    (access, owner): (&Access, Option<&Session>),
    (request, version): (FetchRequest, i16),
    (context, bytes_max): (&Context, usize),
    place: &mut Option<RequestPlace>,
    may_send: impl AsyncFnOnce(usize) -> bool,
) -> (FetchResponse, Option<HeldBytes>) {
    let peer = context.peer.ip();
    let limits = limits(broker, &request, bytes_max, peer);
    let from_follower = request.replica_id >= NodeId(0);
    // A small request may continue a large session, whose partitions all take memory.
    let remembered = broker.sessions.borrow().partitions(request.session_id);
    broker.place_for(remembered, peer, place).await;
    let mut resolved = match resolve(broker, owner, request, version).await {
        Ok(resolved) => resolved,
        Err(code) => return (refused_whole(broker, code), None),
    };
    // The request may have added partitions to the session.
    let count = resolved.partitions.len();
    broker.place_for(count, peer, place).await;
    let follower = from_follower.then(|| of_follower(access));
    let items = targets(broker, access, follower, &resolved.partitions).await;
    let memo = &context.session.memo;
    let fetched = Box::pin(fetch_all(broker, items, limits, (place, memo))).await;
    let FetchedPartitions {
        partitions: mut fetched,
        aside,
    } = fetched;
    if access.is_limited()
        && let Some(access) = access.renewed(&broker.image())
    {
        Box::pin(withdraw(broker, access, &resolved.partitions, &mut fetched)).await;
    }
    let mut size = 0_usize;
    let tell = |fetched| {
        size = size.saturating_add(size_bytes(fetched));
        told(fetched)
    };
    let told = each(&fetched, tell).await;
    if !may_send(size).await {
        // The client fetches again, and gets then what it would have got now.
        let session_id = broker.sessions.borrow_mut().withhold(&resolved);
        return (of_session(session_id, Vec::new()), None);
    }
    let mentioned = fetch_session::answer(&broker.sessions, &mut resolved, &told).await;
    assert_eq!(
        mentioned.len(),
        fetched.len(),
        "each partition is mentioned or not"
    );
    let session_id = resolved.id;
    // Vectors of few parts may grow.
    let runs = if count <= PIECE {
        Vec::new()
    } else {
        Box::pin(runs(&resolved.partitions, &mentioned)).await
    };
    let answers = resolved.partitions.into_iter().zip(fetched).zip(mentioned);
    let mut errors = ErrorTally::default();
    let topics = by_topic(answers, runs, &mut errors).await;
    broker.metrics.errors.count(Api::Fetch, &errors);
    (of_session(session_id, topics), aside)
}

/// Returns where each partition is, or why the client gets nothing of it, in their order.
async fn targets<P: Platform>(
    broker: &Broker<P>,
    access: &Access,
    follower: Option<ErrorCode>,
    partitions: &[(Key, PartitionFetch)],
) -> Vec<(Result<Target, ErrorCode>, PartitionFetch)> {
    let mut right = TopicRight::new(access, Operation::Read);
    let target = |((topic, partition), wanted): &(Key, PartitionFetch)| {
        let target = match follower {
            Some(code) => Err(code),
            None => right.check(broker, topic),
        };
        let target = target.and_then(|()| broker.target(topic, *partition));
        (target, *wanted)
    };
    each(partitions, target).await
}

/// Returns the error of all partitions that a follower fetches.
fn of_follower(access: &Access) -> ErrorCode {
    if access.may_cluster(Operation::ClusterAction) {
        ErrorCode::NotLeaderOrFollower
    } else {
        ErrorCode::TopicAuthorizationFailed
    }
}

/// Takes back what was read from topics that the client may not read any more.
async fn withdraw<P: Platform>(
    broker: &Broker<P>,
    access: Access,
    partitions: &[(Key, PartitionFetch)],
    fetched: &mut [Result<FetchedPartition, ErrorCode>],
) {
    assert_eq!(
        partitions.len(),
        fetched.len(),
        "each partition is answered"
    );
    let mut right = TopicRight::new(&access, Operation::Read);
    let mut rests = Rests::new();
    for (((topic, _), _), fetched) in partitions.iter().zip(fetched) {
        if fetched.is_ok()
            && let Err(code) = right.check(broker, topic)
        {
            *fetched = Err(code);
        }
        rests.item().await;
    }
}

fn of_session(session_id: i32, topics: Vec<FetchTopicResponse>) -> FetchResponse {
    FetchResponse {
        session_id,
        topics,
        ..FetchResponse::default()
    }
}

/// Returns the response to a request that is refused as a whole.
fn refused_whole<P: Platform>(broker: &Broker<P>, code: ErrorCode) -> FetchResponse {
    let errors = ErrorTally::of(code);
    broker.metrics.errors.count(Api::Fetch, &errors);
    FetchResponse {
        error: Some(code),
        ..FetchResponse::default()
    }
}

/// Returns the variable size of a partition in the response.
fn size_bytes(fetched: &Result<FetchedPartition, ErrorCode>) -> usize {
    const FIELDS_BYTES: usize = 50;
    fetched.as_ref().map_or(0, |fetched| {
        slices_bytes(&fetched.records).saturating_add(FIELDS_BYTES)
    })
}

fn limits<P: Platform>(
    broker: &Broker<P>,
    request: &FetchRequest,
    bytes_max: usize,
    peer: IpAddr,
) -> FetchLimits {
    let bytes = |value: i32| usize::try_from(value).unwrap_or(0);
    let bytes_max = bytes(request.max_bytes)
        .min(broker.options.fetch_bytes_max)
        .min(bytes_max);
    let wait = Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0));
    FetchLimits {
        isolation: Isolation::from_wire(request.isolation_level),
        bytes_min: bytes(request.min_bytes).min(bytes_max),
        bytes_max,
        deadline: broker.platform.clock().after(wait.min(WAIT_MAX)),
        peer,
    }
}

async fn resolve<P: Platform>(
    broker: &Broker<P>,
    owner: Option<&Session>,
    request: FetchRequest,
    version: i16,
) -> Result<ResolvedFetch, ErrorCode> {
    let by_id = version >= 13;
    let mut rests = Rests::new();
    let mut named = Vec::new();
    for topic in request.topics {
        let key = TopicKey::from_wire(by_id, &topic.name, topic.topic_id);
        named.reserve(topic.partitions.len());
        for piece in topic.partitions.chunks(PIECE) {
            named.extend(piece.iter().map(|partition| {
                let wanted = PartitionFetch {
                    current_leader_epoch: partition.current_leader_epoch,
                    fetch_offset: partition.fetch_offset,
                    last_fetched_epoch: partition.last_fetched_epoch,
                    log_start_offset: partition.log_start_offset,
                    max_bytes: partition.partition_max_bytes,
                };
                ((key.clone(), partition.index), wanted)
            }));
            rests.items(piece.len()).await;
        }
    }
    let named = if named.len() <= FEW && !names_again(&named) {
        named
    } else {
        Box::pin(once_each(named)).await
    };
    let mut forgotten: Vec<Key> = Vec::new();
    for topic in &request.forgotten_topics {
        let key = TopicKey::from_wire(by_id, &topic.name, topic.topic_id);
        for piece in topic.partitions.chunks(PIECE) {
            forgotten.extend(piece.iter().map(|index| (key.clone(), *index)));
            rests.items(piece.len()).await;
        }
    }
    let claim = SessionClaim {
        id: request.session_id,
        epoch: request.session_epoch,
    };
    let now = broker.platform.clock().now();
    // Only a new session needs one, for its id: the number costs a system call.
    let begins = claim.epoch == fetch_session::INITIAL_EPOCH;
    let random = if begins {
        broker.platform.random_u64()
    } else {
        0
    };
    let owner = owner.map(Session::principal);
    let claim = match &owner {
        Some(owner) => broker.sessions.borrow().claim_of(owner, claim),
        None => claim,
    };
    let asked = SessionRequest {
        claim,
        by_id,
        named,
        forgotten,
    };
    let resolved = fetch_session::resolve(&broker.sessions, asked, now, random).await?;
    if let Some(owner) = owner.filter(|_| !resolved.incremental) {
        broker.sessions.borrow_mut().own(owner, &resolved);
    }
    Ok(resolved)
}

/// Returns true if one of a few partitions is named several times.
fn names_again(named: &[(Key, PartitionFetch)]) -> bool {
    assert!(named.len() <= FEW, "each is compared with all others");
    let mut after = named.iter();
    let again = |(key, _): &(Key, PartitionFetch)| {
        after.next();
        // The index differs more often, and is cheaper to compare.
        let mut after = after.clone();
        after.any(|(other, _)| other.1 == key.1 && other.0 == key.0)
    };
    named.iter().any(again)
}

/// Removes repeated partitions.
async fn once_each(named: Vec<(Key, PartitionFetch)>) -> Vec<(Key, PartitionFetch)> {
    let mut places = HashMap::with_capacity(named.len());
    let mut once: Vec<(Key, PartitionFetch)> = Vec::with_capacity(named.len());
    let mut rests = Rests::new();
    for (key, wanted) in named {
        let place = *places.entry(key.clone()).or_insert(once.len());
        match once.get_mut(place) {
            Some((_, last)) => *last = wanted,
            None => once.push((key, wanted)),
        }
        rests.item().await;
    }
    once
}

fn told(fetched: &Result<FetchedPartition, ErrorCode>) -> AnswerState {
    match fetched {
        Ok(fetched) => AnswerState {
            high_watermark: fetched.high_watermark,
            log_start_offset: fetched.log_start_offset,
            urgent: !fetched.records.is_empty() || fetched.diverging.is_some(),
        },
        Err(_) => AnswerState {
            high_watermark: Offset(-1),
            log_start_offset: Offset(-1),
            urgent: true,
        },
    }
}

fn partition_response(
    index: i32,
    fetched: Result<FetchedPartition, ErrorCode>,
    errors: &mut ErrorTally,
) -> FetchPartitionResponse {
    let fetched = match fetched {
        Ok(fetched) => fetched,
        Err(code) => {
            errors.note(code.code());
            return refused(index, code);
        }
    };
    let diverging_epoch = fetched
        .diverging
        .map(|(epoch, end_offset)| EpochEnd { epoch, end_offset });
    let aborted_transactions = fetched.aborted.map(|aborted| {
        let each = aborted.into_iter();
        each.map(|txn| AbortedTransaction {
            producer_id: txn.producer_id,
            first_offset: txn.first_offset,
        })
        .collect()
    });
    FetchPartitionResponse {
        index,
        error: None,
        high_watermark: fetched.high_watermark,
        last_stable_offset: fetched.stable_offset,
        log_start_offset: fetched.log_start_offset,
        diverging_epoch,
        current_leader: None,
        snapshot_id: None,
        aborted_transactions,
        preferred_read_replica: NodeId(-1),
        records: fetched.records,
    }
}

/// Returns the response for a partition that cannot be read.
///
/// `aborted_transactions` is empty for a missing or forbidden partition, and null if the read
/// failed.
fn refused(index: i32, code: ErrorCode) -> FetchPartitionResponse {
    let missing = matches!(
        code,
        ErrorCode::UnknownTopicOrPartition
            | ErrorCode::UnknownTopicId
            | ErrorCode::TopicAuthorizationFailed
    );
    FetchPartitionResponse {
        aborted_transactions: missing.then(Vec::new),
        ..FetchPartitionResponse::failed(index, code)
    }
}

/// Returns the numbers of consecutive partitions of the same topic in a response of very many
/// partitions.
///
/// With them, each vector is allocated once; growing it would copy megabytes at a time.
async fn runs(partitions: &[(Key, PartitionFetch)], mentioned: &[bool]) -> Vec<usize> {
    let mut runs: Vec<usize> = Vec::new();
    let mut last = None;
    let mut rests = Rests::new();
    for (((topic, _), _), mentioned) in partitions.iter().zip(mentioned) {
        rests.item().await;
        match runs.last_mut() {
            _ if !mentioned => {}
            Some(run) if last == Some(topic) => *run = run.saturating_add(1),
            _ => {
                last = Some(topic);
                runs.push(1);
            }
        }
    }
    runs
}

/// Groups consecutive mentioned partitions of the same topic, and notes their errors.
async fn by_topic(
    answers: impl Iterator<
        Item = (
            ((Key, PartitionFetch), Result<FetchedPartition, ErrorCode>),
            bool,
        ),
    >,
    runs: Vec<usize>,
    errors: &mut ErrorTally,
) -> Vec<FetchTopicResponse> {
    let mut topics: Vec<(TopicKey, Vec<FetchPartitionResponse>)> = Vec::new();
    let mut runs = runs.into_iter();
    let mut rests = Rests::new();
    for ((((topic, index), _), fetched), mentioned) in answers {
        rests.item().await;
        if !mentioned {
            continue;
        }
        let answer = partition_response(index, fetched, errors);
        match topics.last_mut() {
            Some((last, partitions)) if *last == topic => partitions.push(answer),
            _ => {
                let mut partitions = Vec::with_capacity(runs.next().unwrap_or(1));
                partitions.push(answer);
                topics.push((topic, partitions));
            }
        }
    }
    let named = |(topic, partitions)| {
        let (name, topic_id) = match topic {
            TopicKey::Id(id) => (StrBytes::new(), id),
            TopicKey::Name(name) => (StrBytes::from_string(name.to_string()), TopicId::ZERO),
        };
        FetchTopicResponse {
            name,
            topic_id,
            partitions,
        }
    };
    each(topics, named).await
}
