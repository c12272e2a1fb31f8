//! Listeners of OAUTHBEARER: what is served, what is warned of, and what refuses the start.

use super::tests::{check_refused, check_warned, settings};
use super::*;

const SAFE: &str = "listeners=IN.SIDE://:9092\n\
                    listener.security.protocol.map=in.side:SASL_SSL\n\
                    ssl.keystore.type=PEM\nssl.keystore.location=/tls.pem\n\
                    sasl.enabled.mechanisms=OAUTHBEARER\n";
const EXPECTED: &str = "sasl.oauthbearer.expected.issuer=https://idp\n\
                        sasl.oauthbearer.expected.audience=kafka, others\n";
const URL: &str = "sasl.oauthbearer.jwks.endpoint.url=https://idp/keys\n";
const PACKAGE: &str = "org.apache.kafka.common.security.oauthbearer";

#[test]
fn a_listener_has_the_keys_and_expectations_that_are_nearest_to_it() {
    let text = format!(
        "{SAFE}{EXPECTED}{URL}\
         listener.name.in.side.sasl.oauthbearer.jwks.endpoint.url=https://idp2/keys\n\
         listener.name.in.side.oauthbearer.sasl.oauthbearer.jwks.endpoint.url=file:///k.json\n\
         listener.name.in.side.oauthbearer.connections.max.reauth.ms=1000\n\
         listener.name.in.side.oauthbearer.sasl.server.callback.handler.class=\
         {PACKAGE}.OAuthBearerValidatorCallbackHandler\n\
         sasl.oauthbearer.jwt.validator.class={PACKAGE}.DefaultJwtValidator\n\
         listener.name.in.side.oauthbearer.sasl.jaas.config=\
         {PACKAGE}.OAuthBearerLoginModule required;\n"
    );
    let settings = settings(&text);
    let login = settings.broker_options(NodeId(1), &[9092]).logins["IN.SIDE"].clone();
    let [mechanism] = &login.mechanisms[..] else {
        panic!("one mechanism")
    };
    assert_eq!(mechanism.mechanism.name(), "OAUTHBEARER");
    assert_eq!(mechanism.session_max, Some(Duration::from_secs(1)));
    let shown = format!("{:?}", mechanism.tokens);
    for part in ["/k.json", "https://idp\"", "kafka", "others", "30000"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert_eq!(settings.token_keys.sources.len(), 1);
    check_warned(&text, &[]);
}

#[test]
fn a_listener_that_would_take_tokens_of_anybody_is_refused() {
    check_refused(
        &format!("{SAFE}{EXPECTED}"),
        "default: sasl.oauthbearer.jwks.endpoint.url=: must name the keys of the identity provider \
         (https://.. or file:///..)",
    );
    check_refused(
        &format!("{SAFE}{EXPECTED}sasl.oauthbearer.jwks.endpoint.url=http://idp/keys\n"),
        "server.properties:8: sasl.oauthbearer.jwks.endpoint.url=http://idp/keys: must begin with \
         https:// (http:// is for this machine only: localhost, 127.0.0.1, [::1]), or be a file \
         (file:///path)",
    );
    check_refused(
        &format!("{SAFE}{URL}sasl.oauthbearer.expected.issuer=https://idp\n"),
        "default: sasl.oauthbearer.expected.audience=: must be set, or tokens for other services \
         are taken (sasl.oauthbearer.insecure.claims=true allows that)",
    );
    check_refused(
        &format!("{SAFE}{URL}sasl.oauthbearer.expected.audience=kafka\n"),
        "default: sasl.oauthbearer.expected.issuer=: must be set, or tokens of any issuer are taken \
         (sasl.oauthbearer.insecure.claims=true allows that)",
    );
    check_warned(
        &format!("{SAFE}{URL}sasl.oauthbearer.insecure.claims=true\n"),
        &[
            "server.properties:7: sasl.oauthbearer.insecure.claims: takes tokens for other \
             services, because sasl.oauthbearer.expected.audience is not set",
            "server.properties:7: sasl.oauthbearer.insecure.claims: takes tokens of any issuer, \
             because sasl.oauthbearer.expected.issuer is not set",
        ],
    );
}

#[test]
fn classes_and_options_that_would_change_the_verdict_are_refused() {
    let name = "listener.name.in.side.oauthbearer.sasl.jaas.config";
    let line = |options: &str| {
        format!(
            "{SAFE}{EXPECTED}{URL}{name}={PACKAGE}.OAuthBearerLoginModule required {options};\n"
        )
    };
    check_refused(
        &line("unsecuredValidatorPrincipalClaimName=\"hunter2\""),
        &format!(
            "server.properties:9: {name}=(hidden): tokens without a signature are not served: take \
             the options unsecured.. out, and name the keys in sasl.oauthbearer.jwks.endpoint.url"
        ),
    );
    check_warned(
        &line("unsecuredLoginStringClaim_sub=\"broker\" ssl.truststore.location=\"/ca.pem\""),
        &[&format!(
            "server.properties:9: {name}: has 1 options without effect: this broker logs in \
             nowhere, and ssl.* alone has a meaning (for the JWKS endpoint)"
        )],
    );
    for (class, of) in [
        ("sasl.server.callback.handler.class", "a.B".to_owned()),
        (
            "sasl.server.callback.handler.class",
            format!("{PACKAGE}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"),
        ),
        (
            "sasl.oauthbearer.jwt.validator.class",
            format!("{PACKAGE}.ClientJwtValidator"),
        ),
    ] {
        let name = format!("listener.name.in.side.oauthbearer.{class}");
        check_refused(
            &format!("{SAFE}{EXPECTED}{URL}{name}={of}\n"),
            &format!(
                "server.properties:9: {name}=(hidden): is not served: take it out, or a client may \
                 be taken for another"
            ),
        );
    }
}

#[test]
fn tokens_in_clear_text_are_warned_of() {
    let text = format!(
        "listeners=IN.SIDE://:9092\nlistener.security.protocol.map=in.side:SASL_PLAINTEXT\n\
         sasl.enabled.mechanisms=OAUTHBEARER\n{EXPECTED}{URL}"
    );
    check_warned(
        &text,
        &[
            "server.properties:3: sasl.enabled.mechanisms: with OAUTHBEARER tokens cross the \
             network in clear text: the listener does not speak TLS (SASL_SSL)",
        ],
    );
}
