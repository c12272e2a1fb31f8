//! Sections of PEM: what lies between `-----BEGIN X-----` and `-----END X-----`.
//!
//! Kafka takes PEM in settings too, where line breaks are often spaces, so lines mean nothing here.
//! Text before, between and behind sections is passed over, as are sections that are neither
//! certificates nor keys nor revocation lists.
//!
//! Invariants: any bytes give sections or a problem, in memory that grows with their length; what
//! is decoded is overwritten when it is dropped; no message shows a part of it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

/// Most sections of one text.
const SECTIONS_MAX: usize = 4096;
/// Longest name of a section.
const LABEL_BYTES_MAX: usize = 64;

const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"-----END ";
const DASHES: &[u8] = b"-----";

/// What a section holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PemKind {
    Certificate,
    /// A key of any kind, as PKCS#8.
    PrivateKey,
    /// The same, encrypted.
    EncryptedPrivateKey,
    /// A key of RSA by itself (PKCS#1).
    RsaPrivateKey,
    /// A key of an elliptic curve by itself (SEC 1).
    EcPrivateKey,
    /// A list of revoked certificates.
    RevocationList,
}

impl PemKind {
    fn of(label: &[u8]) -> Option<Self> {
        Some(match label {
            b"CERTIFICATE" | b"X509 CERTIFICATE" => Self::Certificate,
            b"PRIVATE KEY" => Self::PrivateKey,
            b"ENCRYPTED PRIVATE KEY" => Self::EncryptedPrivateKey,
            b"RSA PRIVATE KEY" => Self::RsaPrivateKey,
            b"EC PRIVATE KEY" => Self::EcPrivateKey,
            b"X509 CRL" => Self::RevocationList,
            _ => return None,
        })
    }

    /// Returns true for a key.
    pub(crate) fn is_key(self) -> bool {
        !matches!(self, Self::Certificate | Self::RevocationList)
    }
}

/// One section.
pub(crate) struct PemSection {
    /// What it holds.
    pub(crate) kind: PemKind,
    /// The bytes, as DER if they are what the name says.
    pub(crate) der: Zeroizing<Vec<u8>>,
}

/// Why a text is no PEM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PemProblem {
    /// A section does not end.
    NoEnd,
    /// A section is not base64.
    NotBase64,
    /// A key is encrypted in the way that OpenSSL had before PKCS#8.
    OldEncryption,
    /// There are too many sections.
    TooMany,
}

/// Returns the sections that are of use, in their order.
pub(crate) fn sections(text: &[u8]) -> Result<Vec<PemSection>, PemProblem> {
    let mut sections = Vec::new();
    let mut rest = text;
    while let Some(label_at) = end_of(BEGIN, rest) {
        let (_, after) = rest.split_at_checked(label_at).unwrap_or_default();
        let Some((label, body)) = label_of(after) else {
            // Dashes in a comment.
            rest = after;
            continue;
        };
        let mut end = END.to_vec();
        end.extend_from_slice(label);
        end.extend_from_slice(DASHES);
        let Some(body_end) = end_of(&end, body) else {
            return Err(PemProblem::NoEnd);
        };
        let (whole, after) = body.split_at_checked(body_end).unwrap_or_default();
        rest = after;
        let Some(kind) = PemKind::of(label) else {
            continue;
        };
        if sections.len() >= SECTIONS_MAX {
            return Err(PemProblem::TooMany);
        }
        let body = whole.strip_suffix(end.as_slice()).unwrap_or_default();
        let der = decoded(body)?;
        sections.push(PemSection { kind, der });
    }
    Ok(sections)
}

/// Returns true for a text in which a section begins.
pub(crate) fn is_pem(text: &[u8]) -> bool {
    end_of(BEGIN, text).is_some()
}

/// Returns the name of a section and what is behind it.
fn label_of(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let head = text.get(..text.len().min(LABEL_BYTES_MAX + DASHES.len()))?;
    let end = end_of(DASHES, head)?;
    let (label, body) = text.split_at_checked(end)?;
    Some((label.strip_suffix(DASHES)?, body))
}

/// Returns where the first occurrence of `what` ends.
fn end_of(what: &[u8], text: &[u8]) -> Option<usize> {
    let mut windows = text.windows(what.len().max(1));
    windows
        .position(|window| window == what)?
        .checked_add(what.len())
}

fn decoded(body: &[u8]) -> Result<Zeroizing<Vec<u8>>, PemProblem> {
    if body.contains(&b':') {
        // Lines such as `Proc-Type: 4,ENCRYPTED`, before the base64.
        let is_encrypted = end_of(b"ENCRYPTED", body).is_some();
        return Err(if is_encrypted {
            PemProblem::OldEncryption
        } else {
            PemProblem::NotBase64
        });
    }
    let mut base64 = Zeroizing::new(Vec::with_capacity(body.len()));
    base64.extend(body.iter().filter(|byte| !byte.is_ascii_whitespace()));
    let decoded = STANDARD.decode(base64.as_slice());
    let decoded = decoded.map_err(|_| PemProblem::NotBase64)?;
    Ok(Zeroizing::new(decoded))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{PemKind, PemProblem, sections};

    #[track_caller]
    fn check(text: &str, expect: Result<&[(PemKind, &[u8])], PemProblem>) {
        let read = sections(text.as_bytes());
        let read = read.as_ref().map(|sections| {
            let each = sections.iter();
            each.map(|it| (it.kind, it.der.as_slice()))
                .collect::<Vec<_>>()
        });
        assert_eq!(
            read.as_deref().map_err(|problem| **problem),
            expect,
            "{text}"
        );
    }

    #[test]
    fn sections_are_read_whether_lines_break_or_not() {
        let two: &[(PemKind, &[u8])] = &[
            (PemKind::PrivateKey, b"abcdef"),
            (PemKind::Certificate, b"xyz"),
        ];
        check(
            "Bag Attributes\r\n    friendlyName: me\r\n-----BEGIN PRIVATE KEY-----\r\nYWJj\r\nZGVm\r\n\
             -----END PRIVATE KEY-----\r\nsubject=CN = a\n-----BEGIN CERTIFICATE-----\neHl6\n\
             -----END CERTIFICATE-----",
            Ok(two),
        );
        check(
            "-----BEGIN PRIVATE KEY----- YWJj ZGVm -----END PRIVATE KEY----- \
             -----BEGIN CERTIFICATE----- eHl6 -----END CERTIFICATE-----",
            Ok(two),
        );
        let key: &[(PemKind, &[u8])] = &[(PemKind::EcPrivateKey, b"abc")];
        check(
            "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n\
             -----BEGIN EC PRIVATE KEY-----\nYWJj\n-----END EC PRIVATE KEY-----\n",
            Ok(key),
        );
        check("nothing ----- here", Ok(&[]));
    }

    #[test]
    fn what_is_not_whole_is_said() {
        let torn = "-----BEGIN CERTIFICATE-----\neHl6\n-----END CERTIF";
        check(torn, Err(PemProblem::NoEnd));
        let no_base64 = "-----BEGIN CERTIFICATE-----\ne*l6\n-----END CERTIFICATE-----";
        check(no_base64, Err(PemProblem::NotBase64));
        let old = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\
                   DEK-Info: DES-EDE3-CBC,00\n\nYWJj\n-----END RSA PRIVATE KEY-----";
        check(old, Err(PemProblem::OldEncryption));
        let many = "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----".repeat(5000);
        assert!(matches!(
            sections(many.as_bytes()),
            Err(PemProblem::TooMany)
        ));
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "(-----(BEGIN|END) (CERTIFICATE|PRIVATE KEY)-----|[ -~\n]){0,20}") {
            if let Ok(sections) = sections(text.as_bytes()) {
                let bytes: usize = sections.iter().map(|section| section.der.len()).sum();
                prop_assert!(bytes <= text.len());
            }
        }
    }
}
