//! Settings of TLS: keys, certificates, versions, and the principal of a client certificate.
//!
//! Those of stores change while the broker runs, for one listener (`broker::listener_stores`).

use super::{Key, Scope};

const OF_JAVA: &str = "it names a part of the Java virtual machine";
const NO_CLIENT: &str = "one node connects to no other broker";

/// A key that each listener may have.
const fn text(name: &'static str, default: &'static str) -> Key {
    Key::string(name, default).scope(Scope::Listener)
}

pub(super) const KEYS: &[Key] = &[
    text("ssl.keystore.type", "JKS").per_broker().doc(
        "Form of the key store: PEM or PKCS12. JKS, Kafka's default, stands for PKCS12 here, \
         which is what keytool writes since Java 9; a store that is JKS is refused, with the \
         command that converts it.",
    ),
    text("ssl.keystore.location", "").per_broker().unset().doc(
        "File with the key of a listener and its certificates. With the type PEM one file has \
         both: the key as PKCS#8 (encrypted or not), PKCS#1 or SEC 1, and the certificates from \
         that of the key on. It is read again when it changes (`ssl.reload.interval.ms`).",
    ),
    Key::secret("ssl.keystore.password")
        .scope(Scope::Listener)
        .per_broker()
        .doc("Password of the key store. Not with PEM."),
    Key::secret("ssl.key.password")
        .scope(Scope::Listener)
        .per_broker()
        .doc("Password of an encrypted key in PEM. The keys of PKCS12 have that of the store."),
    Key::secret("ssl.keystore.key")
        .scope(Scope::Listener)
        .per_broker()
        .doc("The key itself, as PEM, in the place of a file."),
    Key::secret("ssl.keystore.certificate.chain")
        .scope(Scope::Listener)
        .per_broker()
        .doc("The certificates that belong to `ssl.keystore.key`, as PEM."),
    text("ssl.truststore.type", "JKS").per_broker().doc(
        "Form of the trust store, as `ssl.keystore.type`.",
    ),
    text("ssl.truststore.location", "").per_broker().unset().doc(
        "File with the certificates by which the broker verifies those of clients, where it asks \
         for them. It also trusts each certificate in the file itself, whichever authority issued \
         it. It reads the file again when that changes.",
    ),
    Key::secret("ssl.truststore.password")
        .scope(Scope::Listener)
        .per_broker()
        .doc("Password of the trust store. Not with PEM."),
    Key::secret("ssl.truststore.certificates")
        .scope(Scope::Listener)
        .per_broker()
        .doc("The trusted certificates themselves, as PEM, in the place of a file."),
    text("ssl.crl.location", "").unset().ours().doc(
        "File with revocation lists, as PEM or one as DER: client certificates that they name are \
         refused, also when a list is past its time. An issuer without a list revokes nothing. It \
         is read again when it changes.",
    ),
    text("ssl.client.auth", "none")
        .one_of(&["none", "requested", "required"])
        .doc(
            "Whether the broker asks clients for a certificate, which then says who they are. \
             `requested`: a client without one is User:ANONYMOUS; with a bad one the connection \
             ends. For SASL_SSL only `listener.name.<listener>.ssl.client.auth` holds, and the \
             login says who the client is.",
        ),
    text("ssl.principal.mapping.rules", "DEFAULT").not_empty().doc(
        "The principal of a client certificate: `DEFAULT` for its subject as Java writes it \
         (`CN=ada,O=Example`), or `RULE:pattern/replacement/[LU]`, with commas between several; \
         the first that matches the whole subject wins. If no rule matches, the connection ends.",
    ),
    Key::list("ssl.enabled.protocols", "TLSv1.2,TLSv1.3")
        .scope(Scope::Listener)
        .doc("Versions of TLS. Those before TLSv1.2 are refused."),
    Key::list("ssl.cipher.suites", "").scope(Scope::Listener).doc(
        "Cipher suites by IANA's names. Empty: all that are served, which have forward secrecy and \
         authenticated encryption. Others in the list are left out with a warning.",
    ),
    text("ssl.protocol", "TLSv1.3").doc(
        "Kafka's name for what makes connections; TLS, TLSv1.2 and TLSv1.3 are the same here. \
         `ssl.enabled.protocols` says which versions are served.",
    ),
    Key::boolean("ssl.allow.dn.changes", "false")
        .scope(Scope::Listener)
        .doc("Whether a key that changes while the broker runs may be for another subject."),
    Key::boolean("ssl.allow.san.changes", "false")
        .scope(Scope::Listener)
        .doc("Whether a key that changes while the broker runs may be for fewer host names."),
    Key::long("ssl.reload.interval.ms", "10000").min(100).ours().doc(
        "How often the broker looks at the files of stores. If one has changed, the broker reads \
         it again, and the listener takes the new keys and certificates if they fit together; \
         connections stay open. At SIGHUP the broker looks at once.",
    ),
    Key::int("tls.handshake.threads", "1").range(1, 64).ours().doc(
        "Threads for handshakes of TLS, beside the shards.",
    ),
    Key::string("secrets.permissions", "warn")
        .one_of(&["warn", "strict"])
        .ours()
        .doc(
            "What follows when other users than its owner may read a file with a key: `warn` says so, \
             `strict` refuses the start, and the file when it is read again.",
        ),
    text("ssl.endpoint.identification.algorithm", "https")
        .without_effect(NO_CLIENT)
        .doc("How a broker verifies the names of other brokers."),
    Key::of("ssl.engine.factory.class", super::ConfigKind::Class, "")
        .unset()
        .scope(Scope::Listener)
        .doc("A class that makes connections. It cannot be loaded: a listener of TLS refuses it."),
    text("ssl.provider", "").unset().doc(
        "A provider of cryptography for the Java virtual machine. A listener of TLS refuses it.",
    ),
    text("ssl.keymanager.algorithm", "SunX509")
        .without_effect(OF_JAVA)
        .doc("What chooses keys."),
    text("ssl.trustmanager.algorithm", "PKIX")
        .without_effect(OF_JAVA)
        .doc("What verifies certificates."),
    text("ssl.secure.random.implementation", "")
        .unset()
        .without_effect(OF_JAVA)
        .doc("What makes random numbers."),
];
