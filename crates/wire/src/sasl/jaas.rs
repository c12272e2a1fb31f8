//! The line of a JAAS configuration, as in the setting `sasl.jaas.config`: a login module, a
//! control flag, options, a semicolon.
//!
//! ```text
//! org.apache.kafka.common.security.scram.ScramLoginModule required username="ada" password="..";
//! ```
//!
//! What Kafka accepts is read as Kafka reads it (`jaas/tokens.rs` has the rules of quotes, escapes
//! and comments): names and flags may be quoted, of an option that is there twice the last counts.
//! One oddity is refused that Kafka accepts: an option without a name, as in `= = x` or `5 = x`.
//!
//! Every text gives an [`Entry`], or an error with its position. Neither shows any value or any
//! part of the text: a password with a missing quote may be in any part. For the same reason all
//! words are overwritten when the entry is dropped, names of options among them.
//!
//! Kafka takes any option for a user of a server that begins with `user_`, also where no client can
//! send such a name or password. [`Entry::locked_out`] tells such users, so that a start can.

mod tokens;

use std::{fmt, mem};

use super::{Refusal, Secret, plain};
pub use tokens::TextPlace;
use tokens::{Token, Tokens};

/// Maximum bytes of a text, and so of what is made of it.
pub const TEXT_BYTES_MAX: usize = 1 << 20;

/// What options of PLAIN that name users of a server begin with.
const USER: &str = "user_";

/// What becomes of a login when this module fails. Kafka has one module for each mechanism, so it
/// makes no difference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flag {
    /// The module has to succeed.
    Required,
    /// The module has to succeed; if it does not, no other is asked.
    Requisite,
    /// If the module succeeds, no other is asked.
    Sufficient,
    /// The module may fail.
    Optional,
}

/// One login module with its options.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    module: Secret<String>,
    flag: Flag,
    /// Names and values in the order of the names, each name once.
    // Bounded: `TEXT_BYTES_MAX`
    options: Vec<(Secret<String>, Secret<String>)>,
}

/// Shows no options: the name of one may be a part of a password with a quote too few.
impl fmt::Debug for Entry {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = to.debug_struct("Entry");
        shown.field("flag", &self.flag);
        shown.field("options", &self.options.len());
        shown.finish_non_exhaustive()
    }
}

/// A user of a server who could never log in.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("user {place}: {reason}")]
pub struct LockedOut {
    /// Which one of [`Entry::users`], from 0: what names a user may be a part of a password.
    pub place: usize,
    /// Why every message with the name and the password would be refused.
    pub reason: Refusal,
}

/// The reason why a text is no entry, and where.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{at}: {reason}")]
pub struct JaasError {
    /// Where the text stops making sense.
    pub at: TextPlace,
    /// What is missing there.
    pub reason: Reason,
}

/// The reason why a text is no entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The text is longer than any real one.
    #[error("the text has more than {} bytes", TEXT_BYTES_MAX)]
    TooLong,
    /// There is nothing but space and comments, or no word where the module has to be.
    #[error("the name of a login module is missing")]
    Module,
    /// The second word is no flag.
    #[error("the control flag has to be required, requisite, sufficient or optional")]
    Flag,
    /// A sign or a number instead of the name of an option.
    #[error("the name of an option is missing (a value with signs has to stand in quotes)")]
    Name,
    /// An option without an equals sign.
    #[error("an equals sign is missing after the name of an option")]
    Equals,
    /// An option without a value, or with one that is no word.
    #[error("the value of an option is missing, or has to stand in quotes")]
    Value,
    /// The text ends before the entry does.
    #[error(
        "the entry does not end with a semicolon (outside of quotes a slash begins a comment, and \
         a quote ends with its line)"
    )]
    Semicolon,
    /// More than one entry.
    #[error("there is a second login module")]
    Second,
}

impl Entry {
    /// Reads a text.
    pub fn parse(text: &str) -> Result<Self, JaasError> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(Reason::TooLong.at(TextPlace::START));
        }
        let mut tokens = Tokens::new(text);
        let module = match tokens.token() {
            (Token::Text(module), _) if !module.expose().is_empty() => module,
            (_, at) => return Err(Reason::Module.at(at)),
        };
        let flag = match tokens.token() {
            (Token::Text(flag), at) => Flag::of(flag.expose()).ok_or(Reason::Flag.at(at))?,
            (_, at) => return Err(Reason::Flag.at(at)),
        };
        let mut options = Vec::new();
        loop {
            let name = match tokens.token() {
                (Token::Text(name), _) => name,
                (Token::Sign(';'), _) => break,
                (Token::Sign(_), at) => return Err(Reason::Name.at(at)),
                (Token::End, at) => return Err(Reason::Semicolon.at(at)),
            };
            match tokens.token() {
                (Token::Sign('='), _) => {}
                (_, at) => return Err(Reason::Equals.at(at)),
            }
            let value = match tokens.token() {
                (Token::Text(value), _) => value,
                (_, at) => return Err(Reason::Value.at(at)),
            };
            options.push((name, value));
        }
        match tokens.token() {
            (Token::End, _) => {}
            (_, at) => return Err(Reason::Second.at(at)),
        }
        Ok(Self {
            module,
            flag,
            options: by_name(options),
        })
    }

    /// Returns the name of the module, which is that of a class of Java.
    pub fn module(&self) -> &str {
        self.module.expose()
    }

    /// Returns the control flag.
    pub fn flag(&self) -> Flag {
        self.flag
    }

    /// Returns the value of an option.
    pub fn option(&self, name: &str) -> Option<&Secret<String>> {
        let by_name = |(one, _): &(Secret<String>, _)| one.expose().as_str().cmp(name);
        let place = self.options.binary_search_by(by_name).ok()?;
        self.options.get(place).map(|(_, value)| value)
    }

    /// Returns the names of all options, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let all = self.options.iter();
        all.map(|(name, _)| name.expose().as_str())
    }

    /// Returns the users of a server that are named with their passwords (`user_ada="pencil"`).
    pub fn users(&self) -> impl Iterator<Item = (&str, &Secret<String>)> {
        let all = self.options.iter();
        all.filter_map(|(name, value)| Some((name.expose().strip_prefix(USER)?, value)))
    }

    /// Returns those of the users of a server who could never log in.
    pub fn locked_out(&self) -> Vec<LockedOut> {
        let all = self.users().enumerate();
        let refused = all.filter_map(|(place, (name, password))| {
            let reason = plain::check(name, password).err()?;
            Some(LockedOut { place, reason })
        });
        refused.collect()
    }
}

/// Returns the options in the order of their names; of those with one name only the last.
fn by_name(
    mut options: Vec<(Secret<String>, Secret<String>)>,
) -> Vec<(Secret<String>, Secret<String>)> {
    // The order of those with one name stays.
    options.sort_by(|(one, _), (other, _)| one.expose().cmp(other.expose()));
    options.dedup_by(|later, earlier| {
        let is_same = later.0 == earlier.0;
        if is_same {
            mem::swap(later, earlier);
        }
        is_same
    });
    assert!(
        options.is_sorted_by(|(one, _), (other, _)| one.expose() < other.expose()),
        "a name is found, and once"
    );
    options
}

impl Flag {
    fn of(text: &str) -> Option<Self> {
        let flags = [
            ("required", Self::Required),
            ("requisite", Self::Requisite),
            ("sufficient", Self::Sufficient),
            ("optional", Self::Optional),
        ];
        let found = flags
            .into_iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(text));
        found.map(|(_, flag)| flag)
    }
}

impl Reason {
    fn at(self, at: TextPlace) -> JaasError {
        JaasError { at, reason: self }
    }
}

#[cfg(test)]
mod tests;
