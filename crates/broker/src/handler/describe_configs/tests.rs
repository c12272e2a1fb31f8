//! What `DescribeConfigs` shows, and what the two ways of altering do.

use wire::acl::CLUSTER_NAME;
use wire::messages::alter_configs_request::{self as replace, AlterConfigsRequest};
use wire::messages::incremental_alter_configs_request::{
    self as incremental, IncrementalAlterConfigsRequest,
};

use super::*;
use crate::access::given::limited_to;
use crate::controller::decide::{alter_configs, incremental_alter_configs};
use crate::controller::stores::CheckedStores;
use crate::controller::tests::{apply, create, options, started};
use crate::image::Image;
use crate::rests::tests::rested;

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.into())
}

fn described(image: &Image, kind: ResourceType, name: &str) -> DescribeConfigsResult {
    let options = options();
    let resource = DescribeConfigsResource::default()
        .with_resource_type(kind.0)
        .with_resource_name(text(name))
        .with_configuration_keys(None);
    let request = DescribeConfigsRequest::default()
        .with_resources(vec![resource])
        .with_include_synonyms(true)
        .with_include_documentation(true);
    let rules = Rules {
        image,
        options: &options,
    };
    let mut response = rested(handle(
        rules,
        &Access::unlimited(),
        &request,
        4,
        &Room::some(),
    ))
    .1;
    response.results.remove(0)
}

/// Returns value and source of one setting.
fn one(result: &DescribeConfigsResult, name: &str) -> (Option<String>, i8) {
    let config = result
        .configs
        .iter()
        .find(|config| config.name.as_str() == name)
        .unwrap();
    (
        config.value.as_ref().map(ToString::to_string),
        config.config_source,
    )
}

fn alter(image: &mut Image, operations: &[(&str, i8, Option<&str>)]) -> (i16, String) {
    let options = options();
    let config = |(name, code, value): &(&str, i8, Option<&str>)| {
        incremental::AlterableConfig::default()
            .with_name(text(name))
            .with_config_operation(*code)
            .with_value(value.map(text))
    };
    let resource = incremental::AlterConfigsResource::default()
        .with_resource_type(2)
        .with_resource_name(text("t"))
        .with_configs(operations.iter().map(config).collect());
    let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
    let rules = Rules {
        image,
        options: &options,
    };
    let access = Access::unlimited();
    let outcome = rested(incremental_alter_configs::handle(
        rules,
        &access,
        &request,
        &CheckedStores::default(),
    ))
    .1;
    apply(image, outcome.records);
    let response = &outcome.response.responses[0];
    let message = response.error_message.as_ref().map(ToString::to_string);
    (response.error_code, message.unwrap_or_default())
}

fn with_topic() -> Image {
    let mut image = started();
    create(&mut image, "t", 1, &[("retention.ms", "5")]);
    image
}

#[test]
fn a_topic_shows_every_setting_with_its_source() {
    let result = described(&with_topic(), ResourceType::TOPIC, "t");
    assert_eq!(
        (result.error_code, result.configs.len()),
        (0, DEFINITIONS.len() - 1),
        "the internal one only where it is set"
    );
    assert_eq!(one(&result, "retention.ms"), (Some("5".into()), 1));
    assert_eq!(
        one(&result, "segment.bytes"),
        (Some("1073741824".into()), 5)
    );
    let shown = |c: &DescribeConfigsResourceResult| c.documentation.is_some() && c.config_type != 0;
    assert!(result.configs.iter().all(shown));
}

#[test]
fn a_broker_shows_its_table_and_hides_secrets() {
    let mut image = with_topic();
    let result = described(&image, ResourceType::BROKER, "1");
    assert_eq!(result.configs.len(), options().config_keys.len());
    let of = |name: &str| {
        result
            .configs
            .iter()
            .find(|c| c.name.as_str() == name)
            .unwrap()
    };
    assert!(of("num.partitions").read_only && !of("log.segment.bytes").read_only);
    assert!(of("ssl.key.password").is_sensitive && of("ssl.key.password").value.is_none());
    assert!(
        described(&image, ResourceType::BROKER, "")
            .configs
            .is_empty()
    );

    let set = wire::records::metadata::ConfigRecord {
        resource_type: 4,
        resource_name: String::new(),
        name: "log.segment.bytes".into(),
        value: Some("2000000".into()),
    };
    apply(&mut image, [set.into()]);
    let result = described(&image, ResourceType::BROKER, "");
    assert_eq!(
        one(&result, "log.segment.bytes"),
        (Some("2000000".into()), 3)
    );
    let result = described(&image, ResourceType::TOPIC, "t");
    assert_eq!(one(&result, "segment.bytes"), (Some("2000000".into()), 3));
}

#[test]
fn what_is_not_there_is_an_error() {
    let image = with_topic();
    let code = |kind, name: &str| described(&image, kind, name).error_code;
    assert_eq!(code(ResourceType::TOPIC, "u"), 3);
    assert_eq!(code(ResourceType::TOPIC, "a b"), 17);
    assert_eq!(code(ResourceType::BROKER, "7"), 42);
    assert_eq!(code(ResourceType(99), "x"), 42);
    assert_eq!(code(ResourceType::BROKER_LOGGER, "1"), 0);
}

#[test]
fn incremental_changes_leave_the_rest_alone() {
    let mut image = with_topic();
    assert_eq!(
        alter(&mut image, &[("segment.ms", 0, Some("7"))]),
        (0, String::new())
    );
    assert_eq!(
        alter(&mut image, &[("retention.ms", 1, None)]),
        (0, String::new())
    );
    let result = described(&image, ResourceType::TOPIC, "t");
    assert_eq!(one(&result, "segment.ms"), (Some("7".into()), 1));
    assert_eq!(one(&result, "retention.ms").1, 5);
}

#[test]
fn lists_are_appended_to_and_subtracted_from() {
    let mut image = with_topic();
    let policy = |image: &Image| {
        image
            .setting(ResourceType::TOPIC, "t", "cleanup.policy")
            .map(str::to_owned)
    };
    alter(&mut image, &[("cleanup.policy", 2, Some("compact"))]);
    assert_eq!(policy(&image).as_deref(), Some("delete,compact"));
    alter(&mut image, &[("cleanup.policy", 3, Some("delete"))]);
    assert_eq!(policy(&image).as_deref(), Some("compact"));
    assert_eq!(
        alter(&mut image, &[("retention.ms", 2, Some("1"))]),
        (
            40,
            "Can't APPEND to key retention.ms because its type is not LIST.".into()
        )
    );
}

#[test]
fn changes_that_make_no_sense_are_refused() {
    let mut image = with_topic();
    let checks = [
        (
            ("nope", 0, Some("1")),
            (40, "Unknown topic config name: nope"),
        ),
        (
            ("retention.ms", 0, None),
            (42, "Null value not supported for : retention.ms"),
        ),
        (
            ("retention.ms", 9, Some("1")),
            (42, "Unknown operations type 9"),
        ),
    ];
    for (operation, (code, message)) in checks {
        assert_eq!(alter(&mut image, &[operation]), (code, message.into()));
    }
    let twice = [
        ("retention.ms", 0, Some("1")),
        ("retention.ms", 0, Some("2")),
    ];
    assert_eq!(
        alter(&mut image, &twice),
        (42, "Error due to duplicate config keys".into())
    );
    let mut empty = started();
    assert_eq!(
        alter(&mut empty, &[("retention.ms", 0, Some("1"))]),
        (3, "The topic 't' does not exist.".into())
    );
}

#[test]
fn replacing_removes_what_is_not_named() {
    let (mut image, options) = (with_topic(), options());
    let config = replace::AlterableConfig::default()
        .with_name(text("segment.ms"))
        .with_value(Some(text("7")));
    let resource = replace::AlterConfigsResource::default()
        .with_resource_type(2)
        .with_resource_name(text("t"))
        .with_configs(vec![config]);
    let request = AlterConfigsRequest::default().with_resources(vec![resource.clone()]);
    let rules = Rules {
        image: &image,
        options: &options,
    };
    let outcome = rested(alter_configs::handle(
        rules,
        &Access::unlimited(),
        &request,
        &CheckedStores::default(),
    ))
    .1;
    let twice = AlterConfigsRequest::default().with_resources(vec![resource.clone(), resource]);
    let refused = rested(alter_configs::handle(
        rules,
        &Access::unlimited(),
        &twice,
        &CheckedStores::default(),
    ))
    .1
    .response
    .responses;
    assert_eq!(
        refused.iter().map(|r| r.error_code).collect::<Vec<_>>(),
        [42, 42]
    );
    apply(&mut image, outcome.records);
    let settings = image.settings(ResourceType::TOPIC, "t").unwrap();
    assert_eq!(
        settings.iter().collect::<Vec<_>>(),
        [(&"segment.ms".into(), &"7".into())]
    );
}

/// Codes of what a client gets that describes a resource, sets a setting of it, and replaces all.
fn codes(access: &Access, image: &Image, (kind, name): (i8, &str), setting: &str) -> [i16; 3] {
    let options = options();
    let rules = Rules {
        image,
        options: &options,
    };
    let resource = DescribeConfigsResource::default()
        .with_resource_type(kind)
        .with_resource_name(text(name))
        .with_configuration_keys(None);
    let request = DescribeConfigsRequest::default().with_resources(vec![resource]);
    let described = rested(handle(rules, access, &request, 4, &Room::some())).1;
    let described = &described.results[0];
    assert_eq!(described.configs.is_empty(), described.error_code != 0);
    let config = incremental::AlterableConfig::default()
        .with_name(text(setting))
        .with_value(Some(text("100000")));
    let resource = incremental::AlterConfigsResource::default()
        .with_resource_type(kind)
        .with_resource_name(text(name))
        .with_configs(vec![config]);
    let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
    let set = rested(incremental_alter_configs::handle(
        rules,
        access,
        &request,
        &CheckedStores::default(),
    ))
    .1;
    let config = replace::AlterableConfig::default()
        .with_name(text(setting))
        .with_value(Some(text("100000")));
    let resource = replace::AlterConfigsResource::default()
        .with_resource_type(kind)
        .with_resource_name(text(name))
        .with_configs(vec![config]);
    let request = AlterConfigsRequest::default().with_resources(vec![resource]);
    let replaced = rested(alter_configs::handle(
        rules,
        access,
        &request,
        &CheckedStores::default(),
    ))
    .1;
    let (set_code, replaced_code) = (
        set.response.responses[0].error_code,
        replaced.response.responses[0].error_code,
    );
    assert_eq!(set.records.is_empty(), set_code != 0);
    assert_eq!(replaced.records.is_empty(), replaced_code != 0);
    [described.error_code, set_code, replaced_code]
}

#[test]
fn settings_are_shown_and_altered_for_who_has_the_right_on_their_resource() {
    use Operation::{AlterConfigs, DescribeConfigs};
    use wire::acl::ResourceType::{Cluster, Group, Topic};
    let image = with_topic();
    let (topic, group) = ((2, "t"), (32, "g"));
    let (broker, metrics) = ((4, "1"), (16, "m"));
    for (resource, setting, owner, name, denied) in [
        (topic, "retention.ms", Topic, "t", 29),
        (group, "consumer.session.timeout.ms", Group, "g", 30),
        (broker, "log.retention.ms", Cluster, CLUSTER_NAME, 31),
        (metrics, "interval.ms", Cluster, CLUSTER_NAME, 31),
    ] {
        let all = |access: &Access| codes(access, &image, resource, setting);
        assert_eq!(all(&limited_to(&[])), [denied; 3], "{resource:?}");
        let sees = limited_to(&[(owner, name, DescribeConfigs)]);
        assert_eq!(all(&sees)[1..], [denied; 2], "{resource:?}");
        assert_ne!(all(&sees)[0], denied, "{resource:?}");
        let alters = limited_to(&[(owner, name, AlterConfigs)]);
        for code in all(&alters) {
            assert_ne!(code, denied, "{resource:?}");
        }
    }
    let alters = limited_to(&[(Topic, "t", AlterConfigs)]);
    assert_eq!(codes(&alters, &image, topic, "retention.ms"), [0; 3]);
}

#[test]
fn a_refusal_says_what_kind_of_right_is_missing_and_not_whether_there_is_such_a_topic() {
    let (image, options) = (with_topic(), options());
    let rules = Rules {
        image: &image,
        options: &options,
    };
    let resource = |kind, name| {
        DescribeConfigsResource::default()
            .with_resource_type(kind)
            .with_resource_name(text(name))
            .with_configuration_keys(None)
    };
    let asked = vec![
        resource(2, "t"),
        resource(2, "none"),
        resource(2, "bad name"),
        resource(8, "1"),
        resource(32, "g"),
    ];
    let request = DescribeConfigsRequest::default().with_resources(asked);
    let access = limited_to(&[]);
    let response = rested(handle(rules, &access, &request, 4, &Room::some())).1;
    let told = response.results.iter().map(|result| {
        let message = result.error_message.as_deref().unwrap_or_default();
        (result.error_code, message)
    });
    let topic = (29, "Topic authorization failed.");
    assert_eq!(
        told.collect::<Vec<_>>(),
        [
            topic,
            topic,
            topic,
            (31, "Cluster authorization failed."),
            (30, "Group authorization failed.")
        ]
    );
}
