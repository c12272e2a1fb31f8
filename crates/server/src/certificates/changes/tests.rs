//! Values that clients set for stores: what they stand before, and which are refused.

use std::fs;
use std::path::Path;

use broker::listener_stores::STORE_SETTINGS;
use tls::StoreSettings;
use wire::sasl::Secret;

use super::*;
use crate::certificates::tests::{listeners, pem, pem_for};

fn values(set: &[(&'static str, &str)]) -> StoreValues {
    let one = |(name, value): &(&'static str, &str)| (*name, Secret::new((*value).to_owned()));
    set.iter().map(one).collect()
}

/// A listener that serves with the key of a file.
fn listener(file: &Path) -> CheckedListener {
    let given = listeners(file).remove("OUT").unwrap();
    let Opened { tls, .. } = ServerTls::open(&given).unwrap();
    CheckedListener {
        lower: "out".to_owned(),
        given,
        in_force: watch::Sender::new(Arc::new(tls)).subscribe(),
    }
}

#[track_caller]
fn refused(listener: &CheckedListener, set: &[(&'static str, &str)], part: &str) {
    let why = listener.check(&values(set)).unwrap_err();
    assert!(why.contains(part), "{why}");
}

#[test]
fn each_setting_of_stores_stands_before_that_of_the_start_and_has_its_own_name() {
    let dir = tempfile::tempdir().unwrap();
    let given = listeners(&dir.path().join("key.pem"))
        .remove("OUT")
        .unwrap();
    for setting in STORE_SETTINGS {
        let set = with_values(&given, "out", &values(&[(setting, "of a client")]));
        let shown = format!("{:?}", set.stores);
        assert!(
            shown.contains(&format!("listener.name.out.{setting}")),
            "{setting}: {shown}"
        );
        let before = StoreSettings {
            prefix: set.stores.prefix.clone(),
            ..given.stores.clone()
        };
        assert_ne!(set.stores, before, "{setting}");
    }
    let hidden = with_values(&given, "out", &values(&[("ssl.keystore.location", " ")]));
    assert_eq!(
        hidden.stores.keystore_location, None,
        "an empty value hides that of the start"
    );
    assert_eq!(
        with_values(&given, "out", &values(&[])).stores,
        given.stores
    );
}

#[test]
fn a_store_that_fits_is_taken_and_another_says_why_not() {
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let listener = listener(&place("key.pem", &pem()));
    let next = place("next.pem", &pem());
    let next = next.to_str().unwrap();
    let location = "ssl.keystore.location";
    assert_eq!(listener.check(&values(&[(location, next)])), Ok(()));
    assert_eq!(listener.check(&values(&[])), Ok(()), "that of the start");
    let (whole, torn) = (pem(), dir.path().join("torn.pem"));
    fs::write(&torn, &whole[..whole.len() / 2]).unwrap();
    refused(&listener, &[(location, torn.to_str().unwrap())], "-----END");
    let other = place("other.pem", &pem_for("elsewhere"));
    let other = other.to_str().unwrap();
    refused(
        &listener,
        &[(location, other)],
        "ssl.allow.san.changes=true",
    );
    refused(
        &listener,
        &[(location, "/nowhere")],
        "listener.name.out.ssl.keystore.location: /nowhere",
    );
    refused(
        &listener,
        &[(location, next), ("ssl.keystore.type", "JKS")],
        "ssl.keystore.password",
    );
    let password = [(location, next), ("ssl.keystore.password", "hunter2")];
    let why = listener.check(&values(&password)).unwrap_err();
    assert!(!why.contains("hunter2"), "{why}");
    let trust = [
        ("ssl.truststore.type", "PEM"),
        ("ssl.truststore.location", next),
    ];
    refused(&listener, &trust, "Cannot add SSL truststore");
}
