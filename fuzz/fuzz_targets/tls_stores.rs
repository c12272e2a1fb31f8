//! Stores with keys and certificates, and certificates by themselves, as anybody may write them:
//! each is read or refused, and what is read has a bound.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tls::{CertificateFacts, canonical_subject, probe, subject_text};

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, bytes)) = bytes.split_first() else {
        return;
    };
    match kind % 3 {
        0 => {
            let (keys, certificates) = probe::entries_of(bytes, "hunter2");
            assert!(keys + certificates <= bytes.len());
        }
        1 => {
            if let Some(facts) = CertificateFacts::of(bytes) {
                assert!(facts.subject.len() <= 4096 && facts.fingerprint.len() == 95);
                let _ = facts.names_text();
            }
        }
        _ => {
            let text = subject_text(bytes);
            assert!(text.is_none_or(|text| text.len() <= 4096));
            let _ = canonical_subject(bytes);
        }
    }
});
