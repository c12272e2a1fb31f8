//! The part of an exchange that is new every time, so that no message of another exchange fits.
//!
//! Invariant: a nonce is used once. It has no copies, and its user takes it.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

/// The bytes of a nonce that we make.
pub(super) const BYTES: usize = 24;

/// Random text that one end adds to an exchange.
#[derive(PartialEq, Eq, Debug)]
pub struct Nonce(String);

impl Nonce {
    /// Makes a nonce of 18 random bytes.
    pub fn of_random(random: [u8; 18]) -> Self {
        let text = BASE64_STANDARD.encode(random);
        assert!(is_nonce(&text), "base64 is printable and has no comma");
        assert!(
            text.len() == BYTES,
            "base64 makes four characters of three bytes"
        );
        Self(text)
    }

    /// Takes the nonce of an example.
    #[cfg(test)]
    pub(super) fn of_text(text: &str) -> Self {
        assert!(is_nonce(text));
        Self(text.to_owned())
    }

    /// Uses it up: returns the text.
    pub(super) fn into_text(self) -> String {
        self.0
    }
}

/// Returns true for what may stand after `r=`: printable ASCII without commas.
pub(super) fn is_nonce(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| matches!(byte, 0x21..=0x7e) && byte != b',')
}
