//! Settings as given: key, text, and where each comes from, in order of precedence.
//!
//! Weakest first: file, environment, command line; a later entry overrides an earlier one of the
//! same key. When all are there, [`RawSettings::settle`] puts what config providers have in the
//! place of references, and says which secrets others can read.
//!
//! Invariants: a value is overwritten when it is dropped, and no `Debug` shows it unless its key is
//! known to be no secret. Not overwritten: what the reader of properties leaves behind, arguments,
//! and the environment. This module does not judge: unknown keys and wrong values pass through, and
//! `resolved` reports them.

use std::fs::File;
use std::path::Path;

use platform::bounded;
use storage::checkpoint::properties;
use wire::sasl::Secret;

use super::keys;
use super::permissions::{self, FileMode};
use super::problem::{Problem, Warning};
use super::providers;

pub use super::entry::{Entry, Origin};

/// Prefix of the environment variables that are settings.
const ENVIRONMENT_PREFIX: &str = "FOREBAY_";

/// Far longer than a file of settings; a device passed as the file has no end.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// All settings as given, weakest first.
#[derive(Clone, Default, Debug)]
pub struct RawSettings {
    /// The settings.
    pub entries: Vec<Entry>,
    /// What is wrong with references, and with files of secrets.
    pub problems: Vec<Problem>,
    /// What is worth saying about them.
    pub warnings: Vec<Warning>,
    /// The files of settings, with who may read them.
    // Bounded: one for each `--config`.
    files: Vec<FileMode>,
}

impl RawSettings {
    /// Adds the settings of a properties file.
    pub fn add_file(&mut self, path: &Path) -> Result<(), String> {
        // It may be a pipe: `--config <(...)`.
        let named = |error| format!("{}: {error}", path.display());
        let file = File::open(path).map_err(named)?;
        self.files.extend(FileMode::of(path, &file));
        let bytes = bounded::stream(file, FILE_BYTES_MAX).map_err(named)?;
        let bytes = Secret::new(bytes);
        self.add_bytes(path, bytes.expose())
    }

    /// Adds settings in properties syntax; `path` is their origin in messages.
    pub fn add_bytes(&mut self, path: &Path, bytes: &[u8]) -> Result<(), String> {
        let entries = properties::parse_all(path, bytes).map_err(|error| error.to_string())?;
        for entry in entries {
            let origin = Origin::File(path.to_owned(), entry.line);
            self.add(&entry.key, &Secret::new(entry.value), origin);
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
            self.add(&key, &Secret::new(value), Origin::Environment(name));
        }
    }

    /// Adds `key=value` arguments.
    pub fn add_arguments(&mut self, arguments: &[String]) -> Result<(), String> {
        for argument in arguments {
            let Some((key, value)) = argument.split_once('=') else {
                let shown = shown(argument);
                return Err(format!("command line: {shown}: must be key=value"));
            };
            self.add(key, &Secret::new(value.to_owned()), Origin::CommandLine);
        }
        Ok(())
    }

    /// Puts what config providers have in the place of references, once all settings are there, and
    /// looks at who can read secrets. Reads files and the environment.
    pub fn settle(&mut self) {
        let environment = |name: &str| std::env::var(name).ok();
        self.settle_in(&environment);
    }

    /// The same with another environment.
    pub fn settle_in(&mut self, environment: &dyn Fn(&str) -> Option<String>) {
        let settled = providers::replace(&mut self.entries, environment);
        self.problems.extend(settled.problems);
        self.warnings.extend(settled.warnings);
        let read = settled.files;
        let seen = permissions::look(&self.entries, &self.files, read);
        self.problems.extend(seen.problems);
        self.warnings.extend(seen.warnings);
    }

    fn add(&mut self, key: &str, value: &Secret<String>, origin: Origin) {
        self.entries.push(Entry {
            key: key.trim().to_owned(),
            value: Secret::new(value.expose().trim().to_owned()),
            origin,
            reference: None,
        });
    }
}

/// Returns what a message shows of an argument without `=`: a word is shown, and of a setting with
/// something behind it the name, for the rest may be a secret.
fn shown(argument: &str) -> String {
    let is_of_key = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    let Some(end) = argument.find(|letter| !is_of_key(letter)) else {
        return argument.to_owned();
    };
    // Bounded: where something was found.
    let (key, _) = argument.split_at(end);
    if keys::find(key).is_some() || keys::of_listener(key).is_some() {
        format!("{key}..")
    } else {
        "(hidden)".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_that_is_no_setting_is_named_and_not_shown() {
        for (argument, said) in [
            ("ssl.key.password:hunter2", ": ssl.key.password..: must"),
            (
                "listener.name.a.ssl.key.password hunter2",
                "a.ssl.key.password..:",
            ),
            ("num.partitions", ": num.partitions: must"),
            ("a:hunter2", ": (hidden): must"),
        ] {
            let arguments = ["node.id=1".to_owned(), argument.to_owned()];
            let error = RawSettings::default()
                .add_arguments(&arguments)
                .unwrap_err();
            assert!(
                error.contains(said) && !error.contains("hunter2"),
                "{error}"
            );
        }
    }
}
