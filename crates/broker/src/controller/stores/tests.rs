//! Which changes of stores are taken.

use std::collections::BTreeMap;
use std::sync::Arc;

use wire::StrBytes;
use wire::messages::IncrementalAlterConfigsRequest;
use wire::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};

use super::*;
use crate::access::Access;
use crate::access::given::{limited_to, logged};
use crate::controller::decide::incremental_alter_configs::{changed_stores, handle};
use crate::controller::tests::{apply, options, started};
use crate::image::Image;
use crate::listener_stores::PendingStoreCheck;
use crate::options::BrokerOptions;
use crate::rests::tests::rested;
use wire::types::NodeId;

const LOCATION: &str = "listener.name.out.side.ssl.keystore.location";

/// Permits every value but `bad`.
#[derive(Debug)]
struct Stores;

impl ListenerStores for Stores {
    fn check(&self, listener: &str, values: StoreValues) -> PendingStoreCheck {
        let is_bad = values.values().any(|value| value.expose() == "bad");
        let verdict = if is_bad {
            Err(format!("{listener}: it does not fit"))
        } else {
            Ok(())
        };
        Box::pin(std::future::ready(verdict))
    }

    fn read_again(&self) {}
}

fn with_stores() -> BrokerOptions {
    BrokerOptions {
        stores: Some(Arc::new(Stores)),
        ..options()
    }
}

fn request(broker: &str, set: &[(&str, Option<&str>)]) -> IncrementalAlterConfigsRequest {
    let text = |text: &str| StrBytes::from_string(text.to_owned());
    let config = |(name, value): &(&str, Option<&str>)| {
        AlterableConfig::default()
            .with_name(text(name))
            .with_config_operation(i8::from(value.is_none()))
            .with_value(value.map(text))
    };
    let resource = AlterConfigsResource::default()
        .with_resource_type(4)
        .with_resource_name(text(broker))
        .with_configs(set.iter().map(config).collect());
    IncrementalAlterConfigsRequest::default().with_resources(vec![resource])
}

fn rules<'a>(image: &'a Image, options: &'a BrokerOptions) -> Rules<'a> {
    Rules { image, options }
}

/// Has a request checked on one image and decided on another; returns the refusal, if it is one.
fn decided(
    (checked, image): (&Image, &mut Image),
    request: &IncrementalAlterConfigsRequest,
) -> Option<String> {
    let (options, access) = (with_stores(), Access::unlimited());
    let changed = changed_stores(rules(checked, &options), &access, request);
    let stores = rested(CheckedStores::of(&Stores, changed)).1;
    let outcome = rested(handle(rules(image, &options), &access, request, &stores)).1;
    apply(image, outcome.records);
    let told = &outcome.response.responses[0];
    (told.error_code != 0).then(|| {
        assert_eq!(told.error_code, ErrorCode::InvalidRequest.code());
        told.error_message.as_deref().unwrap_or_default().to_owned()
    })
}

fn now(image: &mut Image, broker: &str, set: &[(&str, Option<&str>)]) -> Option<String> {
    let checked = image.clone();
    decided((&checked, image), &request(broker, set))
}

#[test]
fn values_that_fit_are_taken_and_taken_back() {
    let mut image = started();
    let password = "listener.name.out.side.ssl.keystore.password";
    let set = [(LOCATION, Some("good")), (password, Some("hunter2"))];
    assert_eq!(now(&mut image, "1", &set), None);
    let values = set_by_clients(&image, NodeId(1));
    assert_eq!(values["out.side"].len(), 2);
    assert!(!format!("{values:?}").contains("hunter2"));
    assert_eq!(set_by_clients(&image, NodeId(2)), BTreeMap::new());
    assert_eq!(now(&mut image, "1", &[(LOCATION, None)]), None);
    assert_eq!(set_by_clients(&image, NodeId(1))["out.side"].len(), 1);
}

#[test]
fn values_that_do_not_fit_are_refused_and_the_rest_of_the_request_with_them() {
    let mut image = started();
    let set = [("log.retention.ms", Some("1000")), (LOCATION, Some("bad"))];
    let why = now(&mut image, "1", &set).unwrap();
    assert_eq!(
        why,
        "Invalid value org.apache.kafka.common.config.ConfigException: Validation of dynamic config \
         update of SSLFactory failed: out.side: it does not fit for configuration Invalid dynamic \
         configuration"
    );
    assert_eq!(image.settings(ResourceType::BROKER, "1"), None);
}

#[test]
fn what_was_checked_is_what_is_decided_on() {
    let (checked, mut image) = (started(), started());
    let password = "listener.name.out.side.ssl.keystore.password";
    assert_eq!(now(&mut image, "1", &[(password, Some("other"))]), None);
    let set = request("1", &[(LOCATION, Some("good"))]);
    let why = decided((&checked, &mut image), &set).unwrap();
    assert!(
        why.contains("changed meanwhile: send the request again"),
        "{why}"
    );
    assert_eq!(now(&mut image, "1", &[(LOCATION, Some("good"))]), None);
    // The same values again change nothing, whatever a check would say.
    let same = decided(
        (&checked, &mut image),
        &request("1", &[(password, Some("other"))]),
    );
    assert_eq!(same, None);
}

#[test]
fn stores_change_for_one_listener_of_one_broker_only() {
    let mut image = started();
    let why = now(&mut image, "1", &[("ssl.truststore.type", Some("PEM"))]).unwrap();
    assert_eq!(
        why,
        "These security configs can be dynamically updated only per-listener using the listener \
         prefix: [ssl.truststore.type]"
    );
    let why = now(&mut image, "", &[(LOCATION, Some("good"))]).unwrap();
    assert!(
        why.starts_with("Cannot update these configs at default cluster level"),
        "{why}"
    );
    let login = "listener.name.out.plain.sasl.jaas.config";
    let why = now(&mut image, "1", &[(login, Some("x"))]).unwrap();
    assert!(
        why.starts_with("Cannot update these configs dynamically"),
        "{why}"
    );
}

#[test]
fn a_right_that_the_client_lacks_is_counted_once_though_it_is_asked_for_twice() {
    let (image, options) = (started(), with_stores());
    let set = request("1", &[(LOCATION, Some("good"))]);
    for (access, counter, is_taken) in [
        (limited_to(&[]), "denied_total", false),
        (logged(&[]), "would_deny_total", true),
    ] {
        let changed = changed_stores(rules(&image, &options), &access, &set);
        assert_eq!(changed.len(), usize::from(is_taken));
        assert!(!access.shown_denials().contains("_total{"));
        let stores = rested(CheckedStores::of(&Stores, changed)).1;
        let outcome = rested(handle(rules(&image, &options), &access, &set, &stores)).1;
        assert_eq!(outcome.response.responses[0].error_code == 0, is_taken);
        let told = access.shown_denials();
        let counted =
            format!("{counter}{{resource_type=\"CLUSTER\",operation=\"ALTER_CONFIGS\"}} 1\n");
        assert!(told.contains(&counted), "{told}");
    }
}

#[test]
fn records_of_other_resources_change_no_stores() {
    let (mut image, options) = (started(), with_stores());
    assert_eq!(now(&mut image, "1", &[(LOCATION, Some("good"))]), None);
    let record = |kind: ResourceType, resource: &str, name: &str| {
        MetadataRecord::from(ConfigRecord {
            resource_type: kind.0,
            resource_name: resource.to_owned(),
            name: name.to_owned(),
            value: Some("other".to_owned()),
        })
    };
    let others = [
        record(ResourceType::TOPIC, "1", LOCATION),
        record(ResourceType::BROKER, "", LOCATION),
        record(ResourceType::BROKER, "2", LOCATION),
        record(ResourceType::BROKER, "1", "log.retention.ms"),
    ];
    assert!(changed_by(rules(&image, &options), &others).is_empty());
    let own = [record(ResourceType::BROKER, "1", LOCATION)];
    assert_eq!(changed_by(rules(&image, &options), &own).len(), 1);
}
