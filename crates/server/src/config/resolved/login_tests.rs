//! Listeners that ask for a login: what is served, and what refuses the start.

use std::sync::Arc;

use broker::session::LoginOptions;

use super::tests::{check_refused, check_warned, resolve, settings};
use super::*;

const SAFE: &str = "listeners=IN.SIDE://:9092\n\
                    listener.security.protocol.map=in.side:SASL_PLAINTEXT\n";
const PLAIN: &str = "listener.name.in.side.plain.sasl.jaas.config=\
                     org.apache.kafka.common.security.plain.PlainLoginModule required \
                     user_ada=\"hunter2\";\n";

fn login(text: &str) -> Arc<LoginOptions> {
    let options = settings(text).broker_options(NodeId(1), &[9092]);
    assert_eq!(
        options.endpoints[0].protocol,
        SecurityProtocol::SaslPlaintext
    );
    options.logins["IN.SIDE"].clone()
}

#[test]
fn a_listener_has_the_mechanisms_and_limits_of_its_settings() {
    let text = format!(
        "{SAFE}{PLAIN}sasl.enabled.mechanisms=SCRAM-SHA-256\n\
         listener.name.in.side.sasl.enabled.mechanisms=SCRAM-SHA-512,PLAIN\n\
         connections.max.reauth.ms=1000\n\
         listener.name.in.side.plain.connections.max.reauth.ms=2000\n\
         listener.name.in.side.connection.failed.authentication.delay.ms=7\n"
    );
    let login = login(&text);
    let each = login.mechanisms.iter();
    let each: Vec<_> = each
        .map(|it| (it.mechanism.name(), it.session_max, it.users.len()))
        .collect();
    let seconds = |count| Some(Duration::from_secs(count));
    let expected = [("SCRAM-SHA-512", seconds(1), 0), ("PLAIN", seconds(2), 1)];
    assert_eq!(each, expected);
    assert_eq!(login.failure_delay, Duration::from_millis(7));
    assert_eq!(login.frame_bytes_max, 524_288);
    assert_eq!(login.time_max, Duration::from_secs(30));
}

#[test]
fn a_listener_that_could_let_nobody_or_strangers_in_is_refused() {
    check_refused(
        SAFE,
        "default: sasl.enabled.mechanisms=GSSAPI: in.side is a login of GSSAPI, which is not \
         served (PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER are)",
    );
    check_refused(
        &format!("{SAFE}sasl.enabled.mechanisms=PLAIN\n"),
        "default: listener.name.in.side.plain.sasl.jaas.config=: must name the users of PLAIN \
         (user_<name>=\"<password>\")",
    );
    check_refused(
        &format!(
            "{SAFE}sasl.enabled.mechanisms=SCRAM-SHA-256\n\
             listener.name.in.side.plain.sasl.server.callback.handler.class=a.B\n"
        ),
        "server.properties:4: listener.name.in.side.plain.sasl.server.callback.handler.class=\
         (hidden): is not served: take it out, or a client may be taken for another",
    );
    let providers = PLAIN.replace("hunter2", "${file:/secrets:ada}");
    check_refused(
        &format!("{SAFE}sasl.enabled.mechanisms=PLAIN\n{providers}config.providers=file\n"),
        "server.properties:5: config.providers=file: config.providers.file.class must name its \
         class: org.apache.kafka.common.config.provider.FileConfigProvider, \
         ..DirectoryConfigProvider or ..EnvVarConfigProvider",
    );
    check_refused(
        "listeners=IN.SIDE://:9092\n\
         listener.security.protocol.map=in.side:PLAINTEXT,IN.SIDE:SASL_PLAINTEXT\n",
        "server.properties:2: listener.security.protocol.map=in.side:PLAINTEXT,\
         IN.SIDE:SASL_PLAINTEXT: maps listener IN.SIDE twice, and not to the same",
    );
    check_refused(
        &format!(
            "{SAFE}sasl.enabled.mechanisms=SCRAM-SHA-256\nconnections.max.idle.ms=5000\n\
             connection.failed.authentication.delay.ms=5000\n"
        ),
        "server.properties:5: connection.failed.authentication.delay.ms=5000: must be less than \
         connections.max.idle.ms=5000",
    );
}

#[test]
fn no_message_shows_a_password() {
    let wrong = PLAIN.replace(';', "").replace("\"\n", "\n");
    let text = format!("{SAFE}sasl.enabled.mechanisms=PLAIN\n{wrong}");
    let problems = resolve(&text).map(|_| ()).unwrap_err();
    let said = format!("{problems:?} {}", problems[0]);
    assert!(
        said.contains("jaas.config=(hidden): ") && !said.contains("hunter2"),
        "{said}"
    );
    let sound = format!("{SAFE}sasl.enabled.mechanisms=PLAIN\n{PLAIN}");
    let settings = settings(&sound);
    assert!(!format!("{settings:?}").contains("hunter2"));
    check_warned(
        &sound,
        &[
            "server.properties:3: sasl.enabled.mechanisms: with PLAIN passwords cross the network in \
             clear text: the listener does not speak TLS (SASL_SSL)",
        ],
    );
}

#[test]
fn a_login_of_a_listener_that_asks_for_none_is_warned_of() {
    let text = "listener.name.plaintext.sasl.enabled.mechanisms=PLAIN\n";
    check_warned(
        text,
        &[
            "server.properties:1: listener.name.plaintext.sasl.enabled.mechanisms: has no effect: \
           the listener maps to PLAINTEXT, which asks for no login",
        ],
    );
}

#[test]
fn what_could_be_replaced_is_a_password_where_nothing_was_to_replace_it() {
    let text = PLAIN.replace("hunter2", "${file:/secrets:ada}");
    let login = login(&format!("{SAFE}sasl.enabled.mechanisms=PLAIN\n{text}"));
    let (name, password) = &login.mechanisms[0].users[0];
    assert_eq!(
        (name.as_str(), password.expose().as_str()),
        ("ada", "${file:/secrets:ada}")
    );
}

#[test]
fn a_setting_of_a_listener_that_is_given_twice_is_warned_of() {
    let text = format!(
        "{SAFE}sasl.enabled.mechanisms=SCRAM-SHA-256\n\
         listener.name.in.side.connections.max.reauth.ms=1\n\
         listener.name.in.side.connections.max.reauth.ms=2\n"
    );
    check_warned(
        &text,
        &[
            "server.properties:4: listener.name.in.side.connections.max.reauth.ms: is given again \
           further down, which wins",
        ],
    );
}
