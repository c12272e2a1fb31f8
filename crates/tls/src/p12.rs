//! PKCS#12 stores, as keytool and OpenSSL write them.
//!
//! Invariants: a store is taken only if its password fits; how many entries are looked at, and how
//! long a chain becomes, has a bound. Which certificates of a store are trusted follows Java. Not
//! overwritten: what the crate that decrypts keeps of keys while it works.

use std::sync::Arc;

use p12_keystore::Pkcs12Archive;
use p12_keystore::error::Error;
use rustls::sign::{CertifiedKey, SigningKey};
use rustls_pki_types::CertificateDer;

use crate::bounds::{CHAIN_MAX, KEYS_MAX, TRUSTED_MAX};
use crate::certificate::CertificateFacts;
use crate::key::{self, KeyProblem};

/// The beginning of a store of Java's own format, and of another of its formats.
const JAVA_MAGIC: [[u8; 4]; 2] = [[0xfe, 0xed, 0xfe, 0xed], [0xce, 0xce, 0xce, 0xce]];

/// The number of `scrypt`, as DER writes it. Neither keytool nor OpenSSL uses it for stores, and it
/// may ask for a gigabyte.
const SCRYPT: [u8; 9] = [0x2b, 0x06, 0x01, 0x04, 0x01, 0xda, 0x47, 0x04, 0x0b];

/// Why a store cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum P12Problem {
    /// It is a store of Java's own format.
    Java,
    /// It is PEM.
    Pem,
    /// It is no PKCS#12.
    NotPkcs12,
    /// The password does not fit.
    WrongPassword,
    /// It is encrypted in a way that is not served.
    OldEncryption,
    /// It has no key, or none with a certificate.
    NoKey,
    /// A key is of a kind that is not served.
    Key(KeyProblem),
    /// It has no certificate.
    NoCertificate,
    /// A certificate cannot be read.
    BadCertificate,
    /// It has more entries than are looked at.
    TooMany,
}

/// Opens a store.
pub(crate) fn open(bytes: &[u8], password: &str) -> Result<P12Store, P12Problem> {
    if JAVA_MAGIC.iter().any(|magic| bytes.starts_with(magic)) {
        return Err(P12Problem::Java);
    }
    if crate::pem::is_pem(bytes) {
        return Err(P12Problem::Pem);
    }
    if bytes.windows(SCRYPT.len()).any(|window| window == SCRYPT) {
        return Err(P12Problem::OldEncryption);
    }
    let archive = Pkcs12Archive::from_pkcs12(bytes, password).map_err(|error| match error {
        Error::MacError(_) | Error::UnpadError | Error::Pkcs5Error(_) => P12Problem::WrongPassword,
        Error::UnsupportedEncryptionScheme
        | Error::UnsupportedMacAlgorithm
        | Error::InvalidParameters => P12Problem::OldEncryption,
        Error::X509Error(_) | Error::UnsupportedCertificateType => P12Problem::BadCertificate,
        _ => P12Problem::NotPkcs12,
    })?;
    if archive.certs.len() > TRUSTED_MAX || archive.keys.len() > KEYS_MAX {
        return Err(P12Problem::TooMany);
    }
    let certificates = archive.certs.iter().map(|bag| {
        let der = bag.cert.as_der();
        let facts = CertificateFacts::of(der).ok_or(P12Problem::BadCertificate)?;
        Ok(P12Certificate {
            der: CertificateDer::from(der.to_vec()),
            facts,
            local_key_id: bag.local_key_id.clone(),
            is_trusted: bag.trusted,
        })
    });
    let certificates = certificates.collect::<Result<Vec<_>, P12Problem>>()?;
    Ok(P12Store {
        archive,
        certificates,
    })
}

/// An opened store.
pub(crate) struct P12Store {
    archive: Pkcs12Archive,
    certificates: Vec<P12Certificate>,
}

struct P12Certificate {
    der: CertificateDer<'static>,
    facts: CertificateFacts,
    local_key_id: Option<Vec<u8>>,
    is_trusted: bool,
}

impl P12Store {
    /// Returns the keys, each with its chain, in the order of the store.
    pub(crate) fn keys(&self) -> Result<Vec<CertifiedKey>, P12Problem> {
        let mut keys = Vec::new();
        for bag in &self.archive.keys {
            let signing = key::of_pkcs8(bag.key.as_der()).map_err(P12Problem::Key)?;
            let id = bag.local_key_id.as_ref().map(AsRef::<[u8]>::as_ref);
            if let Some(leaf) = self.leaf_of(id, &signing) {
                keys.push(CertifiedKey::new(self.chain_of(leaf), signing));
            }
        }
        if keys.is_empty() {
            return Err(P12Problem::NoKey);
        }
        Ok(keys)
    }

    /// Returns the certificates that are trusted, and whether Java would see them: those that are
    /// marked so, and those of keys. Where neither is there, all, which Java does not see.
    pub(crate) fn trusted(&self) -> Result<(Vec<CertificateDer<'static>>, bool), P12Problem> {
        let is_meant = |it: &&P12Certificate| it.is_trusted || it.local_key_id.is_some();
        let of = |it: &P12Certificate| it.der.clone();
        let meant: Vec<_> = self.certificates.iter().filter(is_meant).map(of).collect();
        if !meant.is_empty() {
            return Ok((meant, true));
        }
        let all: Vec<_> = self.certificates.iter().map(of).collect();
        if all.is_empty() {
            return Err(P12Problem::NoCertificate);
        }
        Ok((all, false))
    }

    /// Returns the certificate of a key: the one with the same mark, or else with the same public
    /// key.
    fn leaf_of(&self, id: Option<&[u8]>, signing: &Arc<dyn SigningKey>) -> Option<&P12Certificate> {
        let is_marked = |it: &&P12Certificate| id.is_some() && it.local_key_id.as_deref() == id;
        let fits = |it: &&P12Certificate| it.facts.is_of(&**signing);
        let marked = self.certificates.iter().find(is_marked);
        marked.or_else(|| self.certificates.iter().find(fits))
    }

    /// Returns a certificate and those that follow it, each the issuer of the one before.
    fn chain_of(&self, leaf: &P12Certificate) -> Vec<CertificateDer<'static>> {
        let mut chain = vec![leaf];
        while let Some(last) = chain.last().copied()
            && !last.facts.is_self_issued()
            && chain.len() < CHAIN_MAX
        {
            let is_next = |it: &&P12Certificate| {
                let is_issuer = it.facts.subject_der == last.facts.issuer_der;
                is_issuer && !chain.iter().any(|one| one.der == it.der)
            };
            let Some(next) = self.certificates.iter().find(is_next) else {
                break;
            };
            chain.push(next);
        }
        chain.into_iter().map(|it| it.der.clone()).collect()
    }
}
