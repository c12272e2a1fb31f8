//! Requests about producers and their transactions: each transactional id is asked on the shard that leads its partition of
//! `__transaction_state`.
//!
//! While there is no such topic, no id has a home; the question is then put here, and the coordinator says so.

use std::rc::Rc;
use std::sync::Arc;

use platform::Platform;
use wire::kafka::{Api, Newest, Request};
use wire::messages::add_partitions_to_txn_response::AddPartitionsToTxnResult;
use wire::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse,
    DescribeTransactionsRequest, DescribeTransactionsResponse, EndTxnRequest,
    InitProducerIdRequest, ListTransactionsRequest, ListTransactionsResponse, TransactionalId,
};
use wire::protocol::Encodable;
use wire::types::{ErrorCode, ProducerId};

use super::table::elsewhere;
use super::{CloseReason, Reply, decoded, encoded, run};
use crate::Broker;
use crate::handler::add_partitions_to_txn::{self, Asked};
use crate::handler::{self, Context};
use crate::rests::each;
use crate::room::Room;
use crate::route::at_homes;
use crate::transaction::home_of;

/// A request that names one transactional id.
trait OfTransaction: wire::protocol::Request + Send + 'static {
    fn id(&self) -> &str;
}

impl OfTransaction for InitProducerIdRequest {
    fn id(&self) -> &str {
        self.transactional_id.as_ref().map_or("", |id| &id.0)
    }
}

impl OfTransaction for AddOffsetsToTxnRequest {
    fn id(&self) -> &str {
        &self.transactional_id.0
    }
}

impl OfTransaction for EndTxnRequest {
    fn id(&self) -> &str {
        &self.transactional_id.0
    }
}

pub(super) async fn answer<P: Platform>(
    b: &Rc<Broker<P>>,
    c: &Context,
    request: Request,
) -> Result<Reply, CloseReason> {
    let v = request.header.version;
    match request.header.api {
        Api::InitProducerId => init_producer_id(b, request).await,
        Api::AddPartitionsToTxn => run(request, async |r| add_partitions(b, r, v).await).await,
        Api::AddOffsetsToTxn => {
            at_home(b, request, async move |broker, r| {
                handler::add_offsets_to_txn::handle(broker, r, v).await
            })
            .await
        }
        Api::EndTxn => {
            at_home(b, request, async move |broker, r| {
                handler::end_txn::handle(broker, r, v).await
            })
            .await
        }
        Api::WriteTxnMarkers => {
            run(request, async |r| {
                Newest::from(handler::write_txn_markers::handle(b, r).await)
            })
            .await
        }
        Api::DescribeProducers => {
            run(request, async |r| {
                handler::describe_producers::handle(b, r).await
            })
            .await
        }
        Api::DescribeTransactions => run(request, async |r| describe(b, c, r, v).await).await,
        Api::ListTransactions => run(request, async |r| list(b, c, r).await).await,
        api => elsewhere(api),
    }
}

async fn init_producer_id<P: Platform>(
    b: &Rc<Broker<P>>,
    request: Request,
) -> Result<Reply, CloseReason> {
    let v = request.header.version;
    let (header, asked) = decoded::<InitProducerIdRequest>(request)?;
    let response = if asked.transactional_id.is_none() {
        handler::init_producer_id::handle(b, asked).await
    } else {
        let home = home_of(b, asked.id());
        let answered = b.shards.call(home, move |broker| async move {
            handler::init_producer_id::handle_transactional(broker, asked, v).await
        });
        answered.await.ok_or(CloseReason::Stopping)?
    };
    encoded(&header, &response)
}

/// Answers a request about one transactional id where the id lives.
async fn at_home<P, T, R, F>(
    broker: &Rc<Broker<P>>,
    request: Request,
    work: F,
) -> Result<Reply, CloseReason>
where
    P: Platform,
    T: OfTransaction,
    R: Encodable + Send + 'static,
    F: AsyncFnOnce(Rc<Broker<P>>, T) -> R + Send + 'static,
{
    let (header, asked) = decoded::<T>(request)?;
    let home = home_of(broker, asked.id());
    let answered = broker
        .shards
        .call(home, |broker| async move { work(broker, asked).await });
    encoded(&header, &answered.await.ok_or(CloseReason::Stopping)?)
}

async fn add_partitions<P: Platform>(
    broker: &Rc<Broker<P>>,
    request: AddPartitionsToTxnRequest,
    version: i16,
) -> AddPartitionsToTxnResponse {
    if version < 4 {
        let producer = ProducerId(request.v3_and_below_producer_id.0);
        let asked = Asked {
            id: request.v3_and_below_transactional_id,
            producer: (producer, request.v3_and_below_producer_epoch),
            verify_only: false,
            topics: request.v3_and_below_topics,
            client_version: 0,
        };
        let result = add_for_one(broker, asked, version >= 2).await;
        return AddPartitionsToTxnResponse::default()
            .with_results_by_topic_v3_and_below(result.topic_results);
    }
    let asked = request.transactions.into_iter().map(|it| {
        let asked = Asked {
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
    asked: Asked,
    knows_fencing: bool,
) -> AddPartitionsToTxnResult {
    let kept = asked.clone();
    let home = home_of(broker, &asked.id.0);
    let answered = broker.shards.call(home, move |broker| async move {
        add_partitions_to_txn::handle(broker, asked, knows_fencing).await
    });
    let gone = || add_partitions_to_txn::refused(&kept, ErrorCode::NotCoordinator);
    answered.await.unwrap_or_else(gone)
}

async fn describe<P: Platform>(
    broker: &Rc<Broker<P>>,
    context: &Context,
    request: DescribeTransactionsRequest,
    version: i16,
) -> DescribeTransactionsResponse {
    use handler::describe_transactions::{handle_id, refused};
    let ids = request.transactional_ids;
    let home = |id: &TransactionalId| (home_of(broker, &id.0), id.clone());
    let asked = each(&ids, home).await;
    let room = Room::of(&broker.answers, context.peer.ip());
    let _counted = room.clone();
    let answers = at_homes(broker, asked, move |broker, id: TransactionalId| {
        let told = room.tell(version, || handle_id(&broker, &id));
        std::future::ready(told.unwrap_or_else(|| refused(&id, room.refusal())))
    });
    let answers = ids.iter().zip(answers.await);
    let gone = |id| refused(id, ErrorCode::NotCoordinator);
    let told = |(id, answer): (_, Option<_>)| answer.unwrap_or_else(|| gone(id));
    DescribeTransactionsResponse::default().with_transaction_states(each(answers, told).await)
}

async fn list<P: Platform>(
    broker: &Rc<Broker<P>>,
    context: &Context,
    request: ListTransactionsRequest,
) -> ListTransactionsResponse {
    let pattern = match handler::list_transactions::pattern(&request) {
        Ok(pattern) => Arc::new(pattern),
        Err(code) => {
            return ListTransactionsResponse::default().with_error_code(code.code());
        }
    };
    let states = request.state_filters.clone();
    let request = Arc::new(request);
    let room = Room::of_list(&broker.answers, context.peer.ip());
    let there = room.clone();
    let answers = broker.shards.call_all(move |broker| {
        let (pattern, request) = (Arc::clone(&pattern), Arc::clone(&request));
        let room = there.clone();
        async move {
            let pattern = (*pattern).as_ref();
            handler::list_transactions::handle(&broker, &request, pattern, &room).await
        }
    });
    handler::list_transactions::gather(&states, answers.await)
}
