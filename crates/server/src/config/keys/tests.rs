//! The table is consistent.

use std::collections::HashSet;

use super::*;
use crate::config::values::fits;

#[test]
fn names_are_unique_and_lower_case() {
    let mut seen = HashSet::new();
    for key in all() {
        assert!(seen.insert(key.name), "{} is there twice", key.name);
        let sound = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '.';
        assert!(
            key.name.replace(MEMBER, "x").chars().all(sound),
            "{}: environment variables could not name it",
            key.name
        );
    }
}

#[test]
fn the_broker_shows_the_keys_of_each_tier_there_is() {
    let shown = |members: &[&str], name: &str| {
        let found = for_broker(members).iter().find(|key| key.name == name);
        found.map(|key| key.default)
    };
    assert_eq!(shown(&[], "storage.tier.fast.medium"), None);
    let tiers = ["fast", "bulk"];
    assert_eq!(
        shown(&tiers, "storage.tier.fast.medium"),
        Some(Some("file"))
    );
    assert_eq!(shown(&tiers, "storage.tier.bulk.paths"), Some(None));
    assert_eq!(shown(&tiers, "storage.tiers"), Some(None));
    assert_eq!(shown(&tiers, "storage.tier.<name>.paths"), None);
}

#[test]
fn every_key_is_described_and_its_default_is_allowed() {
    for key in all() {
        assert!(key.doc.ends_with('.'), "{} needs a sentence", key.name);
        if let Some(default) = key.default {
            assert!(fits(key, default), "{}={default} is not allowed", key.name);
        }
    }
}

#[test]
fn a_key_is_in_the_table_or_among_those_without_effect_but_not_both() {
    for key in all() {
        assert_eq!(why_without_effect(key.name), None, "{}", key.name);
    }
}

#[test]
fn kafka_keys_without_effect_are_known_with_a_reason() {
    for name in [
        "security.providers",
        "share.coordinator.threads",
        "fetch.purgatory.purge.interval.requests",
        "listener.name.in.side.num.network.threads",
        "listener.name.internal.gssapi.sasl.jaas.config",
        "listener.name.internal.num.network.threads",
        "inter.broker.protocol.version",
        "zookeeper.connect",
        "config.providers.file.param.secrets",
    ] {
        assert!(why_without_effect(name).is_some(), "{name}");
    }
    assert_eq!(why_without_effect("ssl.keystore.locatoin"), None);
    assert_eq!(why_without_effect("listener.name.internal.nonsense"), None);
}

#[test]
fn a_setting_of_a_listener_is_found_whatever_its_name() {
    let found = |name| of_listener(name).map(|(listener, key)| (listener, key.name));
    let jaas = Some(("in.side", "sasl.jaas.config"));
    assert_eq!(found("listener.name.in.side.plain.sasl.jaas.config"), jaas);
    assert_eq!(
        found("listener.name.in.side.scram-sha-512.sasl.jaas.config"),
        jaas
    );
    let life = Some(("in", "connections.max.reauth.ms"));
    assert_eq!(found("listener.name.in.connections.max.reauth.ms"), life);
    assert_eq!(
        found("listener.name.in.plain.connections.max.reauth.ms"),
        life
    );
    let store = Some(("in.side", "ssl.keystore.location"));
    assert_eq!(found("listener.name.in.side.ssl.keystore.location"), store);
    let most = Some(("in", "max.connections"));
    assert_eq!(found("listener.name.in.max.connections"), most);
    for name in [
        "listener.name.in.sasl.jaas.config",
        "listener.name.plain.sasl.jaas.config",
        "listener.name.max.connections",
        "listener.name.in.log.dirs",
        "listener.name.ssl.keystore.location",
        "listener.name.in.ssl.reload.interval.ms",
        "sasl.jaas.config",
    ] {
        assert_eq!(found(name), None, "{name}");
    }
}

#[test]
fn the_nearest_key_is_the_one_that_was_meant() {
    assert_eq!(nearest("log.dir s"), Some("log.dirs"));
    assert_eq!(nearest("log.retention.hour"), Some("log.retention.hours"));
    assert_eq!(nearest("log.retention.hrs"), Some("log.retention.hours"));
    assert_eq!(nearest("message.max.byte"), Some("message.max.bytes"));
    assert_eq!(nearest("xyzzy.plugh"), None);
    let capacity = Some("storage.tier.<name>.capacity");
    assert_eq!(
        nearest("storage.tier.a-rather-long-name.capacitie"),
        capacity
    );
}

#[test]
fn every_key_of_the_table_is_short_enough_to_have_a_nearest() {
    assert!(all().all(|key| key.name.len() <= NAME_BYTES_MAX));
    assert_eq!(nearest(&"log.dirs".repeat(20)), None);
}

#[test]
fn a_line_of_a_secret_is_not_named() {
    let base64 = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";
    let word = format!("a.{}", "b".repeat(WORD_BYTES_MAX + 1));
    for key in [
        base64,
        "q2w",
        "-----BEGIN PRIVATE KEY-----",
        "a.b/c",
        &word,
        "",
    ] {
        assert_eq!(shown(key), NOT_SHOWN);
    }
    for key in [
        "node.id",
        "log.retention.hrs",
        "my.own_key-1",
        "x.y",
        "port",
    ] {
        let is_shown = shown(key) == key;
        assert_eq!(is_shown, key.contains('.') || find(key).is_some(), "{key}");
    }
}
