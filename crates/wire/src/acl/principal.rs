//! Principals: who a client is, as a type and a name.
//!
//! Invariant: a principal's text has a colon, and the type is what precedes the first one, so a
//! name may have colons and two principals are the same when their texts are.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// A principal, written `type:name`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Principal(Arc<str>);

/// A text that names no principal.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "Could not parse principal from `{text}` (no colon is present separating the principal type \
     from the principal name)"
)]
pub struct PrincipalError {
    /// The text.
    pub text: String,
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
        Self::user("ANONYMOUS")
    }

    /// Reads `type:name`.
    pub fn parse(text: &str) -> Result<Self, PrincipalError> {
        if !text.contains(':') {
            return Err(PrincipalError {
                text: text.to_owned(),
            });
        }
        Ok(Self(text.into()))
    }

    /// Returns the text, as ACLs and logs have it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the type, which is `User` for all that this broker authenticates.
    pub fn kind(&self) -> &str {
        self.parts().0
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        self.parts().1
    }

    fn parts(&self) -> (&str, &str) {
        let Some(parts) = self.0.split_once(':') else {
            unreachable!("a principal has a colon");
        };
        parts
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
pub fn super_users(setting: &str) -> Result<BTreeSet<Principal>, PrincipalError> {
    let texts = setting.split(';').map(str::trim);
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
    fn super_users_are_separated_by_semicolons() {
        let users = super_users(" User:a ;User:CN=b,O=c;; User:a").unwrap();
        let texts: Vec<&str> = users.iter().map(Principal::as_str).collect();
        assert_eq!(texts, ["User:CN=b,O=c", "User:a"]);
        assert_eq!(super_users("").unwrap(), BTreeSet::new());
        assert_eq!(super_users("User:a;bob").unwrap_err().text, "bob");
    }
}
