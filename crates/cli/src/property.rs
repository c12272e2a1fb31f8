//! `KEY=VALUE` on a command line.
//!
//! The key must not be empty; the value may.

/// A key with its value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Property {
    pub(crate) key: String,
    pub(crate) value: String,
}

impl std::str::FromStr for Property {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() => Ok(Self {
                key: key.trim().to_owned(),
                value: value.to_owned(),
            }),
            _ => Err("must be KEY=VALUE".to_owned()),
        }
    }
}
