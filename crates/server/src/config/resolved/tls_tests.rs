//! Listeners that speak TLS: which keys and rules they have, and what refuses the start.

use ::tls::ClientAuth;

use super::tests::{check_refused, check_warned, resolve, settings};
use super::*;

const SSL: &str = "listeners=OUT.SIDE://:9093\nlistener.security.protocol.map=out.side:SSL\n";
const KEY: &str = "ssl.keystore.type=PEM\nssl.keystore.location=/k.pem\n";
const TRUST: &str = "ssl.truststore.type=PEM\nssl.truststore.location=/t.pem\n";
const BOTH: &str = "listeners=OUT://:9093,IN://:9094\n\
                    listener.security.protocol.map=OUT:SSL,IN:SASL_SSL\n\
                    sasl.enabled.mechanisms=SCRAM-SHA-512\n";

fn only(text: &str) -> ServerTlsSettings {
    let all = settings(text).tls_listeners();
    assert_eq!(all.len(), 1);
    all.into_values().next().unwrap()
}

#[test]
fn a_listener_has_the_keys_and_rules_of_its_settings() {
    let tls = only(&format!("{SSL}{KEY}"));
    let location = tls.stores.keystore_location.unwrap();
    assert_eq!(location.name, "ssl.keystore.location");
    assert_eq!(location.value, PathBuf::from("/k.pem"));
    assert_eq!(tls.client_auth.value, ClientAuth::None);
    assert_eq!(tls.stores.truststore_location, None);
    assert!(!tls.stores.is_strict && !tls.allowed_changes.subject && !tls.allowed_changes.names);
    let own = "listener.name.out.side.ssl.client.auth=required\n\
               listener.name.out.side.ssl.keystore.location=/own.pem\n\
               listener.name.out.side.ssl.cipher.suites=TLS_AES_128_GCM_SHA256\n\
               ssl.allow.san.changes=true\nsecrets.permissions=strict\n\
               ssl.principal.mapping.rules=RULE:^CN=(.*?),.*$/$1/,DEFAULT\n";
    let tls = only(&format!("{SSL}{KEY}{TRUST}{own}"));
    let location = tls.stores.keystore_location.unwrap();
    assert_eq!(
        location.name,
        "listener.name.out.side.ssl.keystore.location"
    );
    assert_eq!(location.value, PathBuf::from("/own.pem"));
    assert_eq!(tls.stores.prefix, "listener.name.out.side.");
    assert_eq!(tls.client_auth.value, ClientAuth::Required);
    assert!(tls.stores.is_strict && !tls.allowed_changes.subject && tls.allowed_changes.names);
    assert_eq!(
        tls.names.cipher_suites.unwrap().value,
        ["TLS_AES_128_GCM_SHA256"]
    );
    let name = tls.principal_rules.name_of("CN=ada,O=x");
    assert_eq!(name.as_deref(), Some("ada"));
}

#[test]
fn a_protocol_says_whether_there_is_tls_and_a_login() {
    let settings = settings(&format!("{BOTH}{KEY}"));
    let protocols: Vec<_> = settings
        .broker_options(NodeId(1), &[9093, 9094])
        .endpoints
        .iter()
        .map(|endpoint| (endpoint.listener.clone(), endpoint.protocol.code()))
        .collect();
    assert_eq!(protocols, [("OUT".to_owned(), 1), ("IN".to_owned(), 3)]);
    assert!(settings.asks_for_login("IN") && !settings.asks_for_login("OUT"));
    let tls: Vec<_> = settings.tls_listeners().into_keys().collect();
    assert_eq!(tls, ["IN", "OUT"]);
    assert_eq!(settings.tls_reload_interval, Duration::from_secs(10));
    assert_eq!(settings.tls_handshake_threads, 1);
    assert_eq!(settings.login_time_max, Duration::from_secs(30));
}

#[test]
fn who_logs_in_is_asked_for_a_certificate_by_the_listener_alone() {
    let text = format!("{BOTH}{KEY}{TRUST}ssl.client.auth=required\n");
    let auth = |text: &str| {
        let all = settings(text).tls_listeners();
        (all["OUT"].client_auth.value, all["IN"].client_auth.value)
    };
    assert_eq!(auth(&text), (ClientAuth::Required, ClientAuth::None));
    check_warned(
        &text,
        &[
            "server.properties:8: ssl.client.auth: does not hold for in, which maps to SASL_SSL: its \
             clients are not asked for certificates, as in Kafka",
        ],
    );
    let own = format!("{text}listener.name.in.ssl.client.auth=requested\n");
    assert_eq!(auth(&own), (ClientAuth::Required, ClientAuth::Requested));
    check_warned(&own, &[]);
}

#[test]
fn a_listener_without_what_it_needs_is_refused() {
    check_refused(
        SSL,
        "default: ssl.keystore.location=: a listener of TLS needs a key, and none is given: set it \
         and ssl.keystore.password (PKCS12), or ssl.keystore.type=PEM and ssl.keystore.key with \
         ssl.keystore.certificate.chain",
    );
    check_refused(
        &format!("{SSL}{KEY}ssl.client.auth=requested"),
        "server.properties:5: ssl.client.auth=requested: clients are asked for certificates, and \
         nothing says which are good: set ssl.truststore.location, or take this out",
    );
    check_refused(
        &format!("{SSL}{KEY}listener.name.out.side.ssl.keystore.password=hunter2"),
        "server.properties:5: listener.name.out.side.ssl.keystore.password=(hidden): a PEM file has \
         no password as a whole: take it out; that of the key is ssl.key.password",
    );
    check_refused(
        &format!("{SSL}ssl.keystore.type=PEM\nssl.keystore.key=-----BEGIN"),
        "server.properties:4: ssl.keystore.key=(hidden): the certificates of the key are not given: \
         set ssl.keystore.certificate.chain to its certificates",
    );
}

#[test]
fn what_is_not_served_is_refused_with_what_to_do() {
    let refused = |setting: &str, expect: &str| {
        check_refused(
            &format!("{SSL}{KEY}{setting}"),
            &format!("server.properties:5: {expect}"),
        );
    };
    refused(
        "ssl.engine.factory.class=acme.Engines",
        "ssl.engine.factory.class=acme.Engines: classes cannot be loaded: take it out, and name the \
         key by ssl.keystore.location",
    );
    refused(
        "ssl.provider=BCFIPS",
        "ssl.provider=BCFIPS: providers of the Java virtual machine cannot be loaded: take it out; \
         the cryptography here is that of aws-lc",
    );
    refused(
        "ssl.protocol=TLSv1.1",
        "ssl.protocol=TLSv1.1: asks for a version that is not served: take it out, and name TLSv1.2, \
         TLSv1.3 or both in ssl.enabled.protocols",
    );
    refused(
        "ssl.enabled.protocols=TLSv1.2,TLSv1",
        "ssl.enabled.protocols=TLSv1.2,TLSv1: TLSv1 is broken and not served: name TLSv1.2, TLSv1.3 \
         or both; clients that know neither have to be renewed",
    );
    refused(
        "ssl.principal.mapping.rules=RULE:a",
        "ssl.principal.mapping.rules=RULE:a: RULE:a: has no / behind its pattern",
    );
    let problems = resolve(&format!(
        "{SSL}{KEY}ssl.cipher.suites=TLS_RSA_WITH_AES_128_CBC_SHA"
    ));
    let said = problems.unwrap_err()[0].to_string();
    assert!(
        said.contains("none of these cipher suites is served"),
        "{said}"
    );
    // Without a TLS listener these settings have no effect.
    check_warned(
        "ssl.engine.factory.class=acme.Engines",
        &[
            "server.properties:1: ssl.engine.factory.class: has no effect: no listener maps to SSL \
             or SASL_SSL",
        ],
    );
}

#[test]
fn what_a_class_was_to_replace_is_refused_and_groups_of_rules_are_not() {
    let rules = "ssl.principal.mapping.rules=RULE:^CN=(?<who>.*)$/${who}/\n";
    let store = "ssl.keystore.location=/k.p12\nssl.keystore.password=${file:/s:k}\n";
    let providers = "config.providers=file\nconfig.providers.file.class=\
                     org.apache.kafka.common.config.provider.FileConfigProvider\n";
    check_refused(
        &format!("{SSL}{store}{rules}{providers}"),
        "server.properties:4: ssl.keystore.password=${file:/s:k}: there is no such file",
    );
    // It is a password where nothing was to replace it.
    assert!(
        only(&format!("{SSL}{store}{rules}"))
            .stores
            .keystore_password
            .is_some()
    );
}

#[test]
fn settings_of_tls_of_a_listener_without_it_are_warned_of() {
    check_warned(
        "listener.name.plaintext.ssl.keystore.location=/k\nssl.provider=x\n",
        &[
            "server.properties:1: listener.name.plaintext.ssl.keystore.location: has no effect: the \
             listener maps to PLAINTEXT, which is not encrypted",
            "server.properties:2: ssl.provider: has no effect: no listener maps to SSL or SASL_SSL",
        ],
    );
    let suites = "ssl.cipher.suites=TLS_AES_128_GCM_SHA256,TLS_RSA_WITH_AES_128_CBC_SHA\n";
    check_warned(
        &format!("{SSL}{KEY}{suites}"),
        &[
            "server.properties:5: ssl.cipher.suites: TLS_RSA_WITH_AES_128_CBC_SHA of these are not \
             served and left out",
        ],
    );
}

#[test]
fn certificates_make_super_users_of_their_names() {
    let authorizer = "authorizer.class.name=\
                      org.apache.kafka.metadata.authorizer.StandardAuthorizer\n\
                      super.users=User:CN=root\n";
    let asked = format!("{SSL}{KEY}{TRUST}{authorizer}ssl.client.auth=required\n");
    check_warned(&asked, &[]);
    let unasked = resolve(&format!("{SSL}{KEY}{authorizer}"))
        .unwrap()
        .warnings;
    let said: Vec<_> = unasked.iter().map(ToString::to_string).collect();
    assert!(
        said.iter()
            .any(|it| it.contains("names who no client can be: User:CN=root")),
        "{said:?}"
    );
}

#[test]
fn no_output_shows_a_key_or_a_password() {
    let text = format!(
        "{SSL}ssl.keystore.type=PEM\nssl.keystore.key=hunter2\n\
         ssl.keystore.certificate.chain=hunter2\nssl.key.password=hunter2\n"
    );
    let settings = settings(&text);
    let broker = settings.broker_options(NodeId(1), &[9093]);
    let shown = format!("{settings:?} {:?}", broker.static_settings);
    assert!(!shown.contains("hunter2"), "{shown}");
}
