//! Handshakes with listeners: who gets in, as whom, and what is resumed.

use rcgen::{ExtendedKeyUsagePurpose, SerialNumber};
use rustls::{HandshakeKind, PeerIncompatible, ProtocolVersion};

use super::*;
use crate::client::ClientTls;
use crate::made::{
    Authority, Files, PASSWORD, client, handshake, params, path, pem_stores, pkcs12, secret,
    self_signed, server, server_settings,
};
use crate::settings::{ClientTlsSettings, ServerTlsSettings, Setting, TlsNames};

/// An authority, a listener of it, and clients.
struct World {
    files: Files,
    authority: Authority,
}

impl World {
    fn new() -> Self {
        let authority = Authority::new("ca");
        let files = Files::new();
        files.write("ca.pem", authority.0.pem());
        let broker = authority.issue(&params("broker", &["localhost"]));
        files.write("broker.pem", broker.pem());
        Self { files, authority }
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        self.files.path(name)
    }

    fn stores(&self) -> StoreSettings {
        pem_stores(&self.file("broker.pem"), Some(&self.file("ca.pem")))
    }

    /// Connects with the key of a PEM file, or without one; returns who the client is.
    fn principal(&self, server: &ServerTls, key: Option<&str>) -> Result<String, String> {
        let key = key.map(|pem| self.files.write("client.pem", pem));
        let client = client(&self.file("ca.pem"), key.as_deref()).unwrap();
        let ends = handshake(server.config(), client.config(), "localhost");
        let (end, _) = ends.map_err(|error| error.to_string())?;
        let chain = end.peer_certificates().unwrap_or_default();
        server
            .principal_of(chain)
            .map_err(|problem| problem.to_string())
    }
}

#[test]
fn a_client_that_is_not_asked_is_anonymous_and_resumes() {
    let world = World::new();
    let tls = server(world.stores(), ClientAuth::None);
    assert_eq!(world.principal(&tls, None), Ok("ANONYMOUS".into()));
    let client = client(&world.file("ca.pem"), None).unwrap();
    let kind = |tls: &ServerTls| {
        let ends = handshake(tls.config(), client.config(), "localhost");
        ends.unwrap().0.handshake_kind().unwrap()
    };
    assert_eq!(kind(&tls), HandshakeKind::Full);
    assert_eq!(kind(&tls), HandshakeKind::Resumed);
    let another = server(world.stores(), ClientAuth::None);
    assert_eq!(kind(&another), HandshakeKind::Full);
}

#[test]
fn a_client_with_a_certificate_is_its_subject_and_does_not_resume() {
    let world = World::new();
    let tls = server(world.stores(), ClientAuth::Required);
    let made = world.authority.issue(&params("ada", &[]));
    let pem = made.pem();
    assert_eq!(world.principal(&tls, Some(&pem)), Ok("CN=ada".into()));
    let missing = world.principal(&tls, None);
    assert!(missing.is_err(), "{missing:?}");
    let key = world.files.write("ada.pem", &pem);
    let client = client(&world.file("ca.pem"), Some(&key)).unwrap();
    for _ in 0..3 {
        let (end, _) = handshake(tls.config(), client.config(), "localhost").unwrap();
        assert_eq!(end.handshake_kind(), Some(HandshakeKind::Full));
    }
}

#[test]
fn a_request_lets_missing_certificates_be_and_bad_ones_fail() {
    let world = World::new();
    let tls = server(world.stores(), ClientAuth::Requested);
    assert_eq!(world.principal(&tls, None), Ok("ANONYMOUS".into()));
    let good = world.authority.issue(&params("ada", &[])).pem();
    assert_eq!(world.principal(&tls, Some(&good)), Ok("CN=ada".into()));
    let stranger = Authority::new("ca").issue(&params("ada", &[])).pem();
    let failed = world.principal(&tls, Some(&stranger)).unwrap_err();
    assert!(failed.contains("invalid peer certificate"), "{failed}");
}

#[test]
fn what_is_expired_or_for_something_else_does_not_get_in() {
    let world = World::new();
    let tls = server(world.stores(), ClientAuth::Required);
    let mut old = params("ada", &[]);
    old.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let failed = world
        .principal(&tls, Some(&world.authority.issue(&old).pem()))
        .unwrap_err();
    assert!(failed.to_lowercase().contains("expired"), "{failed}");
    let mut early = params("ada", &[]);
    early.not_before = rcgen::date_time_ymd(2090, 1, 1);
    assert!(
        world
            .principal(&tls, Some(&world.authority.issue(&early).pem()))
            .is_err()
    );
    let mut other = params("ada", &[]);
    other.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    assert!(
        world
            .principal(&tls, Some(&world.authority.issue(&other).pem()))
            .is_err()
    );
    let below = world.authority.below("inter").issue(&params("ada", &[]));
    assert!(
        world.principal(&tls, Some(&below.pem())).is_err(),
        "its issuer is not sent"
    );
}

#[test]
fn a_chain_is_followed_and_a_long_one_is_not() {
    let world = World::new();
    let tls = server(world.stores(), ClientAuth::Required);
    let inter = world.authority.below("inter");
    let made = inter.issue(&params("ada", &[]));
    let pem = format!("{}{}", made.pem(), inter.0.pem());
    assert_eq!(world.principal(&tls, Some(&pem)), Ok("CN=ada".into()));
    let padded = format!("{}{}", made.pem(), inter.0.pem().repeat(9));
    assert_eq!(world.principal(&tls, Some(&padded)), Ok("CN=ada".into()));
    let mut chain = vec![CertificateDer::from(made.certificate.der().to_vec())];
    let links = (0..10).map(|_| inter.0.der().clone());
    chain.extend(links);
    let (first, rest) = chain.split_first().unwrap();
    let verifier = Trust::of(&[world.authority.0.der().clone()], Vec::new()).0;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = verifier.for_clients(&provider, false).unwrap();
    let now = rustls_pki_types::UnixTime::now();
    let error = verifier
        .verify_client_cert(first, rest, now)
        .unwrap_err()
        .to_string();
    assert!(error.contains("more than 10 certificates"), "{error}");
}

#[test]
fn a_certificate_in_the_trust_store_is_trusted_by_itself() {
    let world = World::new();
    // As `openssl req -x509` makes them: it may issue others.
    let mut own = params("ada", &[]);
    own.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let own = self_signed(&own);
    let stranger = Authority::new("elsewhere").issue(&params("bob", &[]));
    let mut old = params("eve", &[]);
    old.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let old = self_signed(&old);
    let mut other = params("eve", &[]);
    other.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let other = self_signed(&other);
    let all = [&own, &stranger, &old, &other].map(|made| made.certificate.pem());
    let trusted = world.files.write("trusted.pem", all.concat());
    let stores = pem_stores(&world.file("broker.pem"), Some(&trusted));
    let tls = server(stores, ClientAuth::Required);
    assert_eq!(world.principal(&tls, Some(&own.pem())), Ok("CN=ada".into()));
    assert_eq!(
        world.principal(&tls, Some(&stranger.pem())),
        Ok("CN=bob".into())
    );
    assert!(world.principal(&tls, Some(&old.pem())).is_err());
    assert!(world.principal(&tls, Some(&other.pem())).is_err());
    let same_name = self_signed(&params("ada", &[]));
    assert!(world.principal(&tls, Some(&same_name.pem())).is_err());
}

#[test]
fn a_certificate_in_the_trust_store_that_may_issue_others_is_trusted_for_its_purpose_only() {
    let world = World::new();
    let mut other = params("eve", &[]);
    other.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    other.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let other = self_signed(&other);
    let trusted = world.files.write("trusted.pem", other.certificate.pem());
    let stores = pem_stores(&world.file("broker.pem"), Some(&trusted));
    let tls = server(stores, ClientAuth::Required);
    assert!(world.principal(&tls, Some(&other.pem())).is_err());
}

#[test]
fn what_is_revoked_does_not_get_in_for_being_in_the_trust_store() {
    let world = World::new();
    let elsewhere = Authority::new("elsewhere");
    let issue = |serial: u8| {
        let mut params = params("bob", &[]);
        params.serial_number = Some(SerialNumber::from_slice(&[serial]));
        elsewhere.issue(&params)
    };
    let (good, bad) = (issue(1), issue(7));
    // The issuer is not trusted, these two are.
    let pem = [&good, &bad].map(|made| made.certificate.pem());
    let trusted = world.files.write("trusted.pem", pem.concat());
    // Another authority may use the same numbers.
    let lists = [elsewhere.revoke(&[7]), world.authority.revoke(&[1])];
    let lists = world.files.write("crl.pem", lists.concat());
    let stores = StoreSettings {
        crl_location: path("ssl.crl.location", &lists),
        ..pem_stores(&world.file("broker.pem"), Some(&trusted))
    };
    let tls = server(stores, ClientAuth::Required);
    assert_eq!(
        world.principal(&tls, Some(&good.pem())),
        Ok("CN=bob".into())
    );
    let refused = world.principal(&tls, Some(&bad.pem())).unwrap_err();
    assert!(refused.to_lowercase().contains("revoked"), "{refused}");
}

#[test]
fn what_is_revoked_does_not_get_in() {
    let world = World::new();
    let issue = |serial: u8| {
        let mut params = params("ada", &[]);
        params.serial_number = Some(SerialNumber::from_slice(&[serial]));
        world.authority.issue(&params).pem()
    };
    let list = world.files.write("crl.pem", world.authority.revoke(&[7]));
    let stores = StoreSettings {
        crl_location: path("ssl.crl.location", &list),
        ..world.stores()
    };
    let tls = server(stores.clone(), ClientAuth::Requested);
    assert_eq!(world.principal(&tls, Some(&issue(8))), Ok("CN=ada".into()));
    let failed = world.principal(&tls, Some(&issue(7))).unwrap_err();
    assert!(failed.to_lowercase().contains("revoked"), "{failed}");
    let opened = ServerTls::open(&server_settings(stores, ClientAuth::None)).unwrap();
    let said = opened.warnings[0].to_string();
    assert!(
        said.starts_with("ssl.crl.location: has no effect"),
        "{said}"
    );
    world.files.write(
        "crl.pem",
        "-----BEGIN X509 CRL-----\nMAA=\n-----END X509 CRL-----\n",
    );
    let stores = StoreSettings {
        crl_location: path("ssl.crl.location", &list),
        ..world.stores()
    };
    let broken = ServerTls::open(&server_settings(stores, ClientAuth::Required)).unwrap_err();
    assert_eq!(broken.setting, "ssl.crl.location");
}

#[test]
fn versions_and_suites_are_those_of_the_settings() {
    let world = World::new();
    let list = |name: &str, item: &str| Some(Setting::new(name, vec![item.to_owned()]));
    let open = |version: &str, suite: &str| {
        let mut settings = server_settings(world.stores(), ClientAuth::None);
        settings.names.protocols = list("ssl.enabled.protocols", version);
        settings.names.cipher_suites = list("ssl.cipher.suites", suite);
        ServerTls::open(&settings)
    };
    let tls = open("TLSv1.2", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384")
        .unwrap()
        .tls;
    let client = client(&world.file("ca.pem"), None).unwrap();
    let (end, _) = handshake(tls.config(), client.config(), "localhost").unwrap();
    assert_eq!(end.protocol_version(), Some(ProtocolVersion::TLSv1_2));
    let suite = end.negotiated_cipher_suite().unwrap().suite();
    assert_eq!(
        suite,
        rustls::CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384
    );
    let (end, _) = handshake(tls.config(), client.config(), "localhost").unwrap();
    assert_eq!(end.handshake_kind(), Some(HandshakeKind::Resumed));
    let misfit = open("TLSv1.2", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384").unwrap_err();
    assert!(
        misfit.to_string().contains("no handshake would succeed"),
        "{misfit}"
    );
}

#[test]
fn a_client_without_a_suite_for_the_key_fails_for_want_of_a_suite() {
    let world = World::new();
    let tls = server(world.stores(), ClientAuth::None);
    let list = |name: &str, item: &str| Some(Setting::new(name, vec![item.to_owned()]));
    let settings = ClientTlsSettings {
        stores: StoreSettings {
            keystore_location: None,
            ..world.stores()
        },
        names: TlsNames {
            protocols: list("ssl.enabled.protocols", "TLSv1.2"),
            cipher_suites: list("ssl.cipher.suites", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
        },
        checks_host: true,
    };
    let client = ClientTls::open(&settings).unwrap().tls;
    // Not AccessDenied, as if the client were let in with another name.
    assert_eq!(
        handshake(tls.config(), client.config(), "localhost").err(),
        Some(rustls::Error::PeerIncompatible(
            PeerIncompatible::NoCipherSuitesInCommon
        ))
    );
}

#[test]
fn a_store_of_pkcs12_is_served_with() {
    let world = World::new();
    let made = world.authority.issue(&params("broker", &["localhost"]));
    let root = world.authority.0.der().as_ref();
    let chain = [made.certificate.der().as_ref(), root];
    let location = world
        .files
        .write("broker.p12", pkcs12(Some((&made.key, &chain)), &[root]));
    let stores = StoreSettings {
        keystore_location: path("ssl.keystore.location", &location),
        keystore_password: secret("ssl.keystore.password", PASSWORD),
        truststore_location: path("ssl.truststore.location", &location),
        truststore_password: secret("ssl.truststore.password", PASSWORD),
        ..StoreSettings::default()
    };
    let tls = server(stores, ClientAuth::Required);
    let pem = world.authority.issue(&params("ada", &[])).pem();
    assert_eq!(world.principal(&tls, Some(&pem)), Ok("CN=ada".into()));
}

#[test]
fn rules_name_the_client_or_end_the_connection() {
    let world = World::new();
    let mut settings = server_settings(world.stores(), ClientAuth::Required);
    settings.principal_rules = PrincipalRules::parse("RULE:^CN=a(.*)$/user-$1/").unwrap();
    let tls = ServerTls::open(&settings).unwrap().tls;
    let pem = world.authority.issue(&params("ada", &[])).pem();
    assert_eq!(world.principal(&tls, Some(&pem)), Ok("user-da".into()));
    let pem = world.authority.issue(&params("bob", &[])).pem();
    let failed = world.principal(&tls, Some(&pem)).unwrap_err();
    assert_eq!(
        failed,
        "no rule of ssl.principal.mapping.rules matches \"CN=bob\""
    );
}

#[test]
fn a_listener_without_what_it_needs_is_refused_before_files_are_looked_at() {
    let said = |settings: &ServerTlsSettings| {
        let (problems, _) = settings.check();
        problems.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let empty = said(&server_settings(
        StoreSettings::default(),
        ClientAuth::Required,
    ));
    assert_eq!(empty.len(), 2, "{empty:?}");
    assert!(empty[0].starts_with("ssl.keystore.location: a listener of TLS needs a key"));
    assert!(empty[1].starts_with("ssl.client.auth: clients are asked for certificates"));
    let world = World::new();
    let sound = server_settings(world.stores(), ClientAuth::Required);
    assert_eq!(said(&sound), Vec::<String>::new());
}

#[test]
fn certificates_that_clients_refuse_are_warned_of() {
    let world = World::new();
    let mut bare = params("broker", &[]);
    bare.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = world
        .files
        .write("bare.pem", world.authority.issue(&bare).pem());
    let opened = ServerTls::open(&server_settings(pem_stores(&key, None), ClientAuth::None));
    let said: Vec<_> = opened
        .unwrap()
        .warnings
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].contains("is not for servers") && said[1].contains("names no host"));
}

#[test]
fn sets_tell_when_they_run_out_and_show_no_secret() {
    let world = World::new();
    let mut soon = params("broker", &["localhost"]);
    soon.not_after = rcgen::date_time_ymd(2040, 1, 1);
    let made = world.authority.issue(&soon);
    let key = world.files.write("soon.pem", made.pem());
    let tls = server(pem_stores(&key, None), ClientAuth::None);
    let expiry = tls.expiry().unwrap();
    assert_eq!(
        (expiry.not_after, expiry.subject.as_str()),
        (2_208_988_800, "CN=broker")
    );
    let settings = server_settings(
        StoreSettings {
            key_password: secret("ssl.key.password", PASSWORD),
            keystore_key: secret("ssl.keystore.key", &made.key.serialize_pem()),
            ..world.stores()
        },
        ClientAuth::None,
    );
    let shown = format!("{tls:?} {settings:?} {:?}", ServerTls::open(&settings));
    assert!(
        !shown.contains(PASSWORD) && !shown.contains("PRIVATE KEY"),
        "{shown}"
    );
}

#[test]
fn a_new_set_takes_the_place_of_an_old_one_if_it_is_for_the_same() {
    use crate::reload::{AllowedChanges, ReloadVerdict, decide};
    let world = World::new();
    let open = || server(world.stores(), ClientAuth::None);
    let old = open();
    let allowed = AllowedChanges::default();
    assert_eq!(decide(&old, &open(), allowed), ReloadVerdict::Same);
    let renewed = world
        .authority
        .issue(&params("broker", &["localhost", "b"]));
    world.files.write("broker.pem", renewed.pem());
    assert_eq!(decide(&old, &open(), allowed), ReloadVerdict::Take);
    let other = world.authority.issue(&params("other", &["localhost"]));
    world.files.write("broker.pem", other.pem());
    assert!(matches!(
        decide(&old, &open(), allowed),
        ReloadVerdict::Keep(_)
    ));
    let trusted = format!("{}{}", world.authority.0.pem(), Authority::new("b").0.pem());
    world.files.write("broker.pem", renewed.pem());
    let before = open();
    world.files.write("ca.pem", trusted);
    assert_eq!(decide(&before, &open(), allowed), ReloadVerdict::Take);
}
