//! Key stores and trust stores: which combinations of settings are a store, and what is in it.
//!
//! What can be said without looking at files is said by [`key_place`] and [`trust_place`];
//! `keys` and `trusted` read. Combinations that Kafka forbids are forbidden here. The type JKS,
//! which is Kafka's default, stands for PKCS#12 too: keytool writes nothing else by itself since
//! Java 9, and Java opens it.
//!
//! Invariants: a key that is returned belongs to the first certificate of its chain; sizes of
//! files, numbers of entries and lengths of chains have bounds.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::sign::{CertifiedKey, SigningKey};
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer};
use x509_parser::prelude::{CertificateRevocationList, FromDer as _, X509Version};

use crate::bounds::{CHAIN_MAX, TRUSTED_MAX};
use crate::certificate::CertificateFacts;
use crate::file;
use crate::key;
use crate::p12::{self, P12Problem, P12Store};
use crate::password::Password;
use crate::pem::{self, PemKind, PemProblem, PemSection};
use crate::problem::{TlsProblem, TlsWarning};
use crate::settings::{Setting, StoreSettings};

mod place;

pub(crate) use place::{KeyPlace, TrustPlace, key_place, trust_place};

/// Longest file with keys.
const KEY_STORE_BYTES_MAX: u64 = 1 << 20;
/// Longest file with trusted certificates.
const TRUST_STORE_BYTES_MAX: u64 = 8 << 20;
/// Longest file of revocation lists.
const CRL_BYTES_MAX: u64 = 64 << 20;

/// Opens the key store; there is at least one key.
pub(crate) fn keys(
    settings: &StoreSettings,
    place: &KeyPlace<'_>,
    warnings: &mut Vec<TlsWarning>,
) -> Result<Vec<CertifiedKey>, TlsProblem> {
    match place {
        KeyPlace::Inline { key, chain } => {
            let sections = inline_sections(key)?;
            let chain = certificates(&inline_sections(chain)?);
            let signing = one_key(&sections, settings.key_password.as_ref());
            let signing = signing.map_err(|(why, advice)| {
                TlsProblem::of(&key.name, why, with_name(settings, advice))
            })?;
            let certified = checked(CertifiedKey::new(chain, signing));
            let certified = certified.map_err(|(why, advice)| {
                let setting = settings.name_of("ssl.keystore.certificate.chain");
                TlsProblem::of(setting, why, advice)
            })?;
            Ok(vec![certified])
        }
        KeyPlace::PemFile(location) => {
            file::check_mode(location, settings.is_strict, warnings)?;
            let bytes = file::read(location, KEY_STORE_BYTES_MAX)?;
            let wrong = |(why, advice): Texts| {
                let advice = with_name(settings, advice);
                TlsProblem::of(&location.name, why, advice).in_file(&location.value)
            };
            let sections = pem::sections(&bytes).map_err(|it| wrong(pem_texts(it)))?;
            let chain = certificates(&sections);
            let signing = one_key(&sections, settings.key_password.as_ref()).map_err(wrong)?;
            let certified = checked(CertifiedKey::new(chain, signing)).map_err(wrong)?;
            Ok(vec![certified])
        }
        KeyPlace::Pkcs12 { location, password } => {
            file::check_mode(location, settings.is_strict, warnings)?;
            let store = open_pkcs12(location, Some(*password), KEY_STORE_BYTES_MAX)?;
            let wrong = |problem| p12_problem(location, Some(*password), problem);
            let keys = store.keys().map_err(wrong)?;
            let checked = keys.into_iter().map(checked);
            let checked = checked.collect::<Result<Vec<_>, Texts>>();
            checked.map_err(|(why, advice)| {
                TlsProblem::of(&location.name, why, advice).in_file(&location.value)
            })
        }
    }
}

/// Opens the trust store; there is at least one certificate.
pub(crate) fn trusted(
    place: &TrustPlace<'_>,
    warnings: &mut Vec<TlsWarning>,
) -> Result<Vec<CertificateDer<'static>>, TlsProblem> {
    let (setting, path, trusted) = match place {
        TrustPlace::Inline(text) => (&text.name, None, certificates(&inline_sections(text)?)),
        TrustPlace::PemFile(location) => {
            let bytes = file::read(location, TRUST_STORE_BYTES_MAX)?;
            let sections = pem::sections(&bytes).map_err(|problem| {
                let (why, advice) = pem_texts(problem);
                TlsProblem::of(&location.name, why, advice).in_file(&location.value)
            })?;
            (
                &location.name,
                Some(&location.value),
                certificates(&sections),
            )
        }
        TrustPlace::Pkcs12 { location, password } => {
            let store = open_pkcs12(location, *password, TRUST_STORE_BYTES_MAX)?;
            let wrong = |problem| p12_problem(location, *password, problem);
            let (trusted, is_seen_by_java) = store.trusted().map_err(wrong)?;
            if !is_seen_by_java {
                let why = "no certificate in it is marked as trusted: all of them are, here; Java \
                           sees none";
                let advice = "write it again with keytool -importcert, if Java reads it too";
                let warning = TlsProblem::of(&location.name, why, advice);
                warnings.push(TlsWarning(warning.in_file(&location.value)));
            }
            (&location.name, Some(&location.value), trusted)
        }
    };
    let wrong = |why: &str, advice: &str| {
        let problem = TlsProblem::of(setting, why, advice);
        match path {
            Some(path) => problem.in_file(path),
            None => problem,
        }
    };
    if trusted.is_empty() {
        let why = "it holds no certificate";
        let advice = "name the certificates (-----BEGIN CERTIFICATE-----) that are trusted";
        return Err(wrong(why, advice));
    }
    if trusted.len() > TRUSTED_MAX {
        return Err(wrong(
            "it holds too many certificates",
            "trust at most 2000",
        ));
    }
    Ok(trusted)
}

/// Reads the revocation lists of a file.
pub(crate) fn revocation_lists(
    location: &Setting<PathBuf>,
) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsProblem> {
    let bytes = file::read(location, CRL_BYTES_MAX)?;
    let wrong = |why: &str, advice: &str| {
        TlsProblem::of(&location.name, why, advice).in_file(&location.value)
    };
    let lists = lists_of(&bytes, &wrong)?;
    if lists.iter().any(|list| is_of_version_1(list)) {
        let why =
            "a revocation list in it is of version 1, which cannot say whose key has signed it";
        let advice = "have the authority issue one of version 2 (openssl ca -gencrl does with \
                      crl_extensions in its configuration): converting the file does not help";
        return Err(wrong(why, advice));
    }
    Ok(lists)
}

fn lists_of(
    bytes: &[u8],
    wrong: &impl Fn(&str, &str) -> TlsProblem,
) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsProblem> {
    if !pem::is_pem(bytes) {
        return Ok(vec![CertificateRevocationListDer::from(bytes.to_vec())]);
    }
    let sections = pem::sections(bytes).map_err(|problem| {
        let (why, advice) = pem_texts(problem);
        wrong(why, advice)
    })?;
    let lists = sections
        .iter()
        .filter(|section| section.kind == PemKind::RevocationList);
    let lists: Vec<_> = lists
        .map(|section| CertificateRevocationListDer::from(section.der.to_vec()))
        .collect();
    if lists.is_empty() {
        let advice = "name a file with -----BEGIN X509 CRL-----, or one list as DER";
        return Err(wrong("it holds no revocation list", advice));
    }
    Ok(lists)
}

/// Returns true for a list of the version before extensions; what is no list is refused later.
fn is_of_version_1(list: &[u8]) -> bool {
    let Ok((_, list)) = CertificateRevocationList::from_der(list) else {
        return false;
    };
    list.version()
        .is_none_or(|version| version == X509Version::V1)
}

/// Puts the full name of the setting into what there is to do about a password of a key.
fn with_name(settings: &StoreSettings, advice: &str) -> String {
    const SETTING: &str = "ssl.key.password";
    let given = settings.key_password.as_ref();
    let name = given.map_or_else(|| settings.name_of(SETTING), |given| given.name.clone());
    advice.replace(SETTING, &name)
}

/// What is wrong, and what to do.
type Texts = (&'static str, &'static str);

fn inline_sections(text: &Setting<Password>) -> Result<Vec<PemSection>, TlsProblem> {
    pem::sections(text.value.expose().as_bytes()).map_err(|problem| {
        let (why, advice) = pem_texts(problem);
        TlsProblem::of(&text.name, why, advice)
    })
}

fn certificates(sections: &[PemSection]) -> Vec<CertificateDer<'static>> {
    let certificates = sections
        .iter()
        .filter(|section| section.kind == PemKind::Certificate);
    let der = certificates.map(|section| CertificateDer::from(section.der.to_vec()));
    der.collect()
}

/// Returns the only key among the sections.
fn one_key(
    sections: &[PemSection],
    password: Option<&Setting<Password>>,
) -> Result<Arc<dyn SigningKey>, Texts> {
    let mut keys = sections.iter().filter(|section| section.kind.is_key());
    let Some(section) = keys.next() else {
        return Err((
            "it holds no private key",
            "put the key (-----BEGIN PRIVATE KEY-----) and its certificates there",
        ));
    };
    if keys.next().is_some() {
        return Err(("it holds more than one private key", "leave one there"));
    }
    let password = password.map(|password| &password.value);
    key::of_section(section, password).map_err(key::KeyProblem::texts)
}

/// Checks that a key belongs to its chain.
fn checked(certified: CertifiedKey) -> Result<CertifiedKey, Texts> {
    if certified.cert.is_empty() {
        return Err((
            "it holds no certificate",
            "put the certificate of the key there, and those that follow it",
        ));
    }
    if certified.cert.len() > CHAIN_MAX {
        return Err((
            "its chain is longer than 10 certificates",
            "leave the certificate of the key, and those between it and one that clients trust",
        ));
    }
    // rustls compares keys, too, but reads no certificate of version 1, which Java serves with.
    let facts = certified.cert.iter().map(|it| CertificateFacts::of(it));
    let Some(facts) = facts.collect::<Option<Vec<_>>>() else {
        return Err((
            "a certificate in it cannot be read",
            "write it again, as X.509",
        ));
    };
    let first = facts.first();
    if !first.is_some_and(|first| first.is_of(&*certified.key)) {
        return Err((
            "the key does not belong to the first certificate",
            "put the certificate of this key first, and those that follow it behind",
        ));
    }
    Ok(certified)
}

fn pem_texts(problem: PemProblem) -> Texts {
    match problem {
        PemProblem::NoEnd => (
            "a section has no -----END",
            "write the file again, to its end",
        ),
        PemProblem::NotBase64 => ("a section is not base64", "write it again"),
        PemProblem::OldEncryption => (
            "the key is encrypted as before PKCS#8",
            "write it again: openssl pkcs8 -topk8 -v2 aes-256-cbc -in OLD -out NEW",
        ),
        PemProblem::TooMany => ("it has too many sections", "leave those that are needed"),
    }
}

fn open_pkcs12(
    location: &Setting<PathBuf>,
    password: Option<&Setting<Password>>,
    bytes_max: u64,
) -> Result<P12Store, TlsProblem> {
    let bytes = file::read(location, bytes_max)?;
    let text = password.map_or("", |password| password.value.expose());
    p12::open(&bytes, text).map_err(|problem| p12_problem(location, password, problem))
}

/// Says what is wrong with a store of a file, and what to do.
fn p12_problem(
    location: &Setting<PathBuf>,
    password: Option<&Setting<Password>>,
    problem: P12Problem,
) -> TlsProblem {
    let path = location.value.display();
    let type_setting = location.name.replace(".location", ".type");
    let (why, advice): (&str, String) = match problem {
        P12Problem::Java => (
            "it is a store of Java's own format (JKS)",
            format!(
                "convert it: keytool -importkeystore -srckeystore {path} -destkeystore {path}.p12 \
                 -deststoretype PKCS12, and name that file"
            ),
        ),
        P12Problem::Pem => (
            "it is PEM",
            format!(
                "set {type_setting}=PEM, and take out the password of the store (that of the key \
                 is ssl.key.password)"
            ),
        ),
        P12Problem::NotPkcs12 => (
            "it is no PKCS#12 store that is whole",
            "write it again with keytool or openssl pkcs12 -export".into(),
        ),
        P12Problem::WrongPassword => match password {
            Some(password) => (
                "the password does not open it",
                format!("correct {}", password.name),
            ),
            None => (
                "it needs a password",
                format!("set {}", location.name.replace(".location", ".password")),
            ),
        },
        P12Problem::OldEncryption => (
            "it is encrypted in a way that is not served",
            format!(
                "write it again: keytool -importkeystore -srckeystore {path} -destkeystore \
                 {path}.new -deststoretype PKCS12"
            ),
        ),
        P12Problem::NoKey => (
            "it holds no private key with a certificate",
            "name the store with the key; keytool -list says what is in one".into(),
        ),
        P12Problem::Key(problem) => (problem.texts().0, problem.texts().1.into()),
        P12Problem::NoCertificate => (
            "it holds no certificate",
            "import those that are trusted: keytool -importcert".into(),
        ),
        P12Problem::BadCertificate => (
            "a certificate in it cannot be read",
            "write it again, as X.509".into(),
        ),
        P12Problem::TooCostly => (
            "its entries ask for too many rounds of encryption together",
            "write it again with keytool or openssl pkcs12 -export".into(),
        ),
        P12Problem::TooMany => (
            "it has too many entries",
            "leave at most 16 keys and 2000 certificates".into(),
        ),
    };
    TlsProblem::of(&location.name, why, advice).in_file(&location.value)
}

#[cfg(test)]
mod tests;
