//! Why TLS with a broker fails, in words that say which side has to change what.
//!
//! Text of a broker (the names in its certificate) is shown escaped.

use std::io;

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, PeerIncompatible};
use tls::UnnamedFault;

/// Returns the words for an error of TLS; `None` if the error is of a socket.
pub(super) fn words(error: &io::Error) -> Option<String> {
    let error = error.get_ref()?.downcast_ref::<Error>()?;
    Some(match error {
        Error::InvalidCertificate(why) => certificate(why),
        Error::AlertReceived(alert) => told(*alert),
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "what answers there does not speak TLS".to_owned()
        }
        Error::PeerIncompatible(how) => incompatible(how),
        other => other.to_string(),
    })
}

fn certificate(why: &CertificateError) -> String {
    match why {
        // A bad signature is that of another authority which has the name of a trusted one.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "no issuer of the broker's certificate is trusted: ssl.truststore.location has to \
             have it"
                .to_owned()
        }
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => format!(
            "the broker's certificate is not for the name {:?}, but for {}",
            expected.to_str(),
            super::shown(&hosts(presented))
        ),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the broker's certificate has expired".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the broker's certificate is not valid yet: compare the clocks".to_owned()
        }
        CertificateError::Revoked => {
            "the broker's certificate is revoked (ssl.crl.location)".to_owned()
        }
        other => match UnnamedFault::of(other) {
            Some(UnnamedFault::OldVersion) => {
                "the broker's certificate has an old form: it has to be of X.509 version 3, with \
                 a subjectAltName"
                    .to_owned()
            }
            Some(UnnamedFault::IsAuthority) => {
                "the broker's certificate is that of an authority (basicConstraints CA:TRUE): it \
                 is trusted only if it is itself in ssl.truststore.location"
                    .to_owned()
            }
            None => format!("the broker's certificate: {other}"),
        },
    }
}

/// Returns the names of a certificate without the type of those of hosts. The common name is not
/// one of them.
fn hosts(presented: &[String]) -> String {
    if presented.is_empty() {
        return "none: it has no subjectAltName".to_owned();
    }
    let names = presented.iter().map(|name| {
        let bare = name.strip_prefix("DnsName(");
        bare.and_then(|bare| bare.strip_suffix(')')).unwrap_or(name)
    });
    names.collect::<Vec<_>>().join(", ")
}

/// What the broker has said by an alert.
fn told(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::CertificateRequired => {
            "the broker asks this client for a certificate: ssl.keystore.location names it"
                .to_owned()
        }
        AlertDescription::UnknownCA
        | AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateUnknown
        | AlertDescription::DecryptError
        | AlertDescription::AccessDenied => format!(
            "the broker refuses the certificate of this client, or asks for one ({alert:?}): \
             compare ssl.keystore.location with what the broker trusts"
        ),
        AlertDescription::HandshakeFailure
        | AlertDescription::ProtocolVersion
        | AlertDescription::InsufficientSecurity => format!(
            "the broker ended the handshake ({alert:?}): compare ssl.enabled.protocols and \
             ssl.cipher.suites with its own, and whether it asks for a certificate"
        ),
        _ => format!("the broker ended the handshake: {alert:?}"),
    }
}

fn incompatible(how: &PeerIncompatible) -> String {
    match how {
        PeerIncompatible::ServerDoesNotSupportTls12Or13
        | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig => {
            "the broker has no version of TLS in common with ssl.enabled.protocols".to_owned()
        }
        other => format!("the broker and this client do not fit: {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(error: Error) -> String {
        words(&io::Error::new(io::ErrorKind::InvalidData, error)).unwrap()
    }

    #[test]
    fn each_cause_says_which_side_has_to_change_what() {
        let issuer = of(CertificateError::UnknownIssuer.into());
        assert!(issuer.contains("ssl.truststore.location"), "{issuer}");
        let expired = of(CertificateError::Expired.into());
        assert_eq!(expired, "the broker's certificate has expired");
        let asked = of(Error::AlertReceived(AlertDescription::CertificateRequired));
        assert!(asked.contains("ssl.keystore.location"), "{asked}");
        let refused = of(Error::AlertReceived(AlertDescription::BadCertificate));
        assert!(refused.contains("BadCertificate"), "{refused}");
        let other = of(InvalidMessage::InvalidContentType.into());
        assert_eq!(other, "what answers there does not speak TLS");
        let version = PeerIncompatible::ServerDoesNotSupportTls12Or13;
        assert!(of(version.into()).contains("ssl.enabled.protocols"));
    }

    #[test]
    fn a_certificate_that_no_host_has_says_what_is_missing() {
        let named = |presented: &[&str]| {
            let expected = rustls_pki_types::ServerName::try_from("a").unwrap();
            let presented = presented.iter().map(|&name| name.to_owned()).collect();
            of(CertificateError::NotValidForNameContext {
                expected,
                presented,
            }
            .into())
        };
        let some = named(&["DnsName(\"b\")", "IpAddress(127.0.0.1)"]);
        assert!(
            some.ends_with("but for \"b\", IpAddress(127.0.0.1)"),
            "{some}"
        );
        assert!(named(&[]).ends_with("it has no subjectAltName"));
        let old = rustls::OtherError(std::sync::Arc::new(io::Error::other(
            "UnsupportedCertVersion",
        )));
        let old = of(CertificateError::Other(old).into());
        assert!(old.contains("version 3"), "{old}");
        let authority =
            rustls::OtherError(std::sync::Arc::new(io::Error::other("CaUsedAsEndEntity")));
        let authority = of(CertificateError::Other(authority).into());
        assert!(authority.contains("CA:TRUE"), "{authority}");
        let failed = of(Error::AlertReceived(AlertDescription::HandshakeFailure));
        assert!(failed.contains("ssl.cipher.suites"), "{failed}");
    }

    #[test]
    fn names_of_a_certificate_cannot_forge_lines() {
        let expected = rustls_pki_types::ServerName::try_from("a").unwrap();
        let presented = vec!["b\nforebay: done".to_owned()];
        let told = of(CertificateError::NotValidForNameContext {
            expected,
            presented,
        }
        .into());
        assert!(
            told.contains("\"a\"") && told.contains("b\\u{a}forebay"),
            "{told}"
        );
    }

    #[test]
    fn an_error_of_a_socket_has_other_words() {
        let error = io::Error::from(io::ErrorKind::ConnectionReset);
        assert_eq!(words(&error), None);
        assert_eq!(words(&io::Error::other("other")), None);
    }
}
