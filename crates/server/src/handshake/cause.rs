//! Why a handshake failed: a word for the metric, and for the log a sentence that says which side
//! has to change what.
//!
//! What a peer sends is in neither, except the number of an alert, and of the certificate of a
//! client that is refused by name the subject. Pure.

use std::fmt;
use std::io;

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, PeerIncompatible};
use tls::{PrincipalProblem, UnnamedFault};

/// Why a connection has no TLS.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It took too long.
    Timeout,
    /// It was the oldest, and there were too many like it.
    Crowded,
    /// The peer left before it had said anything.
    Unused,
    /// The peer left in the middle.
    Closed,
    /// The peer began without TLS.
    NotTls(Spoken),
    /// A message is longer than any that is needed.
    TooLong,
    /// The peers did not agree, or one of them is wrong.
    Tls(Error),
    /// The certificate of the client gives no principal.
    Principal(PrincipalProblem),
    /// The socket failed.
    Socket(io::Error),
}

/// What a peer speaks that does not speak TLS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Spoken {
    /// A request of HTTP.
    Http,
    /// A request of Kafka.
    Kafka,
    /// Anything else.
    Other,
}

impl Spoken {
    /// Looks at the first bytes of a connection; `None` if they may begin a handshake, or are too
    /// few to tell.
    pub(crate) fn of(first: &[u8]) -> Option<Self> {
        const HANDSHAKE: u8 = 22;
        const METHODS: [&[u8]; 6] = [b"GET ", b"POST", b"HEAD", b"PUT ", b"OPTI", b"CONN"];
        let beginning = first.first_chunk::<4>()?;
        if beginning.first() == Some(&HANDSHAKE) {
            return None;
        }
        if METHODS.contains(&beginning.as_slice()) {
            return Some(Self::Http);
        }
        // A length, and an API key: all that Kafka has are below 256.
        let api = first.get(4).is_none_or(|high| *high == 0);
        let is_length = (8..1 << 27).contains(&i32::from_be_bytes(*beginning));
        Some(if api && is_length {
            Self::Kafka
        } else {
            Self::Other
        })
    }
}

impl Failure {
    /// Returns a word for metrics.
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Crowded => "crowded",
            Self::Unused => "unused",
            Self::Closed => "closed",
            Self::NotTls(Spoken::Http) => "http",
            Self::NotTls(Spoken::Kafka) => "kafka_plaintext",
            Self::NotTls(Spoken::Other) => "not_tls",
            Self::TooLong => "too_long",
            Self::Principal(_) => "principal",
            Self::Socket(_) => "broken",
            Self::Tls(error) => match error {
                Error::PeerIncompatible(how) => incompatible(how),
                Error::NoCertificatesPresented => "no_certificate",
                Error::InvalidCertificate(why) => certificate(why),
                Error::InvalidMessage(InvalidMessage::HandshakePayloadTooLarge) => "too_long",
                Error::AlertReceived(alert) => refusal(*alert),
                Error::InvalidMessage(_)
                | Error::InappropriateMessage { .. }
                | Error::InappropriateHandshakeMessage { .. }
                | Error::PeerMisbehaved(_)
                | Error::DecryptError
                | Error::PeerSentOversizedRecord => "protocol",
                _ => "other",
            },
        }
    }

    /// Returns true if the certificate of the client is what is wrong: a login that failed.
    pub(crate) const fn is_of_certificate(&self) -> bool {
        matches!(
            self,
            Self::Principal(_)
                | Self::Tls(Error::NoCertificatesPresented | Error::InvalidCertificate(_))
        )
    }

    /// Returns true if the failure is worth a line of the log: not if a peer only tried the port.
    pub(crate) fn is_told(&self) -> bool {
        !matches!(self, Self::Unused | Self::Socket(_))
    }
}

fn incompatible(how: &PeerIncompatible) -> &'static str {
    match how {
        PeerIncompatible::NoCipherSuitesInCommon
        | PeerIncompatible::NoKxGroupsInCommon
        | PeerIncompatible::NoSignatureSchemesInCommon => "no_cipher_in_common",
        PeerIncompatible::Tls12NotOffered
        | PeerIncompatible::Tls12NotOfferedOrEnabled
        | PeerIncompatible::ServerDoesNotSupportTls12Or13
        | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
        | PeerIncompatible::SupportedVersionsExtensionRequired => "no_version_in_common",
        _ => "protocol",
    }
}

fn certificate(why: &CertificateError) -> &'static str {
    match why {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "certificate_expired"
        }
        CertificateError::Revoked => "certificate_revoked",
        // A bad signature is that of another authority which has the name of a trusted one.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "certificate_unknown_issuer"
        }
        _ => "certificate",
    }
}

/// What the peer has said by an alert.
fn refusal(alert: AlertDescription) -> &'static str {
    match alert {
        AlertDescription::UnknownCA
        | AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateExpired
        | AlertDescription::DecryptError
        | AlertDescription::CertificateUnknown => "refused_by_client",
        _ => "alert",
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout => to.write_str("no handshake within authentication.timeout.ms"),
            Self::Crowded => to.write_str(
                "no handshake yet, and too many are like it (max.connections.unauthenticated)",
            ),
            Self::Unused => to.write_str("the client left before it had said anything"),
            Self::Closed => to.write_str(
                "the client left in the middle of the handshake: mostly it does not trust the \
                 certificate, and its own log says why",
            ),
            Self::NotTls(Spoken::Http) => {
                to.write_str("the client speaks HTTP, and this listener TLS")
            }
            Self::NotTls(Spoken::Kafka) => to.write_str(
                "the client speaks Kafka without TLS: give it security.protocol=SSL or SASL_SSL",
            ),
            Self::NotTls(Spoken::Other) => to.write_str("the client does not speak TLS"),
            Self::TooLong => to.write_str("a message of the handshake is too long"),
            Self::Principal(problem) => problem.fmt(to),
            Self::Socket(error) => write!(to, "socket: {error}"),
            Self::Tls(Error::AlertReceived(alert)) => match refusal(*alert) {
                "refused_by_client" => write!(
                    to,
                    "the client refuses the certificate of this listener ({alert:?}): it needs \
                     the issuer in its trust store, and a name that it connects to in the \
                     certificate"
                ),
                _ => write!(to, "the client ended the handshake: {alert:?}"),
            },
            Self::Tls(Error::NoCertificatesPresented) => {
                to.write_str("the client has no certificate (ssl.client.auth=required)")
            }
            Self::Tls(Error::InvalidCertificate(why)) => to.write_str(&words(why)),
            Self::Tls(error) => error.fmt(to),
        }
    }
}

/// Says why the certificate of a client is not taken, and what there is to do about it. The names
/// of rustls alone say neither.
fn words(why: &CertificateError) -> String {
    let why = match why {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "has expired",
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "is not valid yet: compare the clocks"
        }
        CertificateError::Revoked => "is revoked (ssl.crl.location)",
        CertificateError::UnknownIssuer => "is of an issuer that is not in ssl.truststore.location",
        CertificateError::BadSignature => {
            "is not signed by the issuer of that name in ssl.truststore.location"
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "is not for clients: its extended key usage needs clientAuth"
        }
        other => match UnnamedFault::of(other) {
            Some(UnnamedFault::OldVersion) => {
                "has an old form, or one of its issuers has: it has to be of X.509 version 3 \
                 (openssl x509 -req makes that with -extfile)"
            }
            Some(UnnamedFault::IsAuthority) => {
                "is that of an authority (basicConstraints CA:TRUE), and not itself in \
                 ssl.truststore.location"
            }
            // In words for those of ours, and by its name for the rest.
            None => return Error::InvalidCertificate(other.clone()).to_string(),
        },
    };
    format!("the certificate of the client {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_peer_speaks_is_seen_by_its_first_bytes() {
        for (first, spoken) in [
            (&b"GET / HTTP/1.1\r\n"[..], Some(Spoken::Http)),
            (b"POST", Some(Spoken::Http)),
            (b"\0\0\0\x2f\0\x12\0\x04", Some(Spoken::Kafka)),
            (b"\0\0\x01\0", Some(Spoken::Kafka)),
            (b"\0\0\0\x2f\x7f\x12", Some(Spoken::Other)),
            (b"SSH-2.0-", Some(Spoken::Other)),
            (b"\x80\x2e\x01\x03\x01", Some(Spoken::Other)),
            (b"\xff\xff\xff\xff", Some(Spoken::Other)),
            (b"\x16\x03\x01\x02\0", None),
            (b"GET", None),
            (b"", None),
        ] {
            assert_eq!(Spoken::of(first), spoken, "{first:?}");
        }
    }

    #[test]
    fn causes_have_words_that_an_alert_of_metrics_can_name() {
        for (error, label) in [
            (
                Error::PeerIncompatible(PeerIncompatible::NoCipherSuitesInCommon),
                "no_cipher_in_common",
            ),
            (
                Error::PeerIncompatible(PeerIncompatible::Tls12NotOfferedOrEnabled),
                "no_version_in_common",
            ),
            (Error::NoCertificatesPresented, "no_certificate"),
            (
                Error::InvalidCertificate(CertificateError::UnknownIssuer),
                "certificate_unknown_issuer",
            ),
            (
                Error::InvalidCertificate(CertificateError::BadSignature),
                "certificate_unknown_issuer",
            ),
            (
                Error::InvalidCertificate(CertificateError::Expired),
                "certificate_expired",
            ),
            (
                Error::AlertReceived(AlertDescription::UnknownCA),
                "refused_by_client",
            ),
            (
                Error::AlertReceived(AlertDescription::DecryptError),
                "refused_by_client",
            ),
            (
                Error::AlertReceived(AlertDescription::InternalError),
                "alert",
            ),
            (
                Error::InvalidMessage(InvalidMessage::InvalidContentType),
                "protocol",
            ),
        ] {
            assert_eq!(Failure::Tls(error).label(), label);
        }
    }

    #[test]
    fn a_certificate_that_is_not_taken_is_told_in_words() {
        let old = io::Error::other("UnsupportedCertVersion");
        let old = rustls::OtherError(std::sync::Arc::new(old));
        let authority = io::Error::other("CaUsedAsEndEntity");
        let authority = rustls::OtherError(std::sync::Arc::new(authority));
        for (error, words) in [
            (CertificateError::Other(old), "X.509 version 3"),
            (CertificateError::Other(authority), "CA:TRUE"),
            (CertificateError::Expired, "has expired"),
            (CertificateError::NotValidYet, "compare the clocks"),
            (CertificateError::Revoked, "is revoked"),
            (CertificateError::UnknownIssuer, "ssl.truststore.location"),
            (CertificateError::BadSignature, "not signed by the issuer"),
            (CertificateError::InvalidPurpose, "clientAuth"),
        ] {
            let said = Failure::Tls(Error::InvalidCertificate(error)).to_string();
            assert!(said.starts_with("the certificate of the client "), "{said}");
            assert!(said.contains(words) && !said.contains("Other"), "{said}");
        }
        let unknown = Error::InvalidCertificate(CertificateError::BadEncoding);
        assert!(Failure::Tls(unknown).to_string().contains("BadEncoding"));
    }

    #[test]
    fn who_only_tries_the_port_makes_no_line() {
        assert!(!Failure::Unused.is_told());
        assert!(Failure::Closed.is_told());
        assert!(Failure::NotTls(Spoken::Http).is_told());
    }
}
