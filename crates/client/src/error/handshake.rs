//! Why TLS with a broker fails, in words that say which side has to change what.
//!
//! Text of a broker (the names in its certificate) is shown escaped.

use std::io;

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, PeerIncompatible};
use wire::text::EscapedText;

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
        } => {
            let presented = presented.join(", ");
            format!(
                "the broker's certificate is not for the name {:?}, but for {}",
                expected.to_str(),
                EscapedText(&presented)
            )
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the broker's certificate has expired".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the broker's certificate is not valid yet: compare the clocks".to_owned()
        }
        CertificateError::Revoked => {
            "the broker's certificate is revoked (ssl.crl.location)".to_owned()
        }
        other => format!("the broker's certificate: {other}"),
    }
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
