//! Settings of logins (SASL).

use super::{Key, Scope};

pub(super) const KEYS: &[Key] = &[
    Key::list("sasl.enabled.mechanisms", "GSSAPI")
        .not_empty()
        .scope(Scope::Listener)
        .doc(
            "How clients of SASL_PLAINTEXT and SASL_SSL listeners log in: PLAIN, SCRAM-SHA-256, \
             SCRAM-SHA-512, OAUTHBEARER. Kafka's default, GSSAPI, is not served, so such a listener has to \
             set it. `listener.name.<listener>.sasl.enabled.mechanisms` is that of one listener.",
        ),
    Key::secret("sasl.jaas.config").scope(Scope::Mechanism).doc(
        "Users and passwords of PLAIN, as \
         `listener.name.<listener>.plain.sasl.jaas.config=\
         org.apache.kafka.common.security.plain.PlainLoginModule required user_<name>=\"...\";`. \
         Users of SCRAM are in the metadata; its mechanisms need no such setting, nor does \
         OAUTHBEARER, whose line may have `ssl.*` options for a JWKS endpoint.",
    ),
    Key::long("connections.max.reauth.ms", "0").scope(Scope::ListenerOrMechanism).doc(
        "How long a client that has logged in may go on before it has to log in again; 0 or less: \
         for ever. `listener.name.<listener>.<mechanism>.connections.max.reauth.ms` is that of \
         one mechanism.",
    ),
    Key::int("connection.failed.authentication.delay.ms", "100")
        .min(0)
        .scope(Scope::Listener)
        .doc("How long the answer to a failed login, and the end of its connection, wait."),
    Key::int("sasl.server.max.receive.size", "524288")
        .min(1)
        .scope(Scope::Listener)
        .doc("Largest request before a login is complete."),
    Key::string("sasl.oauthbearer.jwks.endpoint.url", "")
        .unset()
        .scope(Scope::ListenerOrMechanism)
        .doc(
            "Where the keys are that sign tokens of OAUTHBEARER, a JWK set: an address of https, or \
             a file (`file:///path`), which is read again when it changes. http is for this machine \
             only. Settings of OAUTHBEARER may be those of one listener, as \
             `listener.name.<listener>.oauthbearer.sasl.oauthbearer.jwks.endpoint.url`.",
        ),
    Key::long("sasl.oauthbearer.jwks.endpoint.refresh.ms", "3600000")
        .min(1)
        .scope(Scope::ListenerOrMechanism)
        .doc("How often the keys of an https address are read again."),
    Key::long("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", "100")
        .min(1)
        .scope(Scope::ListenerOrMechanism)
        .doc("The pause after keys could not be read; it doubles each time."),
    Key::long("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", "10000")
        .min(1)
        .scope(Scope::ListenerOrMechanism)
        .doc("The longest of these pauses."),
    Key::list("sasl.oauthbearer.expected.audience", "")
        .scope(Scope::ListenerOrMechanism)
        .doc(
            "Whom tokens of OAUTHBEARER have to be for: one of these has to be in their `aud`.",
        ),
    Key::string("sasl.oauthbearer.expected.issuer", "")
        .unset()
        .scope(Scope::ListenerOrMechanism)
        .doc("The `iss` that tokens of OAUTHBEARER must have."),
    Key::boolean("sasl.oauthbearer.insecure.claims", "false")
        .ours()
        .scope(Scope::ListenerOrMechanism)
        .doc(
            "Lets a listener of OAUTHBEARER start without an expected audience or issuer, as Kafka \
             does. It then takes tokens of any issuer that its keys have signed, those for other \
             services among them.",
        ),
    Key::int("sasl.oauthbearer.clock.skew.seconds", "30")
        .min(0)
        .scope(Scope::ListenerOrMechanism)
        .doc("How far the clock of an identity provider may be from this one."),
    Key::string("sasl.oauthbearer.sub.claim.name", "sub")
        .not_empty()
        .scope(Scope::ListenerOrMechanism)
        .doc("The claim that names the user."),
    Key::string("sasl.oauthbearer.scope.claim.name", "scope")
        .not_empty()
        .scope(Scope::ListenerOrMechanism)
        .doc(
            "The claim that lists what a token is for. As in Kafka it has to be text, or a list of \
             different texts, if it is there; rights follow from ACLs, not from it.",
        ),
    Key::int("authentication.timeout.ms", "30000")
        .min(1)
        .ours()
        .doc("A client whose handshake of TLS or login is not complete this long after it has \
             connected is disconnected."),
    Key::int("max.connections.unauthenticated", "1000")
        .min(1)
        .ours()
        .doc(
            "Connections that are not logged in, of listeners that ask for it; no more than half \
             of `max.connections`, and of that of each listener. One more ends the oldest of the \
             address that has most of them.",
        ),
];
