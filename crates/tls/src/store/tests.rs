//! Which settings are a store, and what is said of those that are none.

use std::path::Path;

use rcgen::KeyPair;

use super::*;
use crate::made::{
    Authority, Files, PASSWORD, params, path, pem_stores, pkcs12, secret, self_signed, text,
};

/// A key and its certificate, as PEM.
fn made() -> (String, String) {
    let made = self_signed(&params("a", &["a"]));
    (made.key.serialize_pem(), made.certificate.pem())
}

fn open_keys(settings: &StoreSettings) -> Result<usize, TlsProblem> {
    let place = key_place(settings)?;
    let place = place.expect("a key is given");
    let mut warnings = Vec::new();
    let keys = keys(settings, &place, &mut warnings)?;
    assert_eq!(warnings, []);
    Ok(keys.len())
}

fn open_trusted(settings: &StoreSettings) -> Result<(usize, usize), TlsProblem> {
    let place = trust_place(settings)?;
    let place = place.expect("trusted certificates are given");
    let mut warnings = Vec::new();
    Ok((trusted(&place, &mut warnings)?.len(), warnings.len()))
}

#[track_caller]
fn check(problem: Result<usize, TlsProblem>, setting: &str, part: &str) {
    let problem = problem.unwrap_err();
    assert_eq!(problem.setting, setting, "{problem}");
    let said = problem.to_string();
    assert!(said.contains(part), "{said}");
    assert!(
        !problem.advice.is_empty() && !said.contains(PASSWORD),
        "{said}"
    );
}

fn pkcs12_store(location: &Path, password: Option<&str>) -> StoreSettings {
    StoreSettings {
        keystore_location: path("ssl.keystore.location", location),
        keystore_password: password.and_then(|it| secret("ssl.keystore.password", it)),
        truststore_location: path("ssl.truststore.location", location),
        truststore_password: password.and_then(|it| secret("ssl.truststore.password", it)),
        ..StoreSettings::default()
    }
}

#[test]
fn pem_is_taken_from_a_file_and_from_settings() {
    let (key, certificate) = made();
    let files = Files::new();
    let location = files.write("a.pem", format!("{certificate}{key}"));
    assert_eq!(open_keys(&pem_stores(&location, None)), Ok(1));
    let inline = StoreSettings {
        keystore_type: text("ssl.keystore.type", "PEM"),
        keystore_key: secret("ssl.keystore.key", &key.replace('\n', " ")),
        keystore_certificate_chain: secret("ssl.keystore.certificate.chain", &certificate),
        truststore_type: text("ssl.truststore.type", "pem"),
        truststore_certificates: secret(
            "ssl.truststore.certificates",
            &format!("{certificate} {certificate}"),
        ),
        ..StoreSettings::default()
    };
    assert_eq!(open_keys(&inline), Ok(1));
    assert_eq!(open_trusted(&inline), Ok((2, 0)));
}

#[test]
fn what_kafka_forbids_is_forbidden() {
    let none = StoreSettings::default();
    let place = |settings: StoreSettings| key_place(&settings).map(|_| 0);
    let key = || secret("ssl.keystore.key", "k");
    let chain = || secret("ssl.keystore.certificate.chain", "c");
    let pem = || text("ssl.keystore.type", "PEM");
    let location = || path("ssl.keystore.location", Path::new("/k"));
    let password = || secret("ssl.keystore.password", PASSWORD);
    let one = StoreSettings {
        keystore_key: key(),
        ..none.clone()
    };
    check(place(one), "ssl.keystore.key", "set ssl.keystore.type=PEM");
    let one = StoreSettings {
        keystore_key: key(),
        keystore_type: pem(),
        ..none.clone()
    };
    check(
        place(one),
        "ssl.keystore.key",
        "set ssl.keystore.certificate.chain",
    );
    let one = StoreSettings {
        keystore_certificate_chain: chain(),
        ..none.clone()
    };
    check(
        place(one),
        "ssl.keystore.certificate.chain",
        "set ssl.keystore.key",
    );
    let both = StoreSettings {
        keystore_key: key(),
        keystore_certificate_chain: chain(),
        keystore_type: pem(),
        keystore_location: location(),
        ..none.clone()
    };
    check(
        place(both),
        "ssl.keystore.location",
        "only one of them can hold",
    );
    let with_password = StoreSettings {
        keystore_key: key(),
        keystore_certificate_chain: chain(),
        keystore_type: pem(),
        keystore_password: password(),
        ..none.clone()
    };
    check(
        place(with_password),
        "ssl.keystore.password",
        "PEM has no password",
    );
    let file = StoreSettings {
        keystore_location: location(),
        keystore_type: pem(),
        keystore_password: password(),
        ..none.clone()
    };
    check(place(file), "ssl.keystore.password", "take it out");
    let open = StoreSettings {
        keystore_location: location(),
        ..none.clone()
    };
    check(
        place(open),
        "ssl.keystore.location",
        "set ssl.keystore.password",
    );
    let alone = StoreSettings {
        keystore_password: password(),
        ..none.clone()
    };
    check(
        place(alone),
        "ssl.keystore.password",
        "set ssl.keystore.location",
    );
    let other = text("ssl.keystore.type", "BCFKS");
    let other = StoreSettings {
        keystore_type: other,
        ..none.clone()
    };
    check(place(other), "ssl.keystore.type", "no such type");
    assert!(key_place(&none).is_ok_and(|place| place.is_none()));
}

#[test]
fn the_same_holds_for_trusted_certificates_and_names_have_the_prefix_of_the_listener() {
    let none = StoreSettings {
        prefix: "listener.name.in.".into(),
        ..StoreSettings::default()
    };
    let place = |settings: StoreSettings| trust_place(&settings).map(|_| 0);
    let given = || secret("listener.name.in.ssl.truststore.certificates", "c");
    let one = StoreSettings {
        truststore_certificates: given(),
        ..none.clone()
    };
    let setting = "listener.name.in.ssl.truststore.certificates";
    check(
        place(one),
        setting,
        "set listener.name.in.ssl.truststore.type=PEM",
    );
    let alone = secret("ssl.truststore.password", PASSWORD);
    let alone = StoreSettings {
        truststore_password: alone,
        ..none.clone()
    };
    let part = "set listener.name.in.ssl.truststore.location";
    check(place(alone), "ssl.truststore.password", part);
    let file = StoreSettings {
        truststore_type: text("ssl.truststore.type", "PEM"),
        truststore_location: path("ssl.truststore.location", Path::new("/t")),
        truststore_password: secret("ssl.truststore.password", PASSWORD),
        ..none.clone()
    };
    check(place(file), "ssl.truststore.password", "take it out");
    assert!(trust_place(&none).is_ok_and(|place| place.is_none()));
}

#[test]
fn a_key_belongs_to_the_first_certificate_of_its_chain() {
    let (key, certificate) = made();
    let (_, other) = made();
    let files = Files::new();
    let open = |text: String| open_keys(&pem_stores(&files.write("a.pem", text), None));
    let setting = "ssl.keystore.location";
    check(
        open(format!("{key}{other}{certificate}")),
        setting,
        "does not belong to the first",
    );
    check(open(key.clone()), setting, "holds no certificate");
    check(open(certificate.clone()), setting, "holds no private key");
    check(
        open(format!("{key}{key}{certificate}")),
        setting,
        "more than one private key",
    );
    let long = certificate.repeat(CHAIN_MAX + 1);
    check(open(format!("{key}{long}")), setting, "longer than 10");
    check(
        open(format!("{key}{}", &certificate[..100])),
        setting,
        "no -----END",
    );
    let nothing = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
    check(open(format!("{key}{nothing}")), setting, "cannot be read");
}

#[test]
fn pkcs12_is_opened_with_its_password_whatever_the_type_is_called() {
    let authority = Authority::new("ca");
    let made = authority.issue(&params("a", &["a"]));
    let leaf = made.certificate.der().as_ref();
    let root = authority.0.der().as_ref();
    let files = Files::new();
    let store = pkcs12(Some((&made.key, &[leaf, root])), &[root]);
    let location = files.write("a.p12", store);
    for name in ["JKS", "PKCS12", "pkcs12"] {
        let settings = StoreSettings {
            keystore_type: text("ssl.keystore.type", name),
            ..pkcs12_store(&location, Some(PASSWORD))
        };
        assert_eq!(open_keys(&settings), Ok(1));
    }
    let settings = pkcs12_store(&location, Some(PASSWORD));
    let place = key_place(&settings).unwrap().unwrap();
    let keys = keys(&settings, &place, &mut Vec::new()).unwrap();
    let chain: Vec<&[u8]> = keys[0].cert.iter().map(AsRef::as_ref).collect();
    assert_eq!(chain, [leaf, root]);
    assert_eq!(open_trusted(&settings).map(|(trusted, _)| trusted), Ok(2));
    let wrong = pkcs12_store(&location, Some("hunter3"));
    check(
        open_keys(&wrong),
        "ssl.keystore.location",
        "correct ssl.keystore.password",
    );
    let without = pkcs12_store(&location, None);
    let trusted = open_trusted(&without).map(|_| 0);
    check(
        trusted,
        "ssl.truststore.location",
        "set ssl.truststore.password",
    );
}

#[test]
fn what_is_no_pkcs12_is_said_to_be_what_it_is() {
    let files = Files::new();
    let open = |bytes: &[u8]| {
        let location = files.write("a.jks", bytes);
        open_keys(&pkcs12_store(&location, Some(PASSWORD)))
    };
    let setting = "ssl.keystore.location";
    check(
        open(b"\xfe\xed\xfe\xed\0\0\0\x02"),
        setting,
        "keytool -importkeystore -srckeystore",
    );
    check(
        open(b"-----BEGIN PRIVATE KEY-----\n"),
        setting,
        "set ssl.keystore.type=PEM",
    );
    check(open(b""), setting, "no PKCS#12 store that is whole");
    check(
        open(b"0\x82\x01\x00"),
        setting,
        "no PKCS#12 store that is whole",
    );
    let root = Authority::new("ca");
    let trusted_only = pkcs12(None, &[root.0.der().as_ref()]);
    check(
        open(&trusted_only),
        setting,
        "holds no private key with a certificate",
    );
    let whole = pkcs12(None, &[root.0.der().as_ref()]);
    for end in (0..whole.len()).step_by(97) {
        assert!(open(&whole[..end]).is_err(), "{end}");
    }
}

#[test]
fn a_bundle_of_certificates_is_trusted_and_nothing_is_not() {
    let authority = Authority::new("ca");
    let files = Files::new();
    let open = |text: &str| {
        let location = files.write("ca.pem", text);
        let settings = pem_stores(&location, Some(&location));
        open_trusted(&settings).map(|(trusted, _)| trusted)
    };
    assert_eq!(open(&authority.0.pem().repeat(3)), Ok(3));
    check(
        open("no certificate"),
        "ssl.truststore.location",
        "holds no certificate",
    );
    let key = KeyPair::generate().unwrap().serialize_pem();
    check(
        open(&key),
        "ssl.truststore.location",
        "holds no certificate",
    );
}

#[test]
fn revocation_lists_are_pem_or_der() {
    let authority = Authority::new("ca");
    let files = Files::new();
    let read = |bytes: &[u8]| {
        let location = Setting::new("ssl.crl.location", files.write("crl", bytes));
        revocation_lists(&location).map(|lists| lists.len())
    };
    let list = authority.revoke(&[1]);
    assert_eq!(read(list.repeat(2).as_bytes()), Ok(2));
    let der = pem::sections(list.as_bytes()).unwrap();
    assert_eq!(read(&der[0].der), Ok(1));
    let certificate = authority.0.pem();
    check(
        read(certificate.as_bytes()),
        "ssl.crl.location",
        "holds no revocation list",
    );
    let old = include_bytes!("../../tests/golden/crl-v1.pem").as_slice();
    check(read(old), "ssl.crl.location", "of version 1");
    let der = pem::sections(old).unwrap();
    check(read(&der[0].der), "ssl.crl.location", "crl_extensions");
    let both = [old, list.as_bytes()].concat();
    check(read(&both), "ssl.crl.location", "of version 1");
}

#[test]
fn the_password_of_a_key_is_asked_for_by_its_full_name() {
    let encrypted = include_bytes!("../../tests/golden/keys/pbes2-aes256.pem").as_slice();
    let (_, certificate) = made();
    let files = Files::new();
    let location = files.write("a.pem", [encrypted, certificate.as_bytes()].concat());
    let own = "listener.name.in.ssl.key.password";
    let settings = |password: Option<&str>| StoreSettings {
        prefix: "listener.name.in.".into(),
        key_password: password.and_then(|it| secret(own, it)),
        ..pem_stores(&location, None)
    };
    let setting = "ssl.keystore.location";
    check(
        open_keys(&settings(None)),
        setting,
        "set listener.name.in.ssl.key.password",
    );
    check(
        open_keys(&settings(Some("x"))),
        setting,
        "correct listener.name.in.ssl.key.password",
    );
    let fits = "does not belong to the first certificate";
    check(open_keys(&settings(Some(PASSWORD))), setting, fits);
}

#[test]
fn a_certificate_of_version_1_is_served_with() {
    // As `openssl x509 -req` made them for years.
    let files = Files::new();
    let pem = include_bytes!("../../tests/golden/version-1.pem");
    let location = files.write("a.pem", pem);
    assert_eq!(open_keys(&pem_stores(&location, None)), Ok(1));
}

#[test]
fn stores_of_openssl_and_keytool_are_opened() {
    let files = Files::new();
    let open = |bytes: &[u8]| {
        let location = files.write("a.p12", bytes);
        let settings = pkcs12_store(&location, Some(PASSWORD));
        (open_keys(&settings), open_trusted(&settings))
    };
    for store in [
        include_bytes!("../../tests/golden/openssl.p12").as_slice(),
        include_bytes!("../../tests/golden/openssl-legacy.p12").as_slice(),
    ] {
        assert_eq!(open(store), (Ok(1), Ok((1, 0))));
    }
    // A key and a trusted certificate, which Java takes for two.
    let keytool = open(include_bytes!("../../tests/golden/keytool.p12"));
    assert_eq!(keytool, (Ok(1), Ok((2, 0))));
    let (keys, trusted) = open(include_bytes!("../../tests/golden/openssl-trusted.p12"));
    check(keys, "ssl.keystore.location", "holds no private key");
    // Java sees no trusted certificate in it.
    assert_eq!(trusted, Ok((1, 1)));
    let (keys, trusted) = open(include_bytes!("../../tests/golden/keytool.jks"));
    check(
        keys,
        "ssl.keystore.location",
        "keytool -importkeystore -srckeystore",
    );
    check(
        trusted.map(|_| 0),
        "ssl.truststore.location",
        "Java's own format",
    );
}
