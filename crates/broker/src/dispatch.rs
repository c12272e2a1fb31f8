//! From a frame to its handler, by the table of requests: one row for each API, with the step that
//! checks its rights and the rights, the shard it runs on, what it is charged, and its handler.
//!
//! Invariant: every API has a row, because the match has no catch-all: a new API in
//! `wire/kafka/api.rs` does not compile without one. Not here: which versions there are (that
//! table), what the columns mean (`dispatch/row.rs`, `dispatch/guards.rs`), the steps around a
//! handler (`dispatch/call.rs`).
//!
//! Order: a [`ParsedRequest`] that overlaps may be polled while earlier ones of its connection
//! still wait, so it does everything that depends on the connection's order in its first poll.
//! Every other call runs alone.

#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::indexing_slicing,
        reason = "numbers of clients reach this: an overflow or an index out of bounds ends the broker"
    )
)]

mod call;
mod descriptions;
mod errors;
mod groups;
mod guards;
mod homes;
mod login;
mod pace;
mod refusals;
mod reply;
mod row;
mod transactions;

use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use platform::Platform;
use wire::kafka::{self, Api, Newest, Request};
use wire::messages::{
    DescribeDelegationTokenRequest, ExpireDelegationTokenRequest, RenewDelegationTokenRequest,
    SaslAuthenticateRequest, SaslHandshakeRequest,
};

use crate::Broker;
use crate::answers::FLOOR_BYTES;
use crate::bulk::is_large;
use crate::handler::{self, Context, delegation_tokens, raft_voters, sasl};
use crate::quota::{Busy, timed};
use crate::session::{LoginOptions, Session};
use call::{Call, Guarded, at_group, at_transaction, controlled, gated, here, with_place};
use reply::ReplyFuture;
pub use reply::{CloseReason, LoginFailure, ParsedRequest, Reply, Service};
use row::{Loss, Order, Quota, Row, Runs, Size};
pub use row::{Operation, ResourceType, Right, Which};

impl<P: Platform> Service for Rc<Broker<P>> {
    fn call(&self, context: Context, frame: Bytes) -> ParsedRequest<impl Future<Output = Reply>> {
        call(self, context, &frame)
    }

    fn session(&self, listener: &str) -> Session {
        let mut endpoints = self.options.endpoints.iter();
        let endpoint = endpoints.find(|endpoint| endpoint.listener == listener);
        if endpoint.is_some_and(|endpoint| !endpoint.protocol.asks_for_login()) {
            return Session::default();
        }
        let login = self.options.logins.get(listener).cloned();
        // A listener of which nothing is known lets nobody in.
        Session::with_login(login.unwrap_or_else(|| Arc::new(LoginOptions::refused())))
    }
}

/// Takes a frame. Nothing runs before the reply is polled.
pub fn call<P: Platform>(broker: &Rc<Broker<P>>, context: Context, frame: &Bytes) -> ParsedRequest {
    if context.session.is_settled() {
        return request(broker, context, frame);
    }
    let (me, kept) = (Rc::clone(broker), frame.clone());
    if !context.session.is_logged_in() {
        return ParsedRequest {
            overlaps: false,
            api: None,
            only_reads: false,
            reply: Box::pin(login::answer(me, context, kept)),
        };
    }
    let parsed = request(broker, context.clone(), frame);
    let asked = (parsed.api, parsed.reply);
    ParsedRequest {
        overlaps: parsed.overlaps,
        api: parsed.api,
        only_reads: parsed.only_reads,
        reply: Box::pin(login::admitted(me, context, kept, asked)),
    }
}

/// Parses a request and prepares its handler, whoever the client is.
fn request<P: Platform>(broker: &Rc<Broker<P>>, context: Context, frame: &Bytes) -> ParsedRequest {
    let request = match Request::parse(frame) {
        Ok(request) => request,
        Err(error) => {
            let reply = Box::pin(std::future::ready(Reply::Close(Box::new(error.into()))));
            return ParsedRequest {
                overlaps: false,
                api: None,
                only_reads: false,
                reply,
            };
        }
    };
    let (api, version) = (request.header.api, request.header.version);
    let peer = context.peer.ip();
    let row = Row::of(api);
    let is_large = row.runs != Runs::Controller && is_large(api, frame.len());
    let large = is_large.then(|| Rc::clone(broker));
    let context = Context {
        client_id: request.header.client_id.clone(),
        frame_bytes: frame.len(),
        ..context
    };
    if large.is_none() {
        broker.bulk.note_other();
    }
    let overlaps = match row.order {
        Order::Alone => false,
        Order::OverlapsUnlessTransactional => !kafka::produce::names_transaction(&request),
    };
    let broker = Rc::clone(broker);
    let reply: ReplyFuture = Box::pin(async move {
        if !broker.limits_time() {
            let answered = answer(&broker, &context, &Busy::default(), row, request).await;
            let reply = roomy(&broker, &context, (row, api), answered);
            return pace::told((row, api, version), reply);
        }
        let busy = Busy::with(broker.platform.clock().clone());
        // Boxed, so that this does not enlarge the futures of requests that are not timed.
        let answered = Box::pin(answer(&broker, &context, &busy, row, request));
        let reply = roomy(&broker, &context, (row, api), timed(&busy, answered).await);
        let asked = (row, api, version);
        Box::pin(pace::paced(&broker, &context, &busy, asked, reply)).await
    });
    ParsedRequest {
        overlaps,
        api: Some(api),
        only_reads: row.loss == Loss::NothingWhileItWaits,
        reply: match large {
            None => reply,
            Some(broker) => Box::pin(async move {
                let clock = broker.platform.clock();
                broker.bulk.paced(clock, peer, reply).await
            }),
        },
    }
}

/// Returns the reply, or closes the connection instead of sending a large response of a repeatable
/// request while clients have too many responses to read.
///
/// Most responses cannot express that refusal. The disconnected client retries, by which time the
/// clients that do not read have been disconnected too.
fn roomy<P: Platform>(
    broker: &Broker<P>,
    context: &Context,
    (row, api): (&Row, Api),
    answered: Result<Reply, Box<CloseReason>>,
) -> Reply {
    match answered {
        Ok(Reply::Send(response) | Reply::Pause(Some(response), _))
            if row.loss == Loss::Nothing
                && response.size_bytes() > FLOOR_BYTES
                && broker.answers.is_over(context.peer.ip()) =>
        {
            Reply::Close(Box::new(CloseReason::NoRoom(api)))
        }
        Ok(reply) => reply,
        Err(reason) => Reply::Close(reason),
    }
}

/// Answers any request.
async fn answer<P: Platform>(
    broker: &Rc<Broker<P>>,
    context: &Context,
    busy: &Busy,
    row: &'static Row,
    request: Request,
) -> Result<Reply, Box<CloseReason>> {
    if request.is_unknown_api_versions() {
        let response = handler::api_versions::unsupported(&broker.image());
        errors::count(&broker.metrics, Api::ApiVersions, &response);
        let id = request.header.correlation_id;
        let response = kafka::encode_response(Api::ApiVersions, 0, id, &response)?;
        return Ok(Reply::Send(response));
    }
    handle(&Call::new(broker, context, busy, row, request)).await
}

macro_rules! right {
    ($kind:ident $operation:ident) => {
        right!(Named $kind $operation)
    };
    ($which:ident $kind:ident $operation:ident) => {
        Right {
            operation: Operation::$operation,
            resource_type: ResourceType::$kind,
            which: Which::$which,
        }
    };
}

macro_rules! requests {
    (
        ($call:ident, $b:ident, $c:ident, $v:ident)
        $($api:ident: [$asked:ident $($($right:ident)+),*], $runs:ident, $order:ident, $quota:ident $({ $field:ident: $since:literal })?, $loss:ident, $size:ident
            => $handle:expr;)*
    ) => {
        impl Row {
            /// Returns the row of an API.
            pub(super) const fn of(api: Api) -> &'static Self {
                match api {
                    $(Api::$api => &Self {
                        rights: &[$(right!($($right)+)),*],
                        runs: Runs::$runs,
                        order: Order::$order,
                        quota: Quota::$quota $({ $field: $since })?,
                        loss: Loss::$loss,
                        size: Size::$size,
                    },)*
                }
            }

            /// Returns the step that checks the rights.
            #[cfg(test)]
            pub(super) const fn step(api: Api) -> &'static str {
                match api {
                    $(Api::$api => stringify!($asked),)*
                }
            }
        }

        /// Checks the rights and runs the handler of a request.
        ///
        /// Each is boxed, so that a request takes the memory of its own API, not of the largest.
        async fn handle<P: Platform>($call: &Call<'_, P>) -> Result<Reply, Box<CloseReason>> {
            let ($b, $c, $v) = ($call.broker, $call.context, $call.header.version);
            match $call.header.api {
                $(Api::$api => {
                    let $call = &Guarded::<'_, P, guards::$asked>::of($call);
                    Box::pin($handle).await
                })*
            }
        }
    };
}

requests! {
    (call, b, c, v)
    Produce: [Handler Topic Write, TransactionalId Write], Partitions, OverlapsUnlessTransactional, Own, Something, Few
        => handler::produce::respond(b, (c, &call.access), call.busy, &call.header, call.take_body());
    Fetch: [Handler Topic Read, Cluster ClusterAction], Partitions, Alone, Own, NothingWhileItWaits, Own
        => handler::fetch::respond(b, (c, &call.access), call.busy, &call.header, call.take_body());
    ListOffsets: [Handler Topic Describe], Partitions, Alone, Time, Nothing, Few
        => here(call, async |r: Newest<_>| Newest::from(handler::list_offsets::handle(b, &call.access, r.message, v).await));
    Metadata: [Handler Topic Describe, Topic Create, Cluster Create], Here, Alone, Time, Nothing, Few
        => here(call, async |r| descriptions::metadata(call, r).await);
    OffsetCommit: [First Group Read, Topic Read], Group, Alone, Time, Something, Many
        => groups::offset_commit(call);
    OffsetFetch: [Handler Group Describe, Topic Describe], Here, Alone, Time, Nothing, Many
        => here(call, async |r| groups::offset_fetch(call, r).await);
    FindCoordinator: [Handler Group Describe, TransactionalId Describe], Here, Alone, Time, Nothing, Few
        => here(call, async |r| groups::find_coordinator(call, &r).await);
    JoinGroup: [Step Group Read], Group, Alone, Time, Something, Few
        => groups::join_group(call);
    Heartbeat: [Step Group Read], Group, Alone, Time, Something, Few
        => at_group(call, async |at, r| handler::heartbeat::handle(&at.groups, &r));
    LeaveGroup: [Step Group Read], Group, Alone, Time, Something, Few
        => at_group(call, async move |at, r| handler::leave_group::handle(&at.groups, &r, v).await);
    SyncGroup: [Step Group Read], Group, Alone, Time, Something, Few
        => at_group(call, async move |at, r| handler::sync_group::handle(&at.groups, r, v).await);
    DescribeGroups: [Handler Group Describe], Here, Alone, Time, Nothing, Many
        => here(call, async |r| groups::describe_groups(call, r).await);
    ListGroups: [Handler Cluster Describe, Group Describe], Here, Alone, Time, Nothing, Few
        => here(call, async |r| groups::list_groups(call, r).await);
    SaslHandshake: [Open], Here, Alone, Time, Something, Few
        => here(call, async |_: SaslHandshakeRequest| sasl::handshake());
    ApiVersions: [Open], Here, Alone, Time, Nothing, Few
        => here(call, async |r| handler::api_versions::handle(b, &c.software, &r, v));
    CreateTopics: [Handler Cluster Create, Topic Create, Topic DescribeConfigs], Controller, Alone, Mutations { strict_since: 6 }, Something, Few
        => gated(call, async move |c, r, caller| c.create_topics(&r, &caller).await);
    DeleteTopics: [Handler Cluster Delete, Topic Delete, Topic Describe], Controller, Alone, Mutations { strict_since: 5 }, Something, Few
        => gated(call, async move |c, r, caller| c.delete_topics(&r, v, &caller).await);
    DeleteRecords: [Handler Topic Delete], Partitions, Alone, Time, Something, Few
        => here(call, async |r| handler::delete_records::handle(b, &call.access, r).await);
    InitProducerId: [Handler TransactionalId Write, Cluster IdempotentWrite, Any Topic Write], Transaction, Alone, Time, Something, Few
        => transactions::init_producer_id(call);
    OffsetForLeaderEpoch: [Handler Topic Describe, Cluster ClusterAction], Partitions, Alone, Time, Nothing, Few
        => here(call, async |r| handler::offset_for_leader_epoch::handle(b, &call.access, r).await);
    AddPartitionsToTxn: [Handler TransactionalId Write, Topic Write, Cluster ClusterAction], Here, Alone, Time, Something, Few
        => here(call, async |r| transactions::add_partitions(call, r).await);
    AddOffsetsToTxn: [Step TransactionalId Write, Group Read], Transaction, Alone, Time, Something, Few
        => at_transaction(call, async move |b, r| handler::add_offsets_to_txn::handle(b, r, v).await);
    EndTxn: [Step TransactionalId Write], Transaction, Alone, Time, Something, Few
        => at_transaction(call, async move |b, r| handler::end_txn::handle(b, r, v).await);
    WriteTxnMarkers: [Handler Cluster Alter, Cluster ClusterAction], Partitions, Alone, Free, Something, Few
        => here(call, async |r| transactions::write_markers(call, r).await);
    TxnOffsetCommit: [First TransactionalId Write, Group Read, Topic Read], Group, Alone, Time, Something, Many
        => groups::txn_offset_commit(call);
    DescribeAcls: [Step Cluster Describe], Here, Alone, Time, Nothing, Few
        => here(call, async |r| descriptions::acls(call, r).await);
    CreateAcls: [Step Cluster Alter], Controller, Alone, Time, Something, Few
        => controlled(call, async |c, r, caller| c.create_acls(&r, &caller).await);
    DeleteAcls: [Step Cluster Alter], Controller, Alone, Time, Something, Few
        => controlled(call, async |c, r, caller| c.delete_acls(&r, &caller).await);
    DescribeConfigs: [Handler Topic DescribeConfigs, Group DescribeConfigs, Cluster DescribeConfigs], Here, Alone, Time, Nothing, Few
        => here(call, async |r| descriptions::configs(call, r).await);
    AlterConfigs: [Handler Topic AlterConfigs, Group AlterConfigs, Cluster AlterConfigs], Controller, Alone, Time, Something, Few
        => gated(call, async |c, r, caller| (c.alter_configs(&r, &caller).await, Duration::ZERO));
    AlterReplicaLogDirs: [Step Cluster Alter], Partitions, Alone, Time, Something, Own
        => with_place(call, async |r, place| handler::alter_replica_log_dirs::handle(b, r, place).await);
    DescribeLogDirs: [Step Cluster Describe], Here, Alone, Time, Nothing, Few
        => here(call, async |r: Newest<_>| handler::describe_log_dirs::handle(b, r.message).await);
    SaslAuthenticate: [Open], Here, Alone, Time, Something, Few
        => here(call, async |_: SaslAuthenticateRequest| sasl::authenticate());
    CreatePartitions: [Handler Topic Alter], Controller, Alone, Mutations { strict_since: 3 }, Something, Few
        => gated(call, async move |c, r, caller| c.create_partitions(&r, &caller).await);
    CreateDelegationToken: [Open], Here, Alone, Time, Something, Few
        => here(call, async |r| delegation_tokens::create(&r, v, &c.session));
    RenewDelegationToken: [Open], Here, Alone, Time, Something, Few
        => here(call, async |_: RenewDelegationTokenRequest| delegation_tokens::renew(&c.session));
    ExpireDelegationToken: [Open], Here, Alone, Time, Something, Few
        => here(call, async |_: ExpireDelegationTokenRequest| delegation_tokens::expire(&c.session));
    DescribeDelegationToken: [Open], Here, Alone, Time, Nothing, Few
        => here(call, async |_: DescribeDelegationTokenRequest| delegation_tokens::describe(&c.session));
    DeleteGroups: [Handler Group Delete], Here, Alone, Time, Something, Many
        => here(call, async |r| groups::delete_groups(call, r).await);
    ElectLeaders: [Step Cluster Alter], Here, Alone, Time, Nothing, Few
        => here(call, async |r| handler::elect_leaders::handle(&b.image(), &r));
    IncrementalAlterConfigs: [Handler Topic AlterConfigs, Group AlterConfigs, Cluster AlterConfigs], Controller, Alone, Time, Something, Few
        => gated(call, async |c, r, caller| (c.incremental_alter_configs(&r, &caller).await, Duration::ZERO));
    AlterPartitionReassignments: [Step Cluster Alter], Controller, Alone, Time, Something, Few
        => controlled(call, async |c, r, caller| c.alter_partition_reassignments(&r, &caller).await);
    ListPartitionReassignments: [Step Cluster Describe], Here, Alone, Time, Nothing, Few
        => here(call, async |r| handler::list_partition_reassignments::handle(&b.image(), &r).await);
    OffsetDelete: [First Group Delete, Topic Read], Group, Alone, Time, Something, Many
        => groups::offset_delete(call);
    DescribeClientQuotas: [Step Cluster DescribeConfigs], Here, Alone, Time, Nothing, Few
        => here(call, async |r| descriptions::client_quotas(call, &r));
    AlterClientQuotas: [Step Cluster AlterConfigs], Controller, Alone, Time, Something, Few
        => controlled(call, async |c, r, caller| c.alter_client_quotas(&r, &caller).await);
    DescribeUserScramCredentials: [Step Cluster Describe], Here, Alone, Time, Nothing, Few
        => here(call, async |r| descriptions::user_scram_credentials(call, r).await);
    AlterUserScramCredentials: [Step Cluster Alter], Controller, Alone, Time, Something, Few
        => controlled(call, async |c, r, caller| c.alter_user_scram_credentials(&r, &caller).await);
    DescribeQuorum: [Step Cluster Describe], Controller, Alone, Time, Nothing, Few
        => controlled(call, async move |c, r, _| handler::describe_quorum::handle(c.quorum(), &r, v));
    UpdateFeatures: [Step Cluster Alter], Controller, Alone, Time, Something, Few
        => controlled(call, async move |c, r, caller| c.update_features(&r, v, &caller).await);
    DescribeCluster: [Open], Here, Alone, Time, Nothing, Few
        => here(call, async |r| descriptions::cluster(call, &r));
    DescribeProducers: [Handler Topic Read], Partitions, Alone, Time, Nothing, Few
        => here(call, async |r| handler::describe_producers::handle(b, &call.access, r).await);
    UnregisterBroker: [Step Cluster Alter], Controller, Alone, Time, Something, Few
        => controlled(call, async |c, r, caller| c.unregister_broker(&r, &caller).await);
    DescribeTransactions: [Handler TransactionalId Describe, Topic Describe], Here, Alone, Time, Nothing, Few
        => here(call, async |r| transactions::describe(call, r).await);
    ListTransactions: [Handler TransactionalId Describe], Here, Alone, Time, Nothing, Few
        => here(call, async |r| transactions::list(call, r).await);
    ConsumerGroupHeartbeat: [Handler Group Read, Topic Describe], Group, Alone, Time, Something, Few
        => groups::consumer_group_heartbeat(call);
    ConsumerGroupDescribe: [Handler Group Describe, Topic Describe], Here, Alone, Time, Nothing, Many
        => here(call, async |r| groups::describe_consumer_groups(call, r).await);
    GetTelemetrySubscriptions: [Open], Here, Alone, Time, Something, Few
        => here(call, async |r| handler::get_telemetry_subscriptions::handle(b, c, r).await);
    PushTelemetry: [Open], Here, Alone, Time, Something, Few
        => here(call, async |r| handler::push_telemetry::handle(b, c, r).await);
    ListConfigResources: [Step Cluster DescribeConfigs], Here, Alone, Time, Nothing, Few
        => here(call, async |r| descriptions::config_resources(call, &r));
    DescribeTopicPartitions: [Handler Topic Describe], Here, Alone, Time, Nothing, Few
        => here(call, async |r| descriptions::topic_partitions(call, r).await);
    AddRaftVoter: [Step Cluster Alter], Here, Alone, Time, Something, Few
        => here(call, async |r: Newest<_>| Newest::from(raft_voters::add(&r.message, &b.log_dirs.cluster_id)));
    RemoveRaftVoter: [Step Cluster Alter], Here, Alone, Time, Something, Few
        => here(call, async |r| raft_voters::remove(&r, &b.log_dirs.cluster_id));
}

/// Returns the rights that a client needs for an API, for documents and tools.
pub const fn rights(api: Api) -> &'static [Right] {
    Row::of(api).rights
}

#[cfg(test)]
mod tests;
