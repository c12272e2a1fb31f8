//! Requests of administrators: for every API and version one that is granted, and one with something in it that cannot
//! be.

use wire::kafka::Api;
use wire::messages::alter_client_quotas_request as alter;
use wire::messages::describe_client_quotas_request as describe;
use wire::messages::{AlterClientQuotasRequest, DescribeClientQuotasRequest};

use crate::harness::asks::text;
use crate::questions::{Question, ask};

/// `None` for what other requests are about.
pub(crate) fn question(api: Api, v: i16, granted: bool) -> Option<Question> {
    Some(match api {
        Api::DescribeClientQuotas => {
            const ANY: i8 = 2;
            let component = describe::ComponentData::default()
                .with_entity_type(text("user"))
                .with_match_type(if granted { ANY } else { 9 })
                .with_match(None);
            let request = DescribeClientQuotasRequest::default();
            ask(v, request.with_components(vec![component]))
        }
        Api::AlterClientQuotas => {
            let name = alter::EntityData::default()
                .with_entity_type(text("client-id"))
                .with_entity_name(Some(text("nobody")));
            let quota = if granted {
                "producer_byte_rate"
            } else {
                "speed"
            };
            let op = alter::OpData::default()
                .with_key(text(quota))
                .with_value(5.0);
            let entry = alter::EntryData::default()
                .with_entity(vec![name])
                .with_ops(vec![op]);
            let request = AlterClientQuotasRequest::default();
            ask(v, request.with_entries(vec![entry]))
        }
        _ => return None,
    })
}
