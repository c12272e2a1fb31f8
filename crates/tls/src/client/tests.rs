//! Handshakes with servers: which of them are taken.

use super::*;
use crate::made::{Authority, Files, client, handshake, params, pem_stores, self_signed, server};
use crate::settings::{ClientAuth, TlsNames};

/// Returns why a client does not take a server, `None` if it does.
fn refusal(trusted: &str, key: &str, (host, checks_host): (&str, bool)) -> Option<String> {
    let files = Files::new();
    let trusted = files.write("ca.pem", trusted);
    let server = server(
        pem_stores(&files.write("a.pem", key), None),
        ClientAuth::None,
    );
    let mut stores = pem_stores(&trusted, Some(&trusted));
    stores.keystore_location = None;
    let settings = ClientTlsSettings {
        stores,
        names: TlsNames::default(),
        checks_host,
    };
    let client = ClientTls::open(&settings).unwrap().tls;
    let ends = handshake(server.config(), client.config(), host);
    ends.err().map(|error| error.to_string())
}

#[test]
fn a_server_is_taken_for_the_name_that_was_connected_to() {
    let authority = Authority::new("ca");
    let key = authority
        .issue(&params("a", &["localhost", "127.0.0.1"]))
        .pem();
    let trusted = authority.0.pem();
    assert_eq!(refusal(&trusted, &key, ("localhost", true)), None);
    assert_eq!(refusal(&trusted, &key, ("127.0.0.1", true)), None);
    assert!(refusal(&trusted, &key, ("elsewhere", true)).is_some());
    assert_eq!(refusal(&trusted, &key, ("elsewhere", false)), None);
}

#[test]
fn without_a_look_at_the_name_all_else_is_verified() {
    let stranger = Authority::new("ca")
        .issue(&params("a", &["localhost"]))
        .pem();
    let trusted = Authority::new("ca").0.pem();
    for host in ["localhost", "elsewhere"] {
        assert!(
            refusal(&trusted, &stranger, (host, false)).is_some(),
            "{host}"
        );
    }
    let authority = Authority::new("ca");
    let mut old = params("a", &["localhost"]);
    old.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let old = authority.issue(&old).pem();
    assert!(refusal(&authority.0.pem(), &old, ("elsewhere", false)).is_some());
}

#[test]
fn a_server_that_is_trusted_itself_is_taken_for_its_names() {
    let mut own = params("a", &["localhost"]);
    own.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let own = self_signed(&own);
    let trusted = own.certificate.pem();
    assert_eq!(refusal(&trusted, &own.pem(), ("localhost", true)), None);
    assert!(refusal(&trusted, &own.pem(), ("elsewhere", true)).is_some());
    assert_eq!(refusal(&trusted, &own.pem(), ("elsewhere", false)), None);
}

#[test]
fn a_client_without_a_key_has_none_and_one_with_a_wrong_key_is_refused() {
    let authority = Authority::new("ca");
    let files = Files::new();
    let trusted = files.write("ca.pem", authority.0.pem());
    assert!(
        client(&trusted, None).is_ok_and(|it| !it.config().client_auth_cert_resolver.has_certs())
    );
    let key = files.write("key.pem", "nothing");
    let problem = client(&trusted, Some(&key)).unwrap_err();
    assert_eq!(problem.setting, "ssl.keystore.location");
}
