//! How the settings of a node are resolved, and what a change of them does.

use super::*;
use crate::controller::tests::{apply, options, started};
use wire::records::metadata::{ClientQuotaRecord, ConfigRecord, MetadataRecord, QuotaEntityEntry};

fn set(resource: &str, name: &str, value: Option<&str>) -> MetadataRecord {
    let record = ConfigRecord {
        resource_type: 4,
        resource_name: resource.to_owned(),
        name: name.to_owned(),
        value: value.map(str::to_owned),
    };
    record.into()
}

fn quota(address: Option<&str>, value: f64) -> MetadataRecord {
    let entity = QuotaEntityEntry {
        entity_type: "ip".to_owned(),
        entity_name: address.map(str::to_owned),
    };
    let record = ClientQuotaRecord {
        entity: vec![entity],
        key: "connection_creation_rate".to_owned(),
        value,
        remove: false,
    };
    record.into()
}

#[test]
fn nothing_is_limited_before_somebody_says_so() {
    let config = NodeConfig::resolve(&started(), &options());
    assert_eq!(config.connections.all_max, usize::MAX);
    assert_eq!(
        (config.connections.rate, config.move_bytes_per_second),
        (None, None)
    );
    assert_eq!(config.cordoned, CordonedDirs::Only(Vec::new()));
}

#[test]
fn a_value_at_run_time_is_seen_and_its_removal_gives_back_that_of_the_file() {
    let (mut image, mut options) = (started(), options());
    let text = |text: &str| text.to_owned();
    options.static_settings = [
        (text("max.connections"), text("7")),
        (text("cordoned.log.dirs"), text("/a, /b")),
    ]
    .into();
    let configs = NodeConfigs::default();
    let mut seen = configs.subscribe();
    let mut learn = |image: &Image| {
        configs.learn(image, &options, None);
        let config = seen.borrow_and_update().clone().unwrap();
        let closed = configs.is_cordoned(Path::new("/b"));
        (config.connections.all_max, config.connections.rate, closed)
    };
    assert_eq!(learn(&image), (7, None, true));
    apply(&mut image, [set("", "max.connections", Some("20"))]);
    apply(
        &mut image,
        [set("1", "max.connection.creation.rate", Some("5"))],
    );
    apply(&mut image, [set("1", "cordoned.log.dirs", Some(""))]);
    assert_eq!(learn(&image), (20, Some(5.0), false));
    apply(&mut image, [set("1", "max.connections", Some("3"))]);
    apply(&mut image, [set("1", "cordoned.log.dirs", Some("*"))]);
    assert_eq!(learn(&image), (3, Some(5.0), true));
    for (resource, name) in [
        ("", "max.connections"),
        ("1", "max.connections"),
        ("1", "cordoned.log.dirs"),
    ] {
        apply(&mut image, [set(resource, name, None)]);
    }
    assert_eq!(learn(&image), (7, Some(5.0), true));
}

#[test]
fn a_listener_has_its_own_bounds_from_the_file_and_at_run_time() {
    let (mut image, mut options) = (started(), options());
    let listener = options.endpoints[0].listener.clone();
    let name = |base: &str| format!("listener.name.{}.{base}", listener.to_ascii_lowercase());
    options.static_settings = [(name(MAX_CONNECTIONS), "7".to_owned())].into();
    let own = |image: &Image| {
        let limits = NodeConfig::resolve(image, &options).connections;
        let own = limits.of_listener(&listener).unwrap();
        (own.max, own.rate)
    };
    assert_eq!(own(&image), (7, None));
    apply(&mut image, [set("", &name(MAX_CONNECTIONS), Some("20"))]);
    apply(&mut image, [set("1", &name(CREATION_RATE), Some("5"))]);
    assert_eq!(own(&image), (20, Some(5.0)));
}

#[test]
fn quotas_of_addresses_are_found_in_either_notation() {
    let mut image = started();
    apply(
        &mut image,
        [quota(None, 9.0), quota(Some("::ffff:10.0.0.1"), 2.0)],
    );
    let limits = NodeConfig::resolve(&image, &options()).connections;
    assert_eq!(limits.rate_per_address, Some(9.0));
    let own = limits.address_rates.get(&"10.0.0.1".parse().unwrap());
    assert_eq!(own, Some(&2.0));
}

#[test]
fn overrides_are_addresses_with_counts() {
    let read = |text: &'static str| {
        let read = parse_overrides(text)?;
        Ok(read
            .iter()
            .map(|(ip, max)| format!("{ip}={max}"))
            .collect::<Vec<_>>()
            .join(" "))
    };
    assert_eq!(read(""), Ok(String::new()));
    assert_eq!(
        read("10.0.0.1:5, [::1]:6,::2:0"),
        Ok("10.0.0.1=5 ::1=6 ::2=0".into())
    );
    for wrong in ["10.0.0.1", "host:3", "10.0.0.1:-1", "10.0.0.1:x"] {
        assert_eq!(read(wrong), Err(wrong));
    }
}
