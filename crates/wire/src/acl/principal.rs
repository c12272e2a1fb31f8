//! Principals: who a client is, as a type and a name.
//!
//! The type is what precedes the first colon, so a name may have colons, and two principals are the
//! same when their texts are.
//! Invariant: the text of every principal that a client can have, or that an operator can name, has
//! a colon. That of a stored ACL may lack it, because older releases stored what they were given;
//! such an ACL is for no client.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, LazyLock};

use crate::text::{EscapedText, cut};

/// How much of a text that names no principal an error repeats, in bytes.
const REPEATED_BYTES_MAX: usize = 200;

/// A principal, written `type:name`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Principal(Arc<str>);

/// A text that names no principal.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "Could not parse principal from `{}` (no colon is present separating the principal type \
     from the principal name)",
    EscapedText(.text)
)]
pub struct PrincipalError {
    /// The text; the beginning, with three dots, if it is long.
    pub text: String,
}

impl PrincipalError {
    fn of(text: &str) -> Self {
        let begins = cut(text, REPEATED_BYTES_MAX);
        let dots = if begins.len() < text.len() { "..." } else { "" };
        Self {
            text: format!("{begins}{dots}"),
        }
    }
}

impl Principal {
    /// The principal of ACLs that are for every client, of whatever type.
    pub const EVERYONE: &str = "User:*";

    /// Returns the user with this name.
    pub fn user(name: &str) -> Self {
        Self(format!("User:{name}").into())
    }

    /// Returns the principal of a client that proved nothing about itself.
    pub fn anonymous() -> Self {
        static ANONYMOUS: LazyLock<Principal> = LazyLock::new(|| Principal::user("ANONYMOUS"));
        ANONYMOUS.clone()
    }

    /// Reads `type:name`.
    pub fn parse(text: &str) -> Result<Self, PrincipalError> {
        if !text.contains(':') {
            return Err(PrincipalError::of(text));
        }
        Ok(Self(text.into()))
    }

    /// Returns the principal of a stored ACL; every text is one.
    pub(super) fn stored(text: &str) -> Self {
        Self(text.into())
    }

    /// Returns true for a principal that a client can have.
    pub fn is_complete(&self) -> bool {
        self.0.contains(':')
    }

    /// Returns the text, as ACLs and logs have it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the type, which is `User` for all that this broker authenticates; empty for a text
    /// without colon.
    pub fn kind(&self) -> &str {
        self.parts().0
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        self.parts().1
    }

    fn parts(&self) -> (&str, &str) {
        // A text of an older release without a type is no client's.
        self.0.split_once(':').unwrap_or(("", &*self.0))
    }
}

/// Lets maps from principals be asked with a text.
impl Borrow<str> for Principal {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.pad(&self.0)
    }
}

impl fmt::Debug for Principal {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, to)
    }
}

/// Reads the setting `super.users`: principals with semicolons between them, since names of
/// certificates have commas.
///
/// As in Kafka, only what ASCII puts up to the space is cut off around them: other spaces, such as
/// one without break, belong to the name.
pub fn super_users(setting: &str) -> Result<BTreeSet<Principal>, PrincipalError> {
    let is_around = |letter: char| letter <= ' ';
    let texts = setting.split(';').map(|text| text.trim_matches(is_around));
    let named = texts.filter(|text| !text.is_empty());
    named.map(Principal::parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_ends_at_the_first_colon() {
        let principal = Principal::parse("User:CN=a:b,O=c").unwrap();
        assert_eq!((principal.kind(), principal.name()), ("User", "CN=a:b,O=c"));
        assert_eq!(principal, Principal::user("CN=a:b,O=c"));
        assert_eq!(Principal::anonymous().to_string(), "User:ANONYMOUS");
        // Kafka takes these too.
        for text in [":", ":a", "User:"] {
            assert_eq!(Principal::parse(text).unwrap().as_str(), text);
        }
    }

    #[test]
    fn a_text_without_colon_is_refused_in_the_words_of_kafka() {
        let error = Principal::parse("alice").unwrap_err();
        assert_eq!(
            error.to_string(),
            "Could not parse principal from `alice` (no colon is present separating the principal \
             type from the principal name)"
        );
    }

    #[test]
    fn an_error_repeats_the_beginning_of_a_long_text_and_nothing_hidden() {
        let text = format!("{}\u{e4}b", "a".repeat(199));
        let error = Principal::parse(&text).unwrap_err();
        assert_eq!(error.text, format!("{}...", "a".repeat(199)));
        let error = Principal::parse("a\x1b[2J").unwrap_err().to_string();
        assert!(error.contains(r"`a\u{1b}[2J`"), "{error}");
    }

    #[test]
    fn a_stored_principal_may_lack_its_type() {
        for text in ["alice", ""] {
            let stored = Principal::stored(text);
            assert_eq!((stored.kind(), stored.name()), ("", text));
            assert_eq!(stored.to_string(), text);
            assert!(!stored.is_complete());
            // It is no other principal's, not even that of the empty type.
            for other in [format!(":{text}"), format!("User:{text}")] {
                assert_ne!(stored, Principal::parse(&other).unwrap());
            }
        }
        assert!(Principal::anonymous().is_complete());
    }

    #[test]
    fn super_users_are_separated_by_semicolons() {
        let users = super_users(" User:a ;User:CN=b,O=c;; User:a").unwrap();
        let texts: Vec<&str> = users.iter().map(Principal::as_str).collect();
        assert_eq!(texts, ["User:CN=b,O=c", "User:a"]);
        assert_eq!(super_users("").unwrap(), BTreeSet::new());
        assert_eq!(
            super_users("\t\x01User:a\x00\n").unwrap(),
            [Principal::user("a")].into()
        );
        // Java's trim leaves spaces beyond ASCII where they are.
        let wide = super_users("User:a\u{a0};\u{2003}User:b").unwrap();
        let texts: Vec<&str> = wide.iter().map(Principal::as_str).collect();
        assert_eq!(texts, ["User:a\u{a0}", "\u{2003}User:b"]);
        assert_eq!(super_users("User:a;bob").unwrap_err().text, "bob");
    }
}
