//! Where a config provider looks: a file of properties, a directory with a file for each key, or
//! the environment.
//!
//! Invariants: a provider with `allowed.paths` opens nothing outside of them, as the text of a path
//! says (links are followed, for that is how Kubernetes puts secrets into a directory); one with
//! `allowlist.pattern` reads no other variable; what is read is bounded, a regular file, and
//! overwritten when it is dropped.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

use platform::bounded;
use regex::Regex;
use storage::checkpoint::properties;
use wire::sasl::Secret;

use super::super::entry::Entry;
use super::reference::Reference;

/// The longest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

const FILE: &str = "org.apache.kafka.common.config.provider.FileConfigProvider";
const DIRECTORY: &str = "org.apache.kafka.common.config.provider.DirectoryConfigProvider";
const ENVIRONMENT: &str = "org.apache.kafka.common.config.provider.EnvVarConfigProvider";

/// The classes that are served, in words.
pub(super) const CLASSES: &str = "org.apache.kafka.common.config.provider.FileConfigProvider, \
                           ..DirectoryConfigProvider or ..EnvVarConfigProvider";

/// A config provider.
#[derive(Debug)]
pub(super) enum Source {
    /// `${file:/p:k}`: the value of `k` in the file of properties `/p`.
    File(AllowedPaths),
    /// `${directory:/d:f}`: what is in the file `f` of the directory `/d`.
    Directory(AllowedPaths),
    /// `${env:N}`: the variable `N`.
    Environment(Option<Regex>),
}

/// What a provider has.
pub(super) struct ProvidedValue {
    pub(super) value: Secret<String>,
    /// The file that was read, with its mode.
    pub(super) file: Option<(String, u32)>,
}

impl Source {
    /// Makes the provider that settings describe, or says which of them is wrong.
    pub(super) fn new<'a>(
        class: &'a Entry,
        paths: Option<&'a Entry>,
        pattern: Option<&'a Entry>,
    ) -> Result<Self, (&'a Entry, String)> {
        match class.text() {
            FILE => Ok(Self::File(AllowedPaths::new(paths)?)),
            DIRECTORY => Ok(Self::Directory(AllowedPaths::new(paths)?)),
            ENVIRONMENT => Ok(Self::Environment(compiled(pattern)?)),
            _ => Err((
                class,
                format!("must be one of {CLASSES}: others cannot be loaded"),
            )),
        }
    }

    /// Returns what a reference stands for, or why there is nothing.
    pub(super) fn find(
        &self,
        reference: &Reference<'_>,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<ProvidedValue, String> {
        let Reference { path, key, .. } = *reference;
        if key.is_empty() {
            return Err("names no key".into());
        }
        match self {
            Self::File(allowed) => of_file(&allowed.checked(path)?, key),
            Self::Directory(allowed) => {
                if key.contains('/') || key == ".." {
                    return Err("has to name a file of that directory itself".into());
                }
                of_directory(&allowed.checked(path)?, key)
            }
            Self::Environment(pattern) => {
                if !path.is_empty() {
                    return Err("has a path, and a variable has none".into());
                }
                if pattern.as_ref().is_some_and(|it| !it.is_match(key)) {
                    return Err("is not in allowlist.pattern of its provider".into());
                }
                let value = environment(key);
                let value = value.ok_or("there is no such variable with a text in UTF-8")?;
                let value = Secret::new(value);
                Ok(ProvidedValue { value, file: None })
            }
        }
    }
}

/// Directories and files that a provider may open; all, if it has no such setting.
#[derive(Debug)]
pub(super) struct AllowedPaths(Option<Vec<PathBuf>>);

impl AllowedPaths {
    fn new(entry: Option<&Entry>) -> Result<Self, (&Entry, String)> {
        let Some(entry) = entry.filter(|entry| !entry.text().is_empty()) else {
            return Ok(Self(None));
        };
        let paths = entry.text().split(',').map(str::trim);
        let paths: Vec<_> = paths.map(Path::new).collect();
        if let Some(wrong) = paths.iter().find(|path| !path.is_absolute()) {
            let why = format!("must be absolute paths: {} is none", wrong.display());
            return Err((entry, why));
        }
        Ok(Self(Some(paths.into_iter().map(normal).collect())))
    }

    fn checked(&self, path: &str) -> Result<PathBuf, String> {
        if path.is_empty() {
            return Err("names no path".into());
        }
        let path = normal(Path::new(path));
        if !path.is_absolute() {
            return Err("has to name an absolute path".into());
        }
        match &self.0 {
            Some(allowed) if !allowed.iter().any(|it| path.starts_with(it)) => {
                Err("is outside of allowed.paths of its provider".into())
            }
            _ => Ok(path),
        }
    }
}

/// Returns a path without `.` and `..`, by its text alone.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
}

fn compiled(entry: Option<&Entry>) -> Result<Option<Regex>, (&Entry, String)> {
    let Some(entry) = entry.filter(|entry| !entry.text().is_empty()) else {
        return Ok(None);
    };
    // Java's `matches` is about the whole name.
    let whole = format!("^(?:{})$", entry.text());
    let pattern = Regex::new(&whole);
    let why = "must be a regular expression without look-around and references";
    pattern.map(Some).map_err(|_| (entry, why.into()))
}

fn of_file(path: &Path, key: &str) -> Result<ProvidedValue, String> {
    let (bytes, mode) = read(path)?;
    let entries = properties::parse_all(path, bytes.expose());
    // Not what was found there: it may be a file that has a password and nothing else.
    let entries = entries.map_err(|error| {
        let (line, expected) = (error.line, error.expected);
        format!("its file is no file of properties: line {line}: expected {expected}")
    })?;
    let mut found = None;
    for entry in entries {
        let value = Secret::new(entry.value);
        if entry.key == key {
            found = Some(value);
        }
    }
    let value = found.ok_or("there is no such key in the file")?;
    let file = Some((path.display().to_string(), mode));
    Ok(ProvidedValue { value, file })
}

fn of_directory(directory: &Path, key: &str) -> Result<ProvidedValue, String> {
    let path = directory.join(key);
    let (bytes, mode) = read(&path)?;
    let text = std::str::from_utf8(bytes.expose());
    let text = text.map_err(|_| "the file is not UTF-8")?;
    let file = Some((path.display().to_string(), mode));
    let value = Secret::new(text.to_owned());
    Ok(ProvidedValue { value, file })
}

fn read(path: &Path) -> Result<(Secret<Vec<u8>>, u32), String> {
    let said = |error: io::Error| match error.kind() {
        ErrorKind::NotFound => "there is no such file".to_owned(),
        ErrorKind::PermissionDenied => "the user of this process may not read the file".to_owned(),
        _ => format!("the file cannot be read: {error}"),
    };
    let bytes = bounded::file(path, FILE_BYTES_MAX).map_err(said)?;
    let bytes = Secret::new(bytes);
    // Not opened a second time: what stands there now may be a pipe without a writer.
    let mode = fs::metadata(path).map_err(said)?.permissions().mode();
    Ok((bytes, mode & 0o777))
}
