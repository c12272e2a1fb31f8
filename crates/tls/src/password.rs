//! A text that must not appear in logs or answers: passwords, and keys as settings have them.
//!
//! It is overwritten when it is dropped, and `Debug` does not show it. Not overwritten: what the
//! text was copied from.

use std::fmt;

use zeroize::Zeroizing;

/// A secret text.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(Zeroizing<String>);

impl Password {
    /// Takes charge of a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// Returns the text. Its users are where a secret can leak.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("[hidden]")
    }
}

#[cfg(test)]
mod tests {
    use super::Password;

    #[test]
    fn a_password_is_not_shown() {
        let password = Password::new("hunter2");
        assert_eq!(
            format!("{:?} {password:#?}", Some(&password)),
            "Some([hidden]) [hidden]"
        );
        assert_eq!(password.expose(), "hunter2");
    }
}
