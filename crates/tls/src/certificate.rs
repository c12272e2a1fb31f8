//! What there is to know of one certificate: whose it is, for which names, until when, and its
//! fingerprint.
//!
//! Invariant: any bytes give facts or `None`. Not here: whether it is trusted.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use aws_lc_rs::digest;
use rustls::sign::SigningKey;
use x509_parser::oid_registry::OID_X509_EXT_SUBJECT_ALT_NAME;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::der::{DerReader, DerValue, tag};
use crate::principal::{canonical_subject, subject_text};

/// Names that a message lists.
const SHOWN_MAX: usize = 20;

/// One certificate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CertificateFacts {
    /// Whose it is, as Java writes it.
    pub subject: String,
    /// The same for comparisons.
    pub(crate) canonical: String,
    /// The DER of each name besides the subject.
    // Bounded: `store::KEY_STORE_BYTES_MAX`.
    pub(crate) alternative_names: BTreeSet<Vec<u8>>,
    /// From when on it is valid, in seconds since the beginning of 1970.
    pub not_before: i64,
    /// Until when it is valid, in the same way.
    pub not_after: i64,
    /// SHA-256 of it, as `openssl x509 -fingerprint -sha256` prints it.
    pub fingerprint: String,
    /// Issuer, for finding the next one in a chain.
    pub(crate) issuer_der: Vec<u8>,
    /// Subject, for the same.
    pub(crate) subject_der: Vec<u8>,
    /// The public key, as it is written in a certificate.
    pub(crate) public_key: Vec<u8>,
    /// What it may be used for.
    pub(crate) purposes: Purposes,
}

/// What a certificate may be used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Purposes {
    /// To show who a server is.
    pub(crate) is_for_servers: bool,
    /// To show who a client is.
    pub(crate) is_for_clients: bool,
}

impl CertificateFacts {
    /// Reads a certificate; `None` if the bytes are none.
    pub fn of(der: &[u8]) -> Option<Self> {
        let (rest, certificate) = X509Certificate::from_der(der).ok()?;
        if !rest.is_empty() {
            return None;
        }
        let subject_der = certificate.subject().as_raw();
        let usage = certificate.extended_key_usage().ok()?;
        let purposes = usage.map_or(
            Purposes {
                is_for_servers: true,
                is_for_clients: true,
            },
            |usage| Purposes {
                is_for_servers: usage.value.any || usage.value.server_auth,
                is_for_clients: usage.value.any || usage.value.client_auth,
            },
        );
        let names = certificate
            .get_extension_unique(&OID_X509_EXT_SUBJECT_ALT_NAME)
            .ok()?;
        let validity = certificate.validity();
        Some(Self {
            subject: subject_text(subject_der)?,
            canonical: canonical_subject(subject_der)?,
            alternative_names: names.map_or_else(
                || Some(BTreeSet::new()),
                |extension| each_name(extension.value),
            )?,
            not_before: validity.not_before.timestamp(),
            not_after: validity.not_after.timestamp(),
            fingerprint: fingerprint(der),
            issuer_der: certificate.issuer().as_raw().to_vec(),
            subject_der: subject_der.to_vec(),
            public_key: certificate.public_key().raw.to_vec(),
            purposes,
        })
    }

    /// Returns true if a key belongs to it.
    pub(crate) fn is_of(&self, key: &dyn SigningKey) -> bool {
        let public = key.public_key();
        public.is_some_and(|public| *public.as_ref() == *self.public_key)
    }

    /// Returns true if it has signed itself, as far as names tell.
    pub(crate) fn is_self_issued(&self) -> bool {
        self.issuer_der == self.subject_der
    }

    /// Returns the names that it is for, for messages.
    pub fn names_text(&self) -> String {
        let mut text = String::new();
        for name in self.alternative_names.iter().take(SHOWN_MAX) {
            let separator = if text.is_empty() { "" } else { ", " };
            // Writing to a `String` cannot fail.
            let _ = write!(text, "{separator}{}", name_text(name));
        }
        if self.alternative_names.len() > SHOWN_MAX {
            text.push_str(", ..");
        }
        text
    }
}

pub(crate) fn each_name(extension: &[u8]) -> Option<BTreeSet<Vec<u8>>> {
    let mut reader = DerReader::new(extension);
    let mut reader = DerReader::new(reader.tagged(tag::SEQUENCE)?.content);
    let mut names = BTreeSet::new();
    while !reader.is_empty() {
        names.insert(reader.value()?.whole.to_vec());
    }
    Some(names)
}

/// Returns one name for messages, without control characters.
pub(crate) fn name_text(der: &[u8]) -> String {
    let Some(DerValue { tag, content, .. }) = DerReader::new(der).value() else {
        return "?".into();
    };
    let text = || -> String {
        let text = String::from_utf8_lossy(content);
        text.chars().filter(|letter| !letter.is_control()).collect()
    };
    match (tag, content) {
        (0x81, _) => format!("email:{}", text()),
        (0x82, _) => format!("DNS:{}", text()),
        (0x86, _) => format!("URI:{}", text()),
        (0x87, &[a, b, c, d]) => format!("IP:{}", Ipv4Addr::new(a, b, c, d)),
        (0x87, content) => match <[u8; 16]>::try_from(content) {
            Ok(octets) => format!("IP:{}", Ipv6Addr::from(octets)),
            Err(_) => "IP:?".into(),
        },
        _ => "another kind of name".into(),
    }
}

/// Returns SHA-256 of a certificate with a colon between any two bytes.
pub(crate) fn fingerprint(der: &[u8]) -> String {
    let digest = digest::digest(&digest::SHA256, der);
    let each = digest.as_ref().iter().map(|byte| format!("{byte:02X}"));
    each.collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, KeyPair};

    use super::CertificateFacts;

    #[test]
    fn facts_are_those_of_the_certificate() {
        let names = vec![
            "a.example".to_owned(),
            "10.1.2.3".to_owned(),
            "::1".to_owned(),
        ];
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, "broker 1");
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2040, 1, 1);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let facts = CertificateFacts::of(certificate.der()).unwrap();
        assert_eq!(facts.subject, "CN=broker 1");
        assert_eq!(
            (facts.not_before, facts.not_after),
            (1_577_836_800, 2_208_988_800)
        );
        assert!(facts.is_self_issued());
        assert_eq!(facts.names_text(), "DNS:a.example, IP:10.1.2.3, IP:::1");
        assert!(facts.purposes.is_for_servers && !facts.purposes.is_for_clients);
        assert_eq!(facts.fingerprint.len(), 32 * 3 - 1);
    }

    proptest! {
        #[test]
        fn any_bytes_are_facts_or_none(bytes in any::<Vec<u8>>()) {
            let _ = CertificateFacts::of(&bytes);
        }
    }
}
