//! Rules that name the clients of certificates, and subjects that a client may have: a list of
//! rules is read or refused, a subject has a name of bounded length or none, and DEFAULT is itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tls::PrincipalRules;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let (rules, subject) = text.split_once('\0').unwrap_or((text, "CN=ada,OU=b"));
    // A longer one is not read from a certificate.
    if subject.len() > 4096 {
        return;
    }
    if let Ok(rules) = PrincipalRules::parse(rules)
        && let Some(name) = rules.name_of(subject)
    {
        // Letters may become longer where they become small or capital.
        assert!(name.len() <= 3 * 16384);
    }
    let default = PrincipalRules::default().name_of(subject);
    assert_eq!(default.as_deref(), Some(subject));
});
