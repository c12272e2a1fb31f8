//! PKCS#12 stores, as keytool and OpenSSL write them.
//!
//! Invariants: a store is taken only if its password fits; how many entries are looked at, how much
//! work they ask for, and how long a chain becomes, has a bound. Which certificates of a
//! store are trusted follows Java. Not overwritten: what the crate that decrypts keeps of keys.

mod part;

use std::sync::Arc;

use p12_keystore::Pkcs12Archive;
use p12_keystore::error::Error;
use rustls::sign::{CertifiedKey, SigningKey};
use rustls_pki_types::CertificateDer;

use crate::bounds::{CHAIN_MAX, KEYS_MAX, TRUSTED_MAX};
use crate::certificate::CertificateFacts;
use crate::der::{DerReader, tag};
use crate::key::{self, KeyProblem};

/// The beginning of a store of Java's own format, and of another of its formats.
const JAVA_MAGIC: [[u8; 4]; 2] = [[0xfe, 0xed, 0xfe, 0xed], [0xce, 0xce, 0xce, 0xce]];

/// The number of `scrypt`, as DER writes it. Neither keytool nor OpenSSL uses it for stores, and it
/// may ask for a gigabyte.
const SCRYPT: [u8; 9] = [0x2b, 0x06, 0x01, 0x04, 0x01, 0xda, 0x47, 0x04, 0x0b];

/// Rounds that all entries of a store may ask for together to find their keys from the password:
/// several seconds of work. The crate that decrypts bounds those of one entry.
const ROUNDS_MAX: u64 = 10_000_000;

/// The numbers of what finds keys, as DER writes them: PBKDF2, and the beginning of those that
/// PKCS#12 had before.
const PBKDF2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x05, 0x0c];
const PKCS12_PBE: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x01];

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
    /// Its entries ask for too much work together.
    TooCostly,
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
    let rounds = rounds_of(bytes);
    if rounds > ROUNDS_MAX {
        return Err(P12Problem::TooCostly);
    }
    check_parts(bytes, password, rounds)?;
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

/// Checks what the entries within encrypted parts ask for, besides the rounds outside of them.
fn check_parts(bytes: &[u8], password: &str, outside: u64) -> Result<(), P12Problem> {
    let mut rounds = outside;
    for part in part::opened(bytes, password).ok_or(P12Problem::NotPkcs12)? {
        if part.windows(SCRYPT.len()).any(|window| window == SCRYPT) {
            return Err(P12Problem::OldEncryption);
        }
        rounds = rounds.saturating_add(rounds_of(&part));
    }
    if rounds > ROUNDS_MAX {
        return Err(P12Problem::TooCostly);
    }
    Ok(())
}

/// Returns how many rounds are asked for by entries that are not encrypted twice.
fn rounds_of(bytes: &[u8]) -> u64 {
    let at_each = (0..bytes.len()).filter_map(|at| rounds_at(bytes.get(at..)?));
    at_each.fold(0, u64::saturating_add)
}

/// Returns how many rounds are asked for by the algorithm that begins here; `None` if none does.
fn rounds_at(bytes: &[u8]) -> Option<u64> {
    if bytes.first() != Some(&tag::OID) {
        return None;
    }
    let mut reader = DerReader::new(bytes);
    let number = reader.value()?.content;
    if number != PBKDF2 && !number.starts_with(PKCS12_PBE) {
        return None;
    }
    let mut parameters = DerReader::new(reader.tagged(tag::SEQUENCE)?.content);
    parameters.tagged(tag::OCTET_STRING)?;
    Some(number_of(parameters.tagged(tag::INTEGER)?.content))
}

/// Returns the number that the content of an integer stands for.
fn number_of(digits: &[u8]) -> u64 {
    let add = |sum: u64, digit: &u8| sum.saturating_mul(256).saturating_add(u64::from(*digit));
    digits.iter().fold(0, add)
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

#[cfg(test)]
mod tests {
    use pkcs8::der::Encode as _;
    use pkcs8::pkcs5::{EncryptionScheme, pbes2};

    use super::*;

    const PASSWORD: &[u8] = b"hunter2";
    const GOLDEN: &str = "hunter2";

    /// What says that a key is found by a million rounds of a scheme.
    fn million(scheme: &[u8]) -> Vec<u8> {
        let mut algorithm = vec![tag::OID, u8::try_from(scheme.len()).unwrap()];
        algorithm.extend_from_slice(scheme);
        let parameters = [0x30, 9, 4, 2, 7, 7, 2, 3, 0x0f, 0x42, 0x40];
        algorithm.extend_from_slice(&parameters);
        algorithm
    }

    #[test]
    fn the_rounds_of_all_entries_are_bounded_together() {
        let openssl = include_bytes!("../tests/golden/openssl.p12");
        assert_eq!(rounds_of(openssl), 2 * 2048, "the key and its certificates");
        let legacy = include_bytes!("../tests/golden/openssl-legacy.p12");
        assert_eq!(rounds_of(legacy), 2 * 2048);
        let old = [PKCS12_PBE, &[3]].concat();
        for entry in [million(PBKDF2), million(&old)] {
            let refused =
                |entries: usize| open(&entry.repeat(entries), "").map(|_| ()).unwrap_err();
            assert_eq!(refused(10), P12Problem::NotPkcs12, "that is looked at");
            assert_eq!(refused(11), P12Problem::TooCostly);
        }
        let most = [&million(PBKDF2)[..11], &[0x30, 9, 4, 2, 7, 7, 2, 3, 0xff]].concat();
        assert_eq!(rounds_of(&most), 0, "it is not whole");
    }

    fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
        let content = parts.concat();
        let length = u16::try_from(content.len()).unwrap().to_be_bytes();
        let length = match content.len() {
            short @ ..0x80 => vec![u8::try_from(short).unwrap()],
            ..0x100 => vec![0x81, length[1]],
            _ => [&[0x82], &length[..]].concat(),
        };
        [&[tag], &length[..], &content].concat()
    }

    /// A store without a code of its contents, with one part that is encrypted and holds this.
    fn store_with(content: &[u8]) -> Vec<u8> {
        const DATA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x01];
        const ENCRYPTED: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x06];
        let scheme = pbes2::Parameters::generate_pbkdf2_sha256_aes256cbc(1, &[7; 8], [9; 16]);
        let scheme = scheme.unwrap();
        let hidden = scheme.encrypt(PASSWORD, content).unwrap();
        let algorithm = EncryptionScheme::from(scheme).to_der().unwrap();
        let kind = |oid| der(tag::OID, &[oid]);
        let (version, hidden) = (der(tag::INTEGER, &[&[0]]), der(tag::IMPLICIT_0, &[&hidden]));
        let info = der(tag::SEQUENCE, &[&kind(DATA), &algorithm, &hidden]);
        let data = der(tag::SEQUENCE, &[&version, &info]);
        let data = der(tag::CONTEXT_0, &[&data]);
        let part = der(tag::SEQUENCE, &[&kind(ENCRYPTED), &data]);
        let parts = der(tag::SEQUENCE, &[&part]);
        let parts = der(tag::CONTEXT_0, &[&der(tag::OCTET_STRING, &[&parts])]);
        let safe = der(tag::SEQUENCE, &[&kind(DATA), &parts]);
        der(tag::SEQUENCE, &[&der(tag::INTEGER, &[&[3]]), &safe])
    }

    #[test]
    fn the_rounds_of_entries_that_are_encrypted_twice_are_bounded_too() {
        let open = |content: &[u8]| open(&store_with(content), "hunter2").map(|_| ());
        assert_eq!(open(&[0x30, 0]), Ok(()), "a store without entries is read");
        let entry = million(PBKDF2);
        assert_eq!(open(&entry.repeat(9)), Err(P12Problem::NotPkcs12));
        assert_eq!(open(&entry.repeat(10)), Err(P12Problem::TooCostly));
        assert_eq!(open(&SCRYPT), Err(P12Problem::OldEncryption));
    }

    #[test]
    fn parts_of_each_generation_of_encryption_are_looked_into() {
        for store in [
            &include_bytes!("../tests/golden/openssl.p12")[..],
            include_bytes!("../tests/golden/openssl-legacy.p12"),
            include_bytes!("../tests/golden/keytool.p12"),
        ] {
            let parts = part::opened(store, GOLDEN).unwrap();
            assert!(!parts.is_empty());
            for part in parts {
                let certificates = DerReader::new(&part).tagged(tag::SEQUENCE);
                assert!(certificates.is_some_and(|it| it.whole.len() == part.len()));
            }
            let wrong = part::opened(store, "other").unwrap();
            assert!(
                wrong
                    .iter()
                    .all(|part| part.first() != Some(&tag::SEQUENCE))
            );
        }
        assert!(part::opened(&[0x30, 0], "").is_none());
    }
}
