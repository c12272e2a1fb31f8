//! Which brokers `UnregisterBroker` removes from the metadata, and which not.

use wire::messages::BrokerId;
use wire::records::metadata::RegisterBrokerRecord;

use super::*;
use crate::controller::tests::{apply, options, started};
use crate::image::Image;

fn unregister(image: &Image, id: i32) -> ControllerDecision<UnregisterBrokerResponse> {
    let request = UnregisterBrokerRequest::default().with_broker_id(BrokerId(id));
    let options = options();
    let rules = Rules {
        image,
        options: &options,
    };
    handle(rules, &request)
}

#[test]
fn a_broker_that_is_not_known_is_not_unregistered() {
    for id in [77, -1] {
        let outcome = unregister(&started(), id);
        let code = ErrorCode::BrokerIdNotRegistered.code();
        assert_eq!(outcome.response.error_code, code);
        assert_eq!(outcome.records, []);
    }
}

#[test]
fn the_node_that_answers_stays() {
    let outcome = unregister(&started(), options().node_id.0);
    assert_eq!(
        outcome.response.error_code,
        ErrorCode::InvalidRequest.code()
    );
    let message = outcome.response.error_message.unwrap_or_default();
    assert!(message.contains("only node"), "{message}");
    assert_eq!(outcome.records, []);
}

#[test]
fn another_broker_of_the_log_is_taken_out() {
    let mut image = started();
    let other = RegisterBrokerRecord {
        broker_id: 77,
        broker_epoch: 5,
        ..RegisterBrokerRecord::default()
    };
    apply(&mut image, [other.into()]);
    let outcome = unregister(&image, 77);
    assert_eq!(outcome.response.error_code, 0);
    apply(&mut image, outcome.records);
    assert!(image.broker(NodeId(77)).is_none());
    assert!(image.broker(options().node_id).is_some());
}
