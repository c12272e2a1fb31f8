//! What the time of a request costs its client, once it is answered.
//!
//! Produce and Fetch charge for themselves, because the answer depends on it. What brokers ask of
//! each other is free.

use std::rc::Rc;

use platform::Platform;
use wire::kafka::Api;

use super::reply::Reply;
use super::row::{Quota, Row};
use crate::Broker;
use crate::handler::Context;
use crate::quota::{Busy, Charge, Kind, wire_ms};

/// The reply, and the pause that comes with it.
pub(super) async fn paced<P: Platform>(
    broker: &Rc<Broker<P>>,
    context: &Context,
    busy: &Busy,
    (row, api, version): (&Row, Api, i16),
    reply: Reply,
) -> Reply {
    if charges_itself(row) {
        return reply;
    }
    let (response, before) = match reply {
        Reply::Send(response) => (response, std::time::Duration::ZERO),
        Reply::Pause(Some(response), before) => (response, before),
        other => return other,
    };
    let client = context.client_id.as_str();
    let spent = busy.percent();
    let charged = broker.charge(Kind::Request, client, spent, Charge::Used);
    let pause = charged.await.max(before);
    told((row, api, version), Reply::Pause(Some(response), pause))
}

/// The reply, with the pause that comes with it in it.
pub(super) fn told((row, api, version): (&Row, Api, i16), reply: Reply) -> Reply {
    if charges_itself(row) {
        return reply;
    }
    match reply {
        Reply::Pause(Some(response), pause) if pause.is_zero() => Reply::Send(response),
        Reply::Pause(Some(response), pause) => {
            let response = response.throttled(api, version, wire_ms(pause));
            Reply::Pause(Some(response), pause)
        }
        other => other,
    }
}

const fn charges_itself(row: &Row) -> bool {
    match row.quota {
        Quota::Own | Quota::Free => true,
        Quota::Time | Quota::Mutations { .. } => false,
    }
}
