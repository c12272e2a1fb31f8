//! Settings as given: key, text, and where each comes from, in order of precedence.
//!
//! Weakest first: file, environment, command line; a later entry overrides an earlier one of the
//! same key. This module does not judge: unknown keys and wrong values pass through, and `resolved`
//! reports them.

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};

use platform::bounded;
use storage::checkpoint::properties;

/// Prefix of the environment variables that are settings.
const ENVIRONMENT_PREFIX: &str = "FOREBAY_";

/// Far longer than a file of settings; a device passed as the file has no end.
const FILE_BYTES_MAX: u64 = 16 << 20;

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
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Key.
    pub key: String,
    /// Value, trimmed.
    pub value: String,
    /// Where it was given.
    pub origin: Origin,
}

/// All settings as given, weakest first.
#[derive(Clone, Default, Debug)]
pub struct RawSettings {
    /// The settings.
    pub entries: Vec<Entry>,
}

impl RawSettings {
    /// Adds the settings of a properties file.
    pub fn add_file(&mut self, path: &Path) -> Result<(), String> {
        // It may be a pipe: `--config <(...)`.
        let bytes = File::open(path).and_then(|file| bounded::stream(file, FILE_BYTES_MAX));
        let bytes = bytes.map_err(|error| format!("{}: {error}", path.display()))?;
        self.add_bytes(path, &bytes)
    }

    /// Adds settings in properties syntax; `path` is their origin in messages.
    pub fn add_bytes(&mut self, path: &Path, bytes: &[u8]) -> Result<(), String> {
        let entries = properties::parse_all(path, bytes).map_err(|error| error.to_string())?;
        for entry in entries {
            let origin = Origin::File(path.to_owned(), entry.line);
            self.add(&entry.key, &entry.value, origin);
        }
        Ok(())
    }

    /// Adds the environment variables that begin with `FOREBAY_`.
    ///
    /// The rest of the name, in lower case and with `.` for `_`, is the key.
    pub fn add_environment(&mut self, variables: impl Iterator<Item = (String, String)>) {
        let mut ours: Vec<_> = variables
            .filter(|(name, _)| name.starts_with(ENVIRONMENT_PREFIX))
            .collect();
        ours.sort();
        for (name, value) in ours {
            let key = name[ENVIRONMENT_PREFIX.len()..]
                .to_ascii_lowercase()
                .replace('_', ".");
            self.add(&key, &value, Origin::Environment(name));
        }
    }

    /// Adds `key=value` arguments.
    pub fn add_arguments(&mut self, arguments: &[String]) -> Result<(), String> {
        for argument in arguments {
            let Some((key, value)) = argument.split_once('=') else {
                return Err(format!("command line: {argument}: must be key=value"));
            };
            self.add(key, value, Origin::CommandLine);
        }
        Ok(())
    }

    fn add(&mut self, key: &str, value: &str, origin: Origin) {
        let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
        self.entries.push(Entry { key, value, origin });
    }
}
