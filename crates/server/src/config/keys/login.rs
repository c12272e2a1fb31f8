//! Settings of logins (SASL).

use super::{Key, Scope};

pub(super) const KEYS: &[Key] = &[
    Key::list("sasl.enabled.mechanisms", "GSSAPI")
        .not_empty()
        .scope(Scope::Listener)
        .doc(
            "How clients of SASL_PLAINTEXT and SASL_SSL listeners log in: PLAIN, SCRAM-SHA-256, \
             SCRAM-SHA-512. Kafka's default, GSSAPI, is not served, so such a listener has to \
             set it. `listener.name.<listener>.sasl.enabled.mechanisms` is that of one listener.",
        ),
    Key::secret("sasl.jaas.config").scope(Scope::Mechanism).doc(
        "Users and passwords of PLAIN, as \
         `listener.name.<listener>.plain.sasl.jaas.config=\
         org.apache.kafka.common.security.plain.PlainLoginModule required user_<name>=\"...\";`. \
         Users of SCRAM are in the metadata; its mechanisms need no such setting.",
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
