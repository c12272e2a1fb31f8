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

mod audited;
mod call;
mod coordinators;
mod descriptions;
mod errors;
mod groups;
mod guards;
mod homes;
mod login;
mod pace;
mod positions;
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
use wire::kafka::{self, Api, NewestVersion, Request};
use wire::messages::{
    DescribeDelegationTokenRequest, ExpireDelegationTokenRequest, RenewDelegationTokenRequest,
    SaslAuthenticateRequest, SaslHandshakeRequest,
};

use crate::Broker;
use crate::answers::FLOOR_BYTES;
use crate::bulk::is_large;
use crate::handler::{self, Context, delegation_tokens, raft_voters, sasl};
use crate::quota::{RequestTime, timed};
use crate::session::{LoginOptions, Session};
use call::{Call, GuardedCall, at_group, at_transaction, controlled, gated, here, with_place};
use reply::ReplyFuture;
pub use reply::{CloseReason, LoginFailure, ParsedRequest, Reply, Service};
use row::{Loss, Order, Quota, Row, Runs, Size};
pub use row::{Operation, ResourceType, Right, RightScope};

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
        // A listener without settings admits no client.
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

/// Parses a request and prepares its handler, for any client.
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
            let answered = answer(&broker, &context, &RequestTime::default(), row, request).await;
            let reply = roomy(&broker, &context, (row, api), answered);
            return pace::told((row, api, version), reply);
        }
        let busy = RequestTime::with(broker.platform.clock().clone());
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
    busy: &RequestTime,
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
            which: RightScope::$which,
        }
    };
}

macro_rules! requests {
    (
        ($call:ident, $broker:ident, $context:ident, $version:ident)
        $($api:ident: [$step:ident $($($right:ident)+),*], $runs:ident, $order:ident,
            $quota:ident $({ $field:ident: $since:literal })?, $loss:ident, $size:ident
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
                    $(Api::$api => stringify!($step),)*
                }
            }
        }

        /// Checks the rights and runs the handler of a request.
        ///
        /// Each is boxed, so that a request takes the memory of its own API, not of the largest.
        async fn handle<P: Platform>($call: &Call<'_, P>) -> Result<Reply, Box<CloseReason>> {
            let ($broker, $context, $version) =
                ($call.broker, $call.context, $call.header.version);
            match $call.header.api {
                $(Api::$api => {
                    let $call = &GuardedCall::<'_, P, guards::$step>::of($call);
                    Box::pin($handle).await
                })*
            }
        }
    };
}

requests! {
    (call, broker, context, version)
    Produce: [Handler Topic Write, TransactionalId Write],
        Partitions, OverlapsUnlessTransactional, Own, Something, Few
        => handler::produce::respond(
            broker, (context, call.access_at_first()), call.busy, &call.header, call.take_body()
        );
    Fetch: [Handler Topic Read, Cluster ClusterAction],
        Partitions, Alone, Own, NothingWhileItWaits, Own
        => handler::fetch::respond(
            broker, (context, call.access_at_first()), call.busy, &call.header, call.take_body()
        );
    ListOffsets: [Handler Topic Describe], Partitions, Alone, Time, Nothing, Few
        => here(call, async |request: NewestVersion<_>| {
            let (access, request) = (call.access(), request.message);
            let response = handler::list_offsets::handle(broker, &access, request, version).await;
            NewestVersion::from(response)
        });
    Metadata: [Handler Topic Describe, Topic Create, Cluster Create],
        Here, Alone, Time, Nothing, Few
        => here(call, async |request| descriptions::metadata(call, request).await);
    OffsetCommit: [StepThenHandler Group Read, Topic Read], Group, Alone, Time, Something, Many
        => positions::offset_commit(call);
    OffsetFetch: [Handler Group Describe, Topic Describe], Here, Alone, Time, Nothing, Many
        => here(call, async |request| positions::offset_fetch(call, request).await);
    FindCoordinator: [Handler Group Describe, TransactionalId Describe],
        Here, Alone, Time, Nothing, Few
        => here(call, async |request| coordinators::find(call, &request).await);
    JoinGroup: [Step Group Read], Group, Alone, Time, Something, Few
        => groups::join_group(call);
    Heartbeat: [Step Group Read], Group, Alone, Time, Something, Few
        => at_group(call, async |at, request| handler::heartbeat::handle(&at.groups, &request));
    LeaveGroup: [Step Group Read], Group, Alone, Time, Something, Few
        => at_group(call, async move |at, request| {
            handler::leave_group::handle(&at.groups, &request, version).await
        });
    SyncGroup: [Step Group Read], Group, Alone, Time, Something, Few
        => groups::sync_group(call);
    DescribeGroups: [Handler Group Describe], Here, Alone, Time, Nothing, Many
        => here(call, async |request| groups::describe_groups(call, request).await);
    ListGroups: [Handler Cluster Describe, Group Describe], Here, Alone, Time, Nothing, Few
        => here(call, async |request| groups::list_groups(call, request).await);
    SaslHandshake: [Open], Here, Alone, Time, Something, Few
        => here(call, async |_: SaslHandshakeRequest| sasl::handshake());
    ApiVersions: [Open], Here, Alone, Time, Nothing, Few
        => here(call, async |request| {
            handler::api_versions::handle(broker, &context.software, &request, version)
        });
    CreateTopics: [Handler Cluster Create, Topic Create, Topic DescribeConfigs],
        Controller, Alone, Mutations { strict_since: 6 }, Something, Few
        => gated(call, async move |controller, request, caller| {
            controller.create_topics(&request, &caller).await
        });
    DeleteTopics: [Handler Cluster Delete, Topic Delete, Topic Describe],
        Controller, Alone, Mutations { strict_since: 5 }, Something, Few
        => gated(call, async move |controller, request, caller| {
            controller.delete_topics(&request, version, &caller).await
        });
    DeleteRecords: [Handler Topic Delete], Partitions, Alone, Time, Something, Few
        => here(call, async |request| {
            let access = call.access();
            let response = handler::delete_records::handle(broker, &access, request).await;
            audited::records_deleted(call, &response);
            response
        });
    InitProducerId: [Handler TransactionalId Write, Cluster IdempotentWrite, Any Topic Write],
        Transaction, Alone, Time, Something, Few
        => transactions::init_producer_id(call);
    OffsetForLeaderEpoch: [Handler Topic Describe, Cluster ClusterAction],
        Partitions, Alone, Time, Nothing, Few
        => here(call, async |request| {
            handler::offset_for_leader_epoch::handle(broker, &call.access(), request).await
        });
    AddPartitionsToTxn: [Handler TransactionalId Write, Topic Write, Cluster ClusterAction],
        Here, Alone, Time, Something, Few
        => here(call, async |request| transactions::add_partitions(call, request).await);
    AddOffsetsToTxn: [Step TransactionalId Write, Group Read],
        Transaction, Alone, Time, Something, Few
        => transactions::add_offsets(call);
    EndTxn: [Step TransactionalId Write], Transaction, Alone, Time, Something, Few
        => at_transaction(call, async move |broker, request| {
            handler::end_txn::handle(broker, request, version).await
        });
    WriteTxnMarkers: [Handler Cluster Alter, Cluster ClusterAction],
        Partitions, Alone, Free, Something, Few
        => here(call, async |request| transactions::write_markers(call, request).await);
    TxnOffsetCommit: [StepThenHandler TransactionalId Write, Group Read, Topic Read],
        Group, Alone, Time, Something, Many
        => positions::txn_offset_commit(call);
    DescribeAcls: [Step Cluster Describe], Here, Alone, Time, Nothing, Few
        => here(call, async |request| descriptions::acls(call, request).await);
    CreateAcls: [Step Cluster Alter], Controller, Alone, Time, Something, Few
        => controlled(call, async |controller, request, caller| {
            controller.create_acls(&request, &caller).await
        });
    DeleteAcls: [Step Cluster Alter], Controller, Alone, Time, Something, Few
        => controlled(call, async |controller, request, caller| {
            controller.delete_acls(&request, &caller).await
        });
    DescribeConfigs: [
            Handler Topic DescribeConfigs, Group DescribeConfigs, Cluster DescribeConfigs
        ],
        Here, Alone, Time, Nothing, Few
        => here(call, async |request| descriptions::configs(call, request).await);
    AlterConfigs: [Handler Topic AlterConfigs, Group AlterConfigs, Cluster AlterConfigs],
        Controller, Alone, Time, Something, Few
        => gated(call, async |controller, request, caller| {
            (controller.alter_configs(&request, &caller).await, Duration::ZERO)
        });
    AlterReplicaLogDirs: [Step Cluster Alter], Partitions, Alone, Time, Something, Own
        => with_place(call, async |request, place| {
            let handle = handler::alter_replica_log_dirs::handle;
            let response = handle(broker, &call.access(), request, place).await;
            audited::logs_moved(call, &response);
            response
        });
    DescribeLogDirs: [Step Cluster Describe], Here, Alone, Time, Nothing, Few
        => here(call, async |request| descriptions::log_dirs(call, request).await);
    SaslAuthenticate: [Open], Here, Alone, Time, Something, Few
        => here(call, async |_: SaslAuthenticateRequest| sasl::authenticate());
    CreatePartitions: [Handler Topic Alter],
        Controller, Alone, Mutations { strict_since: 3 }, Something, Few
        => gated(call, async move |controller, request, caller| {
            controller.create_partitions(&request, &caller).await
        });
    CreateDelegationToken: [Open], Here, Alone, Time, Something, Few
        => here(call, async |request| {
            delegation_tokens::create(&request, version, &context.session)
        });
    RenewDelegationToken: [Open], Here, Alone, Time, Something, Few
        => here(call, async |_: RenewDelegationTokenRequest| {
            delegation_tokens::renew(&context.session)
        });
    ExpireDelegationToken: [Open], Here, Alone, Time, Something, Few
        => here(call, async |_: ExpireDelegationTokenRequest| {
            delegation_tokens::expire(&context.session)
        });
    DescribeDelegationToken: [Open], Here, Alone, Time, Nothing, Few
        => here(call, async |_: DescribeDelegationTokenRequest| {
            delegation_tokens::describe(&context.session)
        });
    DeleteGroups: [Handler Group Delete], Here, Alone, Time, Something, Many
        => here(call, async |request| {
            let response = groups::delete_groups(call, request).await;
            audited::groups_deleted(call, &response);
            response
        });
    ElectLeaders: [Step Cluster Alter], Here, Alone, Time, Nothing, Few
        => here(call, async |request| handler::elect_leaders::handle(&broker.image(), &request));
    IncrementalAlterConfigs: [Handler Topic AlterConfigs, Group AlterConfigs, Cluster AlterConfigs],
        Controller, Alone, Time, Something, Few
        => gated(call, async |controller, request, caller| {
            (controller.incremental_alter_configs(&request, &caller).await, Duration::ZERO)
        });
    AlterPartitionReassignments: [Step Cluster Alter], Controller, Alone, Time, Something, Few
        => controlled(call, async |controller, request, caller| {
            controller.alter_partition_reassignments(&request, &caller).await
        });
    ListPartitionReassignments: [Step Cluster Describe], Here, Alone, Time, Nothing, Few
        => here(call, async |request| {
            handler::list_partition_reassignments::handle(&broker.image(), &request).await
        });
    OffsetDelete: [StepThenHandler Group Delete, Topic Read], Group, Alone, Time, Something, Many
        => positions::offset_delete(call);
    DescribeClientQuotas: [Step Cluster DescribeConfigs], Here, Alone, Time, Nothing, Few
        => here(call, async |request| descriptions::client_quotas(call, &request));
    AlterClientQuotas: [Step Cluster AlterConfigs], Controller, Alone, Time, Something, Few
        => controlled(call, async |controller, request, caller| {
            controller.alter_client_quotas(&request, &caller).await
        });
    DescribeUserScramCredentials: [Step Cluster Describe], Here, Alone, Time, Nothing, Few
        => here(call, async |request| descriptions::user_scram_credentials(call, request).await);
    AlterUserScramCredentials: [Step Cluster Alter], Controller, Alone, Time, Something, Few
        => controlled(call, async |controller, request, caller| {
            controller.alter_user_scram_credentials(&request, &caller).await
        });
    DescribeQuorum: [Step Cluster Describe], Controller, Alone, Time, Nothing, Few
        => controlled(call, async move |controller, request, _| {
            handler::describe_quorum::handle(controller.quorum(), &request, version)
        });
    UpdateFeatures: [Step Cluster Alter], Controller, Alone, Time, Something, Few
        => controlled(call, async move |controller, request, caller| {
            controller.update_features(&request, version, &caller).await
        });
    DescribeCluster: [Open], Here, Alone, Time, Nothing, Few
        => here(call, async |request| descriptions::cluster(call, &request));
    DescribeProducers: [Handler Topic Read], Partitions, Alone, Time, Nothing, Few
        => here(call, async |request| {
            handler::describe_producers::handle(broker, &call.access(), request).await
        });
    UnregisterBroker: [Step Cluster Alter], Controller, Alone, Time, Something, Few
        => controlled(call, async |controller, request, caller| {
            controller.unregister_broker(&request, &caller).await
        });
    DescribeTransactions: [Handler TransactionalId Describe, Topic Describe],
        Here, Alone, Time, Nothing, Few
        => here(call, async |request| transactions::describe(call, request).await);
    ListTransactions: [Handler TransactionalId Describe], Here, Alone, Time, Nothing, Few
        => here(call, async |request| transactions::list(call, request).await);
    ConsumerGroupHeartbeat: [Handler Group Read, Topic Describe], Group, Alone, Time, Something, Few
        => groups::consumer_group_heartbeat(call);
    ConsumerGroupDescribe: [Handler Group Describe, Topic Describe],
        Here, Alone, Time, Nothing, Many
        => here(call, async |request| groups::describe_consumer_groups(call, request).await);
    GetTelemetrySubscriptions: [Open], Here, Alone, Time, Something, Few
        => here(call, async |request| {
            handler::get_telemetry_subscriptions::handle(broker, context, request).await
        });
    PushTelemetry: [Open], Here, Alone, Time, Something, Few
        => here(call, async |request| {
            handler::push_telemetry::handle(broker, context, request).await
        });
    ListConfigResources: [Step Cluster DescribeConfigs], Here, Alone, Time, Nothing, Few
        => here(call, async |request| descriptions::config_resources(call, &request));
    DescribeTopicPartitions: [Handler Topic Describe], Here, Alone, Time, Nothing, Few
        => here(call, async |request| descriptions::topic_partitions(call, request).await);
    AddRaftVoter: [Step Cluster Alter], Here, Alone, Time, Something, Few
        => here(call, async |request: NewestVersion<_>| {
            NewestVersion::from(raft_voters::add(&request.message, &broker.log_dirs.cluster_id))
        });
    RemoveRaftVoter: [Step Cluster Alter], Here, Alone, Time, Something, Few
        => here(call, async |request| raft_voters::remove(&request, &broker.log_dirs.cluster_id));
}

/// Returns the rights that a client needs for an API, for documents and tools.
pub const fn rights(api: Api) -> &'static [Right] {
    Row::of(api).rights
}

#[cfg(test)]
mod tests;
