//! Private keys: PKCS#8, encrypted or not, and the forms that RSA and elliptic curves had before.
//!
//! Invariants: the work that a file can ask for to find the key of an encryption has a bound; what
//! is decrypted is overwritten when it is dropped, here and in rustls, but not inside the crates
//! that decrypt. No message shows a part of a key.

use std::sync::Arc;

use pkcs8::EncryptedPrivateKeyInfoRef;
use pkcs8::pkcs5::{EncryptionScheme, pbes2};
use rustls::crypto::aws_lc_rs;
use rustls::sign::SigningKey;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer};

use crate::password::Password;
use crate::pem::{PemKind, PemSection};

/// Rounds that find a key from a password: several times what is advised, and a second of work.
const ROUNDS_MAX: u32 = 2_000_000;
/// Memory that `scrypt` may ask for, in bytes. OpenSSL asks for 16 MiB.
const SCRYPT_BYTES_MAX: u64 = 64 << 20;
/// How many times `scrypt` may ask for its work.
const SCRYPT_LANES_MAX: u16 = 16;

/// Why a key cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum KeyProblem {
    /// It is encrypted, and there is no password.
    NoPassword,
    /// The password does not decrypt it.
    WrongPassword,
    /// It is encrypted in a way that is not served.
    OldEncryption,
    /// Its encryption asks for too much work.
    TooCostly,
    /// It is no key of a kind that is served.
    NoKey,
}

impl KeyProblem {
    /// Returns what is wrong, and what to do.
    pub(crate) fn texts(self) -> (&'static str, &'static str) {
        match self {
            Self::NoPassword => (
                "the key is encrypted and there is no password",
                "set ssl.key.password",
            ),
            Self::WrongPassword => (
                "the password does not decrypt the key",
                "correct ssl.key.password",
            ),
            Self::OldEncryption => (
                "the key is encrypted in a way that is not served",
                "write it again: openssl pkcs8 -topk8 -v2 aes-256-cbc -in OLD -out NEW",
            ),
            Self::TooCostly => (
                "the encryption of the key asks for too many rounds or too much memory",
                "write it again: openssl pkcs8 -topk8 -v2 aes-256-cbc -in OLD -out NEW",
            ),
            Self::NoKey => (
                "it holds no private key that is served",
                "use RSA with 2048 bits or more, a curve P-256, P-384 or P-521, or Ed25519",
            ),
        }
    }
}

/// Returns the key of a section, ready to sign.
pub(crate) fn of_section(
    section: &PemSection,
    password: Option<&Password>,
) -> Result<Arc<dyn SigningKey>, KeyProblem> {
    let der = || section.der.to_vec();
    match section.kind {
        PemKind::PrivateKey => of_pkcs8(&section.der),
        PemKind::RsaPrivateKey => load(PrivatePkcs1KeyDer::from(der()).into()),
        PemKind::EcPrivateKey => load(PrivateSec1KeyDer::from(der()).into()),
        PemKind::EncryptedPrivateKey => {
            let password = password.ok_or(KeyProblem::NoPassword)?;
            decrypted(&section.der, password)
        }
        PemKind::Certificate | PemKind::RevocationList => Err(KeyProblem::NoKey),
    }
}

/// Returns the key of PKCS#8 that is not encrypted.
pub(crate) fn of_pkcs8(der: &[u8]) -> Result<Arc<dyn SigningKey>, KeyProblem> {
    load(PrivatePkcs8KeyDer::from(der.to_vec()).into())
}

fn decrypted(der: &[u8], password: &Password) -> Result<Arc<dyn SigningKey>, KeyProblem> {
    let encrypted = EncryptedPrivateKeyInfoRef::try_from(der);
    let encrypted = encrypted.map_err(|_| KeyProblem::OldEncryption)?;
    let EncryptionScheme::Pbes2(parameters) = &encrypted.encryption_algorithm else {
        return Err(KeyProblem::OldEncryption);
    };
    check_cost(parameters)?;
    let document = encrypted.decrypt(password.expose().as_bytes());
    let document = document.map_err(|_| KeyProblem::WrongPassword)?;
    of_pkcs8(document.as_bytes())
}

fn check_cost(parameters: &pbes2::Parameters) -> Result<(), KeyProblem> {
    let is_bounded = match &parameters.kdf {
        pbes2::Kdf::Pbkdf2(rounds) => rounds.iteration_count <= ROUNDS_MAX,
        pbes2::Kdf::Scrypt(scrypt) => {
            let bytes = scrypt.cost_parameter.checked_mul(128);
            let bytes = bytes.and_then(|bytes| bytes.checked_mul(u64::from(scrypt.block_size)));
            bytes.is_some_and(|bytes| bytes <= SCRYPT_BYTES_MAX)
                && scrypt.parallelization <= SCRYPT_LANES_MAX
        }
        _ => false,
    };
    if is_bounded {
        Ok(())
    } else {
        Err(KeyProblem::TooCostly)
    }
}

/// Hands a key to the cryptography, which overwrites these bytes of it.
fn load(der: PrivateKeyDer<'static>) -> Result<Arc<dyn SigningKey>, KeyProblem> {
    let loaded = aws_lc_rs::default_provider()
        .key_provider
        .load_private_key(der);
    loaded.map_err(|_| KeyProblem::NoKey)
}

#[cfg(test)]
mod tests {
    use pkcs8::der::{Decode as _, Encode as _};
    use zeroize::Zeroizing;

    use super::*;
    use crate::made::PASSWORD;
    use crate::pem::sections;

    macro_rules! golden {
        ($name:literal) => {
            include_bytes!(concat!("../tests/golden/keys/", $name)).as_slice()
        };
    }

    fn loaded(pem: &[u8], password: Option<&str>) -> Result<Vec<u8>, KeyProblem> {
        let sections = sections(pem).unwrap();
        let password = password.map(Password::new);
        let key = of_section(&sections[0], password.as_ref())?;
        Ok(key.public_key().unwrap().to_vec())
    }

    #[test]
    fn every_form_of_a_key_is_the_same_key() {
        let expect = loaded(golden!("pkcs8.pem"), None).unwrap();
        for pem in [golden!("sec1.pem"), golden!("sec1-with-parameters.pem")] {
            assert_eq!(loaded(pem, None).as_ref(), Ok(&expect));
        }
        for pem in [
            golden!("pbes2-aes256.pem"),
            golden!("pbes2-3des.pem"),
            golden!("pbes2-sha1.pem"),
            golden!("scrypt.pem"),
        ] {
            assert_eq!(loaded(pem, Some(PASSWORD)).as_ref(), Ok(&expect));
            assert_eq!(loaded(pem, Some("hunter3")), Err(KeyProblem::WrongPassword));
            assert_eq!(loaded(pem, None), Err(KeyProblem::NoPassword));
        }
        let rsa = loaded(golden!("rsa-pkcs8.pem"), None);
        assert!(rsa.is_ok());
        assert_eq!(loaded(golden!("rsa-pkcs1.pem"), None), rsa);
        assert!(loaded(golden!("ed25519.pem"), None).is_ok());
    }

    #[test]
    fn what_is_not_served_is_refused() {
        let old = Some(PASSWORD);
        assert_eq!(
            loaded(golden!("pbes1.pem"), old),
            Err(KeyProblem::OldEncryption)
        );
        assert_eq!(
            loaded(golden!("rsa-1024.pem"), None),
            Err(KeyProblem::NoKey)
        );
        let torn = Zeroizing::new(vec![0x30, 0x03, 0x02]);
        let section = PemSection {
            kind: PemKind::EncryptedPrivateKey,
            der: torn,
        };
        let password = Password::new(PASSWORD);
        let read = of_section(&section, Some(&password));
        assert_eq!(read.map(|_| ()), Err(KeyProblem::OldEncryption));
    }

    #[test]
    fn no_file_makes_a_start_take_hours() {
        let sections = sections(golden!("pbes2-aes256.pem")).unwrap();
        let mut encrypted = EncryptedPrivateKeyInfoRef::from_der(&sections[0].der).unwrap();
        let EncryptionScheme::Pbes2(parameters) = &mut encrypted.encryption_algorithm else {
            panic!("the sample is PBES2");
        };
        let pbes2::Kdf::Pbkdf2(rounds) = &mut parameters.kdf else {
            panic!("the sample is PBKDF2");
        };
        rounds.iteration_count = ROUNDS_MAX + 1;
        let section = PemSection {
            kind: PemKind::EncryptedPrivateKey,
            der: Zeroizing::new(encrypted.to_der().unwrap()),
        };
        let password = Password::new(PASSWORD);
        let read = of_section(&section, Some(&password));
        assert_eq!(read.map(|_| ()), Err(KeyProblem::TooCostly));
    }
}
