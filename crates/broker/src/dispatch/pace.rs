//! Charges the time of a request to its client, after the request is answered.
//!
//! Produce and Fetch charge for themselves, because the response depends on it. Requests between
//! brokers are free.

use std::rc::Rc;

use platform::Platform;
use wire::kafka::Api;

use super::reply::Reply;
use super::row::{Quota, Row};
use crate::Broker;
use crate::handler::Context;
use crate::quota::{Charge, QuotaKind, RequestTime, wire_ms};

/// Charges the request, and returns the reply with the resulting throttle time.
pub(super) async fn paced<P: Platform>(
    broker: &Rc<Broker<P>>,
    context: &Context,
    busy: &RequestTime,
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
    let spent = busy.percent();
    let charged = broker.charge(QuotaKind::Request, context, spent, Charge::Used);
    let pause = charged.await.max(before);
    told((row, api, version), Reply::Pause(Some(response), pause))
}

/// Writes the throttle time of a reply into its response.
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
