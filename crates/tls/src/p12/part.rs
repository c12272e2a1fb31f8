//! The encrypted parts of a PKCS#12 store, decrypted to look at what they hold before it is opened:
//! their entries may be encrypted again, and ask for any number of rounds.
//!
//! Invariant: every part that the crate `p12-keystore` would decrypt is decrypted here, or the
//! store is refused. A part that does not decrypt is left out: the crate, too, goes no further
//! then. What is decrypted is overwritten when it is dropped. Not here: what entries are.

use cbc::Decryptor;
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockCipherDecrypt, BlockModeDecrypt as _, KeyInit, KeyIvInit as _};
use des::TdesEde3;
use pkcs8::der::Decode as _;
use pkcs8::pkcs5::pbes2;
use pkcs12::kdf::{Pkcs12KeyType, derive_key_utf8};
use rc2::Rc2;
use sha1::Sha1;
use zeroize::Zeroizing;

use super::{PKCS12_PBE, number_of};
use crate::der::{DerReader, tag};

/// The number of the type of encrypted parts, as DER writes it.
const ENCRYPTED_DATA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x06];
/// The number of PBES2.
const PBES2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x05, 0x0d];
/// The last digits of the numbers of the schemes that PKCS#12 had before: with triple DES, and with
/// RC2 of 40 bits.
const TRIPLE_DES: u8 = 3;
const RC2_40: u8 = 6;
/// Bytes of their keys, and of their blocks.
const TRIPLE_DES_BYTES: usize = 24;
const RC2_40_BYTES: usize = 5;
const BLOCK_BYTES: usize = 8;

/// A part of a store as it is encrypted.
struct EncryptedPart<'a> {
    scheme: &'a [u8],
    /// With tag and length.
    parameters: &'a [u8],
    content: &'a [u8],
}

/// Returns what the encrypted parts of a store hold; `None` if it is no store.
pub(super) fn opened(bytes: &[u8], password: &str) -> Option<Vec<Zeroizing<Vec<u8>>>> {
    let parts = encrypted(bytes)?;
    let decrypted = parts.iter().filter_map(|part| part.decrypted(password));
    Some(decrypted.map(Zeroizing::new).collect())
}

fn encrypted(bytes: &[u8]) -> Option<Vec<EncryptedPart<'_>>> {
    let mut store = inside(bytes, tag::SEQUENCE)?;
    store.tagged(tag::INTEGER)?;
    let mut safe = DerReader::new(store.tagged(tag::SEQUENCE)?.content);
    safe.tagged(tag::OID)?;
    let content = inside(safe.tagged(tag::CONTEXT_0)?.content, tag::OCTET_STRING)?;
    let mut parts = inside(content.rest(), tag::SEQUENCE)?;
    let mut found = Vec::new();
    while !parts.is_empty() {
        let mut part = DerReader::new(parts.tagged(tag::SEQUENCE)?.content);
        let kind = part.tagged(tag::OID)?.content;
        let content = part.tagged(tag::CONTEXT_0)?.content;
        if kind == ENCRYPTED_DATA {
            found.push(EncryptedPart::read(content)?);
        }
    }
    Some(found)
}

/// Reads what a value of this tag consists of, which the bytes begin with.
fn inside(bytes: &[u8], tag: u8) -> Option<DerReader<'_>> {
    Some(DerReader::new(DerReader::new(bytes).tagged(tag)?.content))
}

impl<'a> EncryptedPart<'a> {
    /// Reads a part, whose content may be left out.
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut data = inside(bytes, tag::SEQUENCE)?;
        data.tagged(tag::INTEGER)?;
        let mut info = DerReader::new(data.tagged(tag::SEQUENCE)?.content);
        info.tagged(tag::OID)?;
        let mut algorithm = DerReader::new(info.tagged(tag::SEQUENCE)?.content);
        let scheme = algorithm.tagged(tag::OID)?.content;
        let content = if info.is_empty() {
            &[]
        } else {
            info.tagged(tag::IMPLICIT_0)?.content
        };
        let parameters = algorithm.value().map_or(&[][..], |value| value.whole);
        Some(Self {
            scheme,
            parameters,
            content,
        })
    }

    /// Returns what the part holds; `None` if it is encrypted in a way that is not served, or by
    /// another password.
    fn decrypted(&self, password: &str) -> Option<Vec<u8>> {
        if self.scheme == PBES2 {
            let parameters = pbes2::Parameters::from_der(self.parameters).ok()?;
            return parameters.decrypt(password.as_bytes(), self.content).ok();
        }
        match self.scheme.strip_prefix(PKCS12_PBE)? {
            [TRIPLE_DES] => self.decrypted_by::<TdesEde3>(password, TRIPLE_DES_BYTES),
            [RC2_40] => self.decrypted_by::<Rc2>(password, RC2_40_BYTES),
            _ => None,
        }
    }

    fn decrypted_by<C: KeyInit + BlockCipherDecrypt>(
        &self,
        password: &str,
        key_bytes: usize,
    ) -> Option<Vec<u8>> {
        let mut parameters = inside(self.parameters, tag::SEQUENCE)?;
        let salt = parameters.tagged(tag::OCTET_STRING)?.content;
        let rounds = i32::try_from(number_of(parameters.tagged(tag::INTEGER)?.content)).ok()?;
        let derived = |kind, bytes| {
            let key = derive_key_utf8::<Sha1>(password, salt, kind, rounds, bytes);
            Some(Zeroizing::new(key.ok()?))
        };
        let key = derived(Pkcs12KeyType::EncryptionKey, key_bytes)?;
        let first = derived(Pkcs12KeyType::Iv, BLOCK_BYTES)?;
        let decryptor = Decryptor::<C>::new_from_slices(&key, &first).ok()?;
        decryptor.decrypt_padded_vec::<Pkcs7>(self.content).ok()
    }
}
