//! Requests about producers and their transactions: each transactional id's request runs on the
//! shard that leads its partition of `__transaction_state`.
//!
//! While that topic does not exist, the request runs on this shard, and the coordinator returns the
//! error.

use std::rc::Rc;
use std::sync::Arc;

use platform::Platform;
use wire::acl::Operation;
use wire::kafka::NewestVersion;
use wire::messages::add_partitions_to_txn_response::AddPartitionsToTxnResult;
use wire::messages::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, DescribeTransactionsRequest,
    DescribeTransactionsResponse, InitProducerIdRequest, ListTransactionsRequest,
    ListTransactionsResponse, TransactionalId, WriteTxnMarkersRequest, WriteTxnMarkersResponse,
};
use wire::types::{ErrorCode, ProducerId};

use super::call::{Call, GuardedCall, at_transaction};
use super::guards::{Handler, Step};
use super::homes::OfTransaction as _;
use super::reply::{CloseReason, Reply};
use crate::Broker;
use crate::access::Access;
use crate::handler;
use crate::handler::add_partitions_to_txn::{self, TxnPartitions, check_rights};
use crate::rests::each;
use crate::room::Room;
use crate::route::at_homes;
use crate::transaction::home_of;

pub(super) async fn init_producer_id<P: Platform>(
    call: &GuardedCall<'_, P, Handler>,
) -> Result<Reply, Box<CloseReason>> {
    use handler::init_producer_id::{answered, check_rights, handle, handle_transactional};
    let (version, access, ip) = (call.header.version, call.access(), call.ip());
    at_transaction(call, async move |broker, asked: InitProducerIdRequest| {
        let mut access = access.now(&broker);
        loop {
            if let Err(code) = check_rights(&asked, &access).await {
                return answered(Err(code));
            }
            let Some(renewed) = access.renewed_by(&broker) else {
                break;
            };
            access = renewed;
        }
        if asked.id().is_none() {
            return handle(&broker, asked).await;
        }
        handle_transactional(broker, asked, version, (ip, access)).await
    })
    .await
}

/// Adds a group's partition of `__consumer_offsets` to a transaction.
pub(super) async fn add_offsets<P: Platform>(
    call: &GuardedCall<'_, P, Step>,
) -> Result<Reply, Box<CloseReason>> {
    let (version, access) = (call.header.version, call.access());
    at_transaction(call, async move |broker, asked| {
        handler::add_offsets_to_txn::handle(broker, asked, version, &access).await
    })
    .await
}

/// Adds partitions to transactions: for a producer, or for brokers from version 4 on.
pub(super) async fn add_partitions<P: Platform>(
    call: &Call<'_, P>,
    request: AddPartitionsToTxnRequest,
) -> AddPartitionsToTxnResponse {
    let (broker, version, access) = (call.broker, call.header.version, call.access());
    if version < 4 {
        let producer = ProducerId(request.v3_and_below_producer_id.0);
        let asked = TxnPartitions {
            id: request.v3_and_below_transactional_id,
            producer: (producer, request.v3_and_below_producer_epoch),
            verify_only: false,
            topics: request.v3_and_below_topics,
            client_version: 0,
        };
        let result = match check_rights(broker, &asked, &access).await {
            Ok(()) => add_for_one(broker, asked, (access, version >= 2)).await,
            Err(refused) => refused,
        };
        return AddPartitionsToTxnResponse::default()
            .with_results_by_topic_v3_and_below(result.topic_results);
    }
    if !access.may_cluster(Operation::ClusterAction) {
        let denied = ErrorCode::ClusterAuthorizationFailed;
        return AddPartitionsToTxnResponse::default().with_error_code(denied.code());
    }
    let asked = request.transactions.into_iter().map(|it| {
        let asked = TxnPartitions {
            id: it.transactional_id,
            producer: (ProducerId(it.producer_id.0), it.producer_epoch),
            verify_only: it.verify_only,
            topics: it.topics,
            client_version: if version >= 5 { 2 } else { 0 },
        };
        (home_of(broker, &asked.id.0), asked)
    });
    let asked: Vec<_> = asked.collect();
    let kept: Vec<_> = asked.iter().map(|(_, asked)| asked.clone()).collect();
    let answers = at_homes(broker, asked, |broker, asked| {
        add_partitions_to_txn::handle(broker, asked, true)
    });
    let answers = kept.iter().zip(answers.await);
    let gone = |asked| add_partitions_to_txn::refused(asked, ErrorCode::NotCoordinator);
    let answers = answers.map(|(asked, answer)| answer.unwrap_or_else(|| gone(asked)));
    AddPartitionsToTxnResponse::default().with_results_by_transaction(answers.collect())
}

async fn add_for_one<P: Platform>(
    broker: &Rc<Broker<P>>,
    asked: TxnPartitions,
    (access, knows_fencing): (Access, bool),
) -> AddPartitionsToTxnResult {
    let kept = asked.clone();
    let home = home_of(broker, &asked.id.0);
    let answered = broker.shards.call(home, move |broker| async move {
        if let Some(access) = access.renewed_by(&broker)
            && let Err(refused) = check_rights(&broker, &asked, &access).await
        {
            return refused;
        }
        add_partitions_to_txn::handle(broker, asked, knows_fencing).await
    });
    let gone = || add_partitions_to_txn::refused(&kept, ErrorCode::NotCoordinator);
    answered.await.unwrap_or_else(gone)
}

/// Ends transactions, for coordinators on other brokers and for who may change the cluster.
pub(super) async fn write_markers<P: Platform>(
    call: &Call<'_, P>,
    request: NewestVersion<WriteTxnMarkersRequest>,
) -> NewestVersion<WriteTxnMarkersResponse> {
    use handler::write_txn_markers::{handle, refused};
    let access = call.access();
    let may = access.has_cluster(Operation::Alter) || access.may_cluster(Operation::ClusterAction);
    let response = if may {
        handle(call.broker, request).await
    } else {
        refused(&request.message, ErrorCode::ClusterAuthorizationFailed).await
    };
    NewestVersion::from(response)
}

pub(super) async fn describe<P: Platform>(
    call: &Call<'_, P>,
    request: DescribeTransactionsRequest,
) -> DescribeTransactionsResponse {
    use handler::describe_transactions::{handle_id, refused};
    let (broker, version, access) = (call.broker, call.header.version, call.access());
    let ids = request.transactional_ids;
    let home = |id: &TransactionalId| (home_of(broker, &id.0), id.clone());
    let asked = each(&ids, home).await;
    let room = Room::of(&broker.answers, call.ip());
    let _counted = room.clone();
    let answers = at_homes(broker, asked, move |broker, id: TransactionalId| {
        let access = access.now(&broker);
        let told = room.tell(version, || handle_id(&broker, &id, &access));
        std::future::ready(told.unwrap_or_else(|| refused(&id, room.refusal())))
    });
    let answers = ids.iter().zip(answers.await);
    let gone = |id| refused(id, ErrorCode::NotCoordinator);
    let told = |(id, answer): (_, Option<_>)| answer.unwrap_or_else(|| gone(id));
    DescribeTransactionsResponse::default().with_transaction_states(each(answers, told).await)
}

pub(super) async fn list<P: Platform>(
    call: &Call<'_, P>,
    request: ListTransactionsRequest,
) -> ListTransactionsResponse {
    let (broker, access) = (call.broker, call.access());
    let pattern = match handler::list_transactions::pattern(&request) {
        Ok(pattern) => Arc::new(pattern),
        Err(code) => {
            return ListTransactionsResponse::default().with_error_code(code.code());
        }
    };
    let states = request.state_filters.clone();
    let request = Arc::new(request);
    let room = Room::of_list(&broker.answers, call.ip());
    let there = room.clone();
    let answers = broker.shards.call_all(move |broker| {
        let (pattern, request) = (Arc::clone(&pattern), Arc::clone(&request));
        let (room, access) = (there.clone(), access.now(&broker));
        async move {
            let pattern = (*pattern).as_ref();
            handler::list_transactions::handle(&broker, &request, pattern, &room, &access).await
        }
    });
    handler::list_transactions::gather(&states, answers.await)
}
