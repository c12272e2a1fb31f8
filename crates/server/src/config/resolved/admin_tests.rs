//! The admin endpoint: whether it speaks TLS, who its clients are, and what refuses the start.

use ::tls::ClientAuth;

use super::tests::{check_refused, check_warned, resolve, settings};
use super::*;

const KEY: &str = "listener.name.admin.ssl.keystore.type=PEM\n\
                   listener.name.admin.ssl.keystore.location=/k.pem\n";
const TRUST: &str = "listener.name.admin.ssl.truststore.type=PEM\n\
                     listener.name.admin.ssl.truststore.location=/t.pem\n";

#[test]
fn the_endpoint_speaks_tls_if_it_has_settings_of_its_own() {
    assert!(settings("").admin.tls.is_none());
    let of_all = "listeners=A://:9092\nlistener.security.protocol.map=A:SSL\n\
                  ssl.keystore.type=PEM\nssl.keystore.location=/all.pem\nssl.client.auth=none\n";
    let all = settings(of_all);
    assert!(all.admin.tls.is_none());
    let own = settings(&format!("{of_all}{KEY}"));
    let tls = own.admin.tls.as_ref().unwrap();
    let location = tls.stores.keystore_location.as_ref().unwrap();
    assert_eq!(location.value, PathBuf::from("/k.pem"));
    assert_eq!(tls.client_auth.value, ClientAuth::None);
    let names: Vec<_> = own.tls_sets().into_keys().collect();
    assert_eq!(names, ["A", "ADMIN"]);
    let shared = format!("{of_all}listener.name.admin.ssl.enabled.protocols=TLSv1.3\n");
    let shared = settings(&shared).admin.tls.unwrap();
    let location = shared.stores.keystore_location.unwrap();
    assert_eq!(location.value, PathBuf::from("/all.pem"));
    check_refused(
        "listener.name.admin.ssl.enabled.protocols=TLSv1.3\n",
        "default: listener.name.admin.ssl.keystore.location=: a listener of TLS needs a key, and \
         none is given: set it and listener.name.admin.ssl.keystore.password (PKCS12), or \
         listener.name.admin.ssl.keystore.type=PEM and listener.name.admin.ssl.keystore.key with \
         listener.name.admin.ssl.keystore.certificate.chain",
    );
}

#[test]
fn certificates_are_asked_for_and_probes_need_none() {
    let tls = settings(&format!("{KEY}{TRUST}admin.auth=mtls\n"))
        .admin
        .tls;
    assert_eq!(tls.unwrap().client_auth.value, ClientAuth::Requested);
    let must =
        format!("{KEY}{TRUST}admin.auth=mtls\nlistener.name.admin.ssl.client.auth=required\n");
    let tls = settings(&must).admin.tls;
    assert_eq!(tls.unwrap().client_auth.value, ClientAuth::Required);
}

#[test]
fn an_endpoint_that_could_not_know_its_clients_is_refused() {
    check_refused(
        "admin.auth=bearer\n",
        "server.properties:1: admin.auth=bearer: needs the tokens: set admin.bearer.tokens.file",
    );
    check_refused(
        "admin.auth=mtls\n",
        "server.properties:1: admin.auth=mtls: needs TLS: set \
         listener.name.admin.ssl.keystore.location and \
         listener.name.admin.ssl.truststore.location",
    );
    check_refused(
        &format!("admin.auth=mtls\n{KEY}{TRUST}listener.name.admin.ssl.client.auth=none\n"),
        "server.properties:6: listener.name.admin.ssl.client.auth=none: must be requested or \
         required with admin.auth=mtls",
    );
    check_refused(
        "admin.auth=mtls\nlisteners=ADMIN://:9092\n\
         listener.security.protocol.map=ADMIN:PLAINTEXT\n",
        "server.properties:1: admin.auth=mtls: needs TLS, and the settings \
         listener.name.admin.ssl.* are those of the listener ADMIN: call that otherwise",
    );
}

#[test]
fn a_listener_of_that_name_keeps_its_settings() {
    let settings = settings(&format!(
        "listeners=ADMIN://:9092\nlistener.security.protocol.map=ADMIN:SSL\n{KEY}"
    ));
    assert!(settings.admin.tls.is_none());
    assert!(settings.tls_listeners().contains_key("ADMIN"));
}

#[test]
fn an_endpoint_that_is_open_to_a_network_is_warned_of() {
    let open = |host: &str| {
        let text = format!("admin.listener={host}:9644\n");
        let said = resolve(&text).unwrap().warnings;
        said.iter().any(|it| it.why.contains("admin.auth is none"))
    };
    for host in ["0.0.0.0", "[::]", "10.0.0.1", "broker-1"] {
        assert!(open(host), "{host}");
    }
    for host in ["127.0.0.1", "127.1.2.3", "[::1]", "localhost"] {
        assert!(!open(host), "{host}");
    }
    check_warned(
        "admin.listener=10.0.0.1:9644\nadmin.auth=basic\n",
        &[
            "server.properties:2: admin.auth: passwords and tokens cross the network in clear text: \
             the admin endpoint does not speak TLS",
        ],
    );
}

#[test]
fn what_the_endpoint_does_not_have_is_warned_of() {
    check_warned(
        "admin.bearer.tokens.file=/t\nlistener.name.admin.max.connections=5\n\
         listener.name.admin.connection.failed.authentication.delay.ms=7\n",
        &[
            "server.properties:1: admin.bearer.tokens.file: has no effect: admin.auth is none",
            "server.properties:3: \
             listener.name.admin.connection.failed.authentication.delay.ms: has no effect at the \
             admin endpoint with admin.auth=none",
            "server.properties:2: listener.name.admin.max.connections: has no effect at the admin \
             endpoint with admin.auth=none",
        ],
    );
    check_warned(
        "admin.listener=\nadmin.auth=basic\n",
        &["server.properties:2: admin.auth: has no effect: admin.listener is empty"],
    );
}

#[test]
fn users_of_plain_are_those_of_the_endpoint() {
    let jaas = "listener.name.admin.plain.sasl.jaas.config=\
                org.apache.kafka.common.security.plain.PlainLoginModule required user_ops=\"p\";\n";
    let admin = settings(&format!("admin.auth=basic\n{jaas}")).admin;
    let names: Vec<_> = admin.users.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["ops"]);
    assert_eq!(admin.failure_delay, Duration::from_millis(100));
    assert!(!format!("{admin:?}").contains("\"p\""));
}
