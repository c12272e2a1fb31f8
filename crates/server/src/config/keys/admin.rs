//! Settings of the admin endpoint. None of them is Kafka's; those of its TLS and of its PLAIN users
//! are Kafka's, under the name of a listener `admin`.

use super::Key;

pub(super) const KEYS: &[Key] = &[
    Key::string("admin.listener", "127.0.0.1:9644").ours().doc(
        "Where /metrics, /livez, /readyz and /tiers are answered over HTTP, as host:port. \
             Empty: nowhere. With settings `listener.name.admin.ssl.*` it speaks TLS, with the key \
             that they name, else with that of `ssl.*`.",
    ),
    Key::string("admin.auth", "none")
        .one_of(&["none", "basic", "bearer", "mtls"])
        .ours()
        .doc(
            "How clients of admin.listener show who they are: `basic` by the name and password of a \
             SCRAM user, or of one of `listener.name.admin.plain.sasl.jaas.config`; `bearer` by a \
             token of admin.bearer.tokens.file; `mtls` by a certificate, whose principal \
             ssl.principal.mapping.rules says. GET then needs the right to DESCRIBE the cluster, \
             POST that to ALTER it; without an authorizer every user has both. /livez and /readyz \
             answer everyone, /readyz with its status alone. `none`: GET answers everyone, POST \
             only connections over the loopback interface.",
        ),
    Key::string("admin.bearer.tokens.file", "").ours().doc(
        "File (0600) with a line for each token: the principal, a space, and the token, at least 16 \
             characters, or `sha256:` and its hash in 64 hex digits (`printf %s TOKEN | sha256sum`). \
             It is read again when it changes (`ssl.reload.interval.ms`) and at SIGHUP.",
    ),
    Key::boolean("admin.plan", "false").ours().doc(
        "Answer /plan on admin.listener: the page of the planner (docs/plan.md), with what this broker takes and gives \
             as a load to begin with. One answer at a time, for two seconds of a thread of the lowest priority.",
    ),
];
