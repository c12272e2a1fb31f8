//! `ListTransactions` (key 66), versions 0-2: transactional ids, filtered by state, producer or
//! age.
//!
//! Version 1 added the filter by transaction duration, version 2 the expression (RE2) that ids have
//! to match. Unlike Kafka, the request is refused as a whole if the ids do not fit into a response;
//! a client with more ids filters by expression, state or producer.

use std::collections::BTreeSet;
use std::rc::Rc;

use platform::Platform;
use wire::acl::ResourceType;
use wire::messages::list_transactions_response::TransactionState;
use wire::messages::{ListTransactionsRequest, ListTransactionsResponse, TransactionalId};
use wire::protocol::StrBytes;
use wire::types::ErrorCode;

use crate::Broker;
use crate::access::Access;
use crate::group::Pattern;
use crate::room::Room;
use crate::transaction::state;

/// Memory of an id in a response in addition to its text, while the response is built.
const ID_BYTES: usize = 64;

/// Returns the ids of one shard, without those that the client may not describe.
pub(crate) async fn handle<P: Platform>(
    broker: &Rc<Broker<P>>,
    request: &ListTransactionsRequest,
    pattern: Option<&Pattern>,
    room: &Room,
    access: &Access,
) -> Result<Vec<TransactionState>, ErrorCode> {
    let now_ms = broker.platform.clock().wall_ms();
    // Sets, because a request may name any number of them.
    let states: BTreeSet<&str> = request.state_filters.iter().map(StrBytes::as_str).collect();
    let producers: BTreeSet<i64> = request.producer_id_filters.iter().map(|id| id.0).collect();
    let longer_than = request.duration_filter;
    let mut fits = true;
    let listed = broker.transactions.survey(|id, entry| {
        let state = entry.state.name();
        let wanted = fits
            && (states.is_empty() || states.contains(state))
            && (producers.is_empty() || producers.contains(&entry.producer_id.0))
            && pattern.is_none_or(|pattern| pattern.matches(id))
            && (longer_than < 0 || now_ms.saturating_sub(entry.start_ms) > longer_than)
            && access.sees(ResourceType::TransactionalId, id);
        fits = fits && (!wanted || room.has(id.len().saturating_add(ID_BYTES)));
        wanted.then(|| {
            TransactionState::default()
                .with_transactional_id(TransactionalId(StrBytes::from_string(id.to_owned())))
                .with_producer_id(entry.producer_id.0.into())
                .with_transaction_state(StrBytes::from_static_str(state))
        })
    });
    let listed = listed.await?;
    if fits {
        Ok(listed)
    } else {
        Err(room.refusal())
    }
}

/// Compiles the expression of a request; an empty one is none.
pub(crate) fn pattern(request: &ListTransactionsRequest) -> Result<Option<Pattern>, ErrorCode> {
    let text = request.transactional_id_pattern.as_ref();
    let text = text.filter(|text| !text.is_empty());
    let compiled = text.map(|text| Pattern::compile(text.as_str()));
    compiled
        .transpose()
        .map_err(|_| ErrorCode::InvalidRegularExpression)
}

/// Combines the ids of all shards; returns names of unknown states to the client.
pub(crate) fn gather(
    request_states: &[StrBytes],
    shards: Vec<Result<Vec<TransactionState>, ErrorCode>>,
) -> ListTransactionsResponse {
    let unknown = request_states.iter();
    let unknown = unknown.filter(|name| !state::TransactionState::is_name(name.as_str()));
    let mut all = Vec::new();
    for ids in shards {
        match ids {
            Ok(ids) => all.extend(ids),
            Err(code) => return ListTransactionsResponse::default().with_error_code(code.code()),
        }
    }
    ListTransactionsResponse::default()
        .with_unknown_state_filters(unknown.cloned().collect())
        .with_transaction_states(all)
}
