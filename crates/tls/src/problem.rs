//! What is wrong with a store, or worth saying about it: setting, file, and what to do.

use std::fmt;
use std::path::{Path, PathBuf};

/// Why a set cannot be opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsProblem {
    /// Full name of the setting that is to be changed, or that names the file that is.
    pub setting: String,
    /// The file, if it is one.
    pub file: Option<PathBuf>,
    /// What is wrong.
    pub why: String,
    /// What to do about it.
    pub advice: String,
}

impl TlsProblem {
    /// A problem with a setting by itself.
    pub(crate) fn of(
        setting: impl Into<String>,
        why: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            setting: setting.into(),
            file: None,
            why: why.into(),
            advice: advice.into(),
        }
    }

    /// The same with the file that the setting names.
    pub(crate) fn in_file(self, file: &Path) -> Self {
        Self {
            file: Some(file.to_owned()),
            ..self
        }
    }
}

impl fmt::Display for TlsProblem {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            setting,
            file,
            why,
            advice,
        } = self;
        match file {
            Some(file) => write!(to, "{setting}: {}: {why}: {advice}", file.display()),
            None => write!(to, "{setting}: {why}: {advice}"),
        }
    }
}

impl std::error::Error for TlsProblem {}

/// What is not wrong, but may not be what the operator who wrote the settings believes. It has the
/// form of a problem.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsWarning(pub TlsProblem);

impl fmt::Display for TlsWarning {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(to)
    }
}

/// What was opened, and what there is to say about it.
#[derive(Debug)]
pub struct Opened<T> {
    /// The set.
    pub tls: T,
    /// Warnings, in no order.
    pub warnings: Vec<TlsWarning>,
}
