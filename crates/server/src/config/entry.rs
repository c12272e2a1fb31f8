//! One setting as given, with its place.
//!
//! Invariant: no `Debug` shows a value unless a table says that its key is no secret.

use std::fmt;
use std::path::PathBuf;

use wire::sasl::Secret;

use super::keys;

/// Where a setting was given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// The default of the table.
    Default,
    /// A line of a file.
    File(PathBuf, usize),
    /// An environment variable.
    Environment(String),
    /// An argument.
    CommandLine,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path, line) => write!(f, "{}:{line}", path.display()),
            Self::Environment(name) => write!(f, "environment variable {name}"),
            Self::CommandLine => f.write_str("command line"),
        }
    }
}

/// One setting as given.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    /// Key.
    pub key: String,
    /// Value, trimmed.
    pub value: Secret<String>,
    /// Where it was given.
    pub origin: Origin,
    /// What config providers have put into the value, if it had references.
    pub reference: Option<Vec<Secret<String>>>,
}

impl Entry {
    /// Returns the value.
    pub fn text(&self) -> &str {
        self.value.expose()
    }

    /// Returns true if the value may be shown: a table says that it is no secret, and it does not
    /// come out of a file of secrets.
    pub fn may_be_shown(&self) -> bool {
        let row = keys::find(&self.key).or_else(|| Some(keys::of_listener(&self.key)?.1));
        self.reference.is_none() && row.is_some_and(|row| !row.sensitive)
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Entry");
        shown.field("key", &keys::shown(&self.key));
        if self.may_be_shown() {
            shown.field("value", &self.text());
        } else {
            shown.field("value", &self.value);
        }
        shown.field("origin", &self.origin).finish_non_exhaustive()
    }
}
