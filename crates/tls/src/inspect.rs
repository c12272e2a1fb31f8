//! What there is to show of certificates, and of files with keys and certificates, to an operator
//! who looks for what is wrong with them.
//!
//! Here a file is not refused as a whole: each thing in it is read by itself, or what is wrong with
//! it is named. Invariants: any bytes give a view or none; nothing of a private key is kept but
//! the public key that belongs to it. Not here: what is wrong enough to matter.

use std::path::Path;

use platform::bounded;
use x509_parser::oid_registry::{
    OID_EC_P256, OID_NIST_EC_P384, OID_NIST_EC_P521, OID_SIG_ED25519, OID_X509_EXT_SUBJECT_ALT_NAME,
};
use x509_parser::prelude::{FromDer as _, ParsedExtension, X509Certificate};
use x509_parser::public_key::PublicKey;
use zeroize::Zeroizing;

use crate::certificate::{each_name, fingerprint, name_text};
use crate::key::KeyProblem;
use crate::p12::{self, P12Problem};
use crate::password::Password;
use crate::pem::{self, PemKind, PemProblem};
use crate::principal::subject_text;

/// Longest file that is read.
const FILE_BYTES_MAX: u64 = 8 << 20;
/// Names of a certificate that are shown.
const NAMES_MAX: usize = 100;

/// One certificate as it is shown.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a question of its own about a certificate"
)]
pub struct CertificateView {
    /// Whose it is, as Java writes it.
    pub subject: String,
    /// Whose key has signed it.
    pub issuer: String,
    /// The names that it is for, such as `DNS:localhost`.
    pub names: Vec<String>,
    /// How many names are not among these.
    pub more_names: usize,
    /// Its serial number, in hexadecimal.
    pub serial: String,
    /// From when on it is valid, in seconds since the beginning of 1970.
    pub not_before: i64,
    /// Until when, in the same way.
    pub not_after: i64,
    /// SHA-256 of it.
    pub fingerprint: String,
    /// The kind of its key: `RSA`, `EC P-256`, `Ed25519`.
    pub key: String,
    /// The size of its key in bits, if that is known.
    pub key_bits: Option<usize>,
    /// True if it may issue others.
    pub is_authority: bool,
    /// True if it has signed itself, as far as names tell.
    pub is_self_issued: bool,
    /// False if it says that it is for other purposes than to show who a server is.
    pub is_for_servers: bool,
    /// The same for clients.
    pub is_for_clients: bool,
    /// The public key, as it is written there.
    pub public_key: Vec<u8>,
    issuer_der: Vec<u8>,
    subject_der: Vec<u8>,
    /// Which key it is, and by which key it is signed, if it says so.
    own_key_id: Option<Vec<u8>>,
    issuer_key_id: Option<Vec<u8>>,
}

impl CertificateView {
    /// Reads a certificate; `None` if the bytes are none.
    pub fn of(der: &[u8]) -> Option<Self> {
        let (rest, certificate) = X509Certificate::from_der(der).ok()?;
        if !rest.is_empty() {
            return None;
        }
        let shown = |der: &[u8]| subject_text(der).unwrap_or_else(|| "?".to_owned());
        let (subject, issuer) = (
            certificate.subject().as_raw(),
            certificate.issuer().as_raw(),
        );
        let names = certificate
            .get_extension_unique(&OID_X509_EXT_SUBJECT_ALT_NAME)
            .ok()?;
        let names = names
            .and_then(|extension| each_name(extension.value))
            .unwrap_or_default();
        let usage = certificate.extended_key_usage().ok().flatten();
        let is_for = |named: fn(&x509_parser::extensions::ExtendedKeyUsage<'_>) -> bool| {
            usage
                .as_ref()
                .is_none_or(|usage| usage.value.any || named(usage.value))
        };
        let (key, key_bits) = key_of(&certificate);
        let (own_key_id, issuer_key_id) = key_ids(&certificate);
        let validity = certificate.validity();
        Some(Self {
            subject: shown(subject),
            issuer: shown(issuer),
            names: names
                .iter()
                .take(NAMES_MAX)
                .map(|name| name_text(name))
                .collect(),
            more_names: names.len().saturating_sub(NAMES_MAX),
            serial: certificate.raw_serial_as_string(),
            not_before: validity.not_before.timestamp(),
            not_after: validity.not_after.timestamp(),
            fingerprint: fingerprint(der),
            key,
            key_bits,
            is_authority: certificate.is_ca(),
            is_self_issued: subject == issuer,
            is_for_servers: is_for(|usage| usage.server_auth),
            is_for_clients: is_for(|usage| usage.client_auth),
            public_key: certificate.public_key().raw.to_vec(),
            issuer_der: issuer.to_vec(),
            subject_der: subject.to_vec(),
            own_key_id,
            issuer_key_id,
        })
    }

    /// Returns true if the other certificate may be that of its issuer, as far as names and the
    /// numbers of keys tell: signatures are not verified here.
    pub fn may_be_issued_by(&self, issuer: &Self) -> bool {
        let are_other_keys = match (&self.issuer_key_id, &issuer.own_key_id) {
            (Some(named), Some(own)) => named != own,
            _ => false,
        };
        self.issuer_der == issuer.subject_der && !are_other_keys
    }
}

/// Returns the kind of a key and its size.
fn key_of(certificate: &X509Certificate<'_>) -> (String, Option<usize>) {
    let key = certificate.public_key();
    let size = |bits: usize| (bits > 0).then_some(bits);
    match key.parsed() {
        Ok(PublicKey::RSA(rsa)) => {
            let digits = rsa.modulus.iter().skip_while(|digit| **digit == 0);
            ("RSA".to_owned(), size(digits.count().saturating_mul(8)))
        }
        Ok(PublicKey::EC(_)) => {
            let curve = key.algorithm.parameters.as_ref();
            let curve = curve.and_then(|parameters| parameters.as_oid().ok());
            let known = [
                (OID_EC_P256, "EC P-256", 256),
                (OID_NIST_EC_P384, "EC P-384", 384),
                (OID_NIST_EC_P521, "EC P-521", 521),
            ];
            let found = curve.and_then(|curve| known.into_iter().find(|one| one.0 == curve));
            found.map_or_else(
                || ("EC, another curve".to_owned(), None),
                |(_, name, bits)| (name.to_owned(), Some(bits)),
            )
        }
        _ if key.algorithm.algorithm == OID_SIG_ED25519 => ("Ed25519".to_owned(), Some(256)),
        _ => (format!("another kind ({})", key.algorithm.algorithm), None),
    }
}

/// Returns the numbers of its own key and of that of its issuer.
fn key_ids(certificate: &X509Certificate<'_>) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    let (mut own, mut issuer) = (None, None);
    for extension in certificate.extensions() {
        match extension.parsed_extension() {
            ParsedExtension::SubjectKeyIdentifier(id) => own = Some(id.0.to_vec()),
            ParsedExtension::AuthorityKeyIdentifier(id) => {
                issuer = id.key_identifier.as_ref().map(|id| id.0.to_vec());
            }
            _ => {}
        }
    }
    (own, issuer)
}

/// What is in a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InspectedFile {
    /// `PEM` or `PKCS12`.
    pub format: &'static str,
    /// For each private key, the public key that belongs to it, or what is wrong with it.
    // Bounded: the sections or entries of a file.
    pub keys: Vec<Result<Vec<u8>, String>>,
    /// For each certificate, in their order, what it is; `None` for bytes that are none.
    // Bounded: the same.
    pub certificates: Vec<Option<CertificateView>>,
    /// True if it is a store whose certificates have no order.
    pub is_unordered: bool,
}

/// Reads a file; an error says what is wrong with it as a whole, and what to do. Blocks.
pub fn file(path: &Path, password: Option<&Password>) -> Result<InspectedFile, String> {
    let bytes = bounded::file(path, FILE_BYTES_MAX).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such file".to_owned(),
        std::io::ErrorKind::PermissionDenied => "it may not be read by this user".to_owned(),
        _ => format!("it cannot be read: {error}"),
    })?;
    bytes_of_file(&Zeroizing::new(bytes), password)
}

fn bytes_of_file(bytes: &[u8], password: Option<&Password>) -> Result<InspectedFile, String> {
    if pem::is_pem(bytes) {
        of_pem(bytes, password)
    } else if let Some(whole) = CertificateView::of(bytes) {
        Ok(InspectedFile {
            format: "DER",
            keys: Vec::new(),
            certificates: vec![Some(whole)],
            is_unordered: false,
        })
    } else {
        of_pkcs12(bytes, password)
    }
}

fn of_pem(bytes: &[u8], password: Option<&Password>) -> Result<InspectedFile, String> {
    let sections = pem::sections(bytes).map_err(|problem| match problem {
        PemProblem::NoEnd => "a section of PEM has no -----END".to_owned(),
        PemProblem::NotBase64 => "a section of PEM is not base64".to_owned(),
        PemProblem::OldEncryption => KeyProblem::OldEncryption.texts().0.to_owned(),
        PemProblem::TooMany => "it has too many sections".to_owned(),
    })?;
    let keys = sections.iter().filter(|section| section.kind.is_key());
    let keys = keys.map(|section| {
        let key = crate::key::of_section(section, password);
        let public = key
            .map_err(said)?
            .public_key()
            .map(|public| public.as_ref().to_vec());
        public.ok_or_else(|| said(KeyProblem::NoKey))
    });
    let certificates = sections.iter().filter(|it| it.kind == PemKind::Certificate);
    Ok(InspectedFile {
        format: "PEM",
        keys: keys.collect(),
        certificates: certificates
            .map(|it| CertificateView::of(&it.der))
            .collect(),
        is_unordered: false,
    })
}

fn said(problem: KeyProblem) -> String {
    let (why, advice) = problem.texts();
    match problem {
        // The advice names a setting, and none is here.
        KeyProblem::NoPassword | KeyProblem::WrongPassword => why.to_owned(),
        _ => format!("{why}: {advice}"),
    }
}

fn of_pkcs12(bytes: &[u8], password: Option<&Password>) -> Result<InspectedFile, String> {
    let text = password.map_or("", Password::expose);
    let store = p12::open(bytes, text).map_err(|problem| match problem {
        P12Problem::Java => {
            "a store of Java's own format (JKS): convert it with keytool -importkeystore \
             -deststoretype PKCS12"
        }
        P12Problem::WrongPassword if password.is_none() => "a PKCS#12 store that needs a password",
        P12Problem::WrongPassword => "the password does not open it",
        P12Problem::OldEncryption => "it is encrypted in a way that is not served",
        P12Problem::BadCertificate => "a certificate in it cannot be read",
        P12Problem::TooMany => "it has too many entries",
        P12Problem::TooCostly => "its entries ask for too many rounds of encryption together",
        _ => "it is neither PEM nor a PKCS#12 store that is whole",
    })?;
    let chains = match store.keys() {
        Ok(keys) => keys,
        Err(P12Problem::NoKey) => Vec::new(),
        Err(P12Problem::Key(problem)) => return Err(said(problem)),
        Err(_) => return Err("a key in it cannot be read".to_owned()),
    };
    let keys = chains.iter().map(|key| {
        let public = key.key.public_key().map(|public| public.as_ref().to_vec());
        public.ok_or_else(|| said(KeyProblem::NoKey))
    });
    let of_keys = chains.iter().flat_map(|key| &key.cert);
    let certificates: Vec<_> = if chains.is_empty() {
        let trusted = store
            .trusted()
            .map(|(trusted, _)| trusted)
            .unwrap_or_default();
        trusted.iter().map(|der| CertificateView::of(der)).collect()
    } else {
        of_keys.map(|der| CertificateView::of(der)).collect()
    };
    Ok(InspectedFile {
        format: "PKCS12",
        keys: keys.collect(),
        certificates,
        is_unordered: chains.len() != 1,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::made::{Authority, PASSWORD, params, pkcs12, self_signed};

    #[test]
    fn a_chain_is_seen_with_its_keys() {
        let root = Authority::new("root");
        let issued = root.issue(&params("broker", &["localhost", "10.0.0.1"]));
        let pem = issued.pem() + &root.0.pem();
        let seen = bytes_of_file(pem.as_bytes(), None).unwrap();
        assert_eq!((seen.format, seen.keys.len()), ("PEM", 1));
        let all: Vec<_> = seen.certificates.iter().flatten().collect();
        let [leaf, issuer] = all[..] else {
            panic!("{seen:?}");
        };
        assert_eq!(seen.keys[0].as_ref(), Ok(&leaf.public_key));
        assert_eq!(leaf.names, ["DNS:localhost", "IP:10.0.0.1"]);
        assert_eq!(
            (leaf.subject.as_str(), leaf.issuer.as_str()),
            ("CN=broker", "CN=root")
        );
        assert_eq!((leaf.key.as_str(), leaf.key_bits), ("EC P-256", Some(256)));
        assert!(issuer.is_authority && issuer.is_self_issued && !leaf.is_authority);
        assert!(leaf.may_be_issued_by(issuer) && !issuer.may_be_issued_by(leaf));
        // Another authority of the same name.
        let other = self_signed(&params("root", &[]));
        let other = CertificateView::of(other.certificate.der()).unwrap();
        assert_eq!(other.subject, issuer.subject);
    }

    #[test]
    fn kinds_of_keys_are_named() {
        let rsa = include_bytes!("../tests/golden/keys/rsa-pkcs8.pem");
        let seen = bytes_of_file(rsa, None).unwrap();
        assert!(seen.keys[0].is_ok() && seen.certificates.is_empty());
        let encrypted = include_bytes!("../tests/golden/keys/pbes2-aes256.pem");
        let closed = bytes_of_file(encrypted, None).unwrap();
        assert!(closed.keys[0].as_ref().unwrap_err().contains("no password"));
        let password = Password::new(PASSWORD);
        let open = bytes_of_file(encrypted, Some(&password)).unwrap();
        assert!(open.keys[0].is_ok());
    }

    #[test]
    fn stores_are_opened_with_their_password() {
        let root = Authority::new("root");
        let issued = root.issue(&params("broker", &["localhost"]));
        let chain = [issued.certificate.der().as_ref(), root.0.der().as_ref()];
        let store = pkcs12(Some((&issued.key, &chain)), &[]);
        let password = Password::new(PASSWORD);
        let seen = bytes_of_file(&store, Some(&password)).unwrap();
        assert_eq!(
            (seen.format, seen.keys.len(), seen.certificates.len()),
            ("PKCS12", 1, 2)
        );
        assert!(
            bytes_of_file(&store, None)
                .unwrap_err()
                .contains("password")
        );
        let trusted = pkcs12(None, &[root.0.der().as_ref()]);
        let seen = bytes_of_file(&trusted, Some(&password)).unwrap();
        assert_eq!((seen.keys.len(), seen.certificates.len()), (0, 1));
        assert!(
            bytes_of_file(b"\xfe\xed\xfe\xed", None)
                .unwrap_err()
                .contains("keytool")
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_file_or_a_problem(bytes in any::<Vec<u8>>()) {
            let _ = CertificateView::of(&bytes);
            let _ = bytes_of_file(&bytes, None);
        }
    }
}
