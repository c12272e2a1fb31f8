//! The header with which a client of the admin port says who it is, as anybody may send it: it is a
//! name and a password, or none.
#![no_main]

use libfuzzer_sys::fuzz_target;
use server::admin::probe;

fuzz_target!(|bytes: &[u8]| {
    let header = probe::login_of_header(bytes);
    let text = probe::login_of_text(bytes);
    for (name, password) in header.iter().chain(&text) {
        let password = password.expose();
        assert!(!name.is_empty() && !name.contains([':', '\0']));
        assert!(!password.is_empty() && !password.contains('\0'));
        assert!(name.len() + password.len() < bytes.len());
    }
    // What it says is the beginning and the rest of what was sent.
    if let Some((name, password)) = text {
        let whole = format!("{name}:{}", password.expose());
        assert_eq!(whole.as_bytes(), bytes);
    }
});
