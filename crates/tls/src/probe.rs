//! What fuzzing calls: everything that reads the bytes of a store, without files and settings.
//!
//! Not here: any use of what was read.

use crate::certificate::CertificateFacts;
use crate::inspect::CertificateView;
use crate::password::Password;
use crate::pem::PemKind;
use crate::{key, p12, pem};

/// Reads bytes as a PEM file and as a PKCS#12 store; returns how many keys and certificates there
/// are.
pub fn entries_of(bytes: &[u8], password: &str) -> (usize, usize) {
    let (mut keys, mut certificates) = (0_usize, 0_usize);
    if let Ok(sections) = pem::sections(bytes) {
        let password = Password::new(password);
        for section in &sections {
            if section.kind == PemKind::Certificate {
                let is_read = CertificateFacts::of(&section.der).is_some();
                drop(CertificateView::of(&section.der));
                certificates = certificates.saturating_add(usize::from(is_read));
            }
            let is_read = key::of_section(section, Some(&password)).is_ok();
            keys = keys.saturating_add(usize::from(is_read));
        }
    }
    if let Ok(store) = p12::open(bytes, password) {
        keys = keys.saturating_add(store.keys().map_or(0, |keys| keys.len()));
        let trusted = store.trusted().map_or(0, |(trusted, _)| trusted.len());
        certificates = certificates.saturating_add(trusted);
    }
    (keys, certificates)
}
