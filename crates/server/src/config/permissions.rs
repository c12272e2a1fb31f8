//! Who else can read the secrets in the settings: other users of the machine, from files and from
//! the command line.
//!
//! `secrets.permissions` says what follows for files: a warning, or no start. Keys and certificates
//! in files of their own are looked at where they are opened (`tls`). Not here: values.

use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::entry::{Entry, Origin};
use super::keys;
use super::problem::{Effect, Problem, Warning};

/// The setting.
pub(super) const KEY: &str = "secrets.permissions";

/// Bits of a file's mode that let others than its owner read it.
const READ_BY_OTHERS: u32 = 0o044;

/// A file of settings, and who may read it.
#[derive(Clone, Debug)]
pub(super) struct FileMode {
    path: PathBuf,
    mode: u32,
}

impl FileMode {
    /// Looks at an open file; `None` for a pipe, which no other process can open.
    pub(super) fn of(path: &Path, file: &File) -> Option<Self> {
        let metadata = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
        Some(Self {
            path: path.to_owned(),
            mode: metadata.permissions().mode() & 0o777,
        })
    }
}

/// A file that was read for a setting.
pub(super) struct SecretFile {
    /// The setting.
    pub(super) entry: Rc<Entry>,
    /// The file.
    pub(super) path: PathBuf,
    /// Its mode.
    pub(super) mode: u32,
}

/// What is wrong.
#[derive(Default)]
pub(super) struct PermissionFindings {
    pub(super) problems: Vec<Problem>,
    pub(super) warnings: Vec<Warning>,
}

/// Looks at the secrets in these settings, which come from `files`; `read` were read for them.
pub(super) fn look(
    entries: &[Entry],
    files: &[FileMode],
    read: Vec<SecretFile>,
) -> PermissionFindings {
    let given = entries.iter().rfind(|entry| entry.key == KEY);
    let is_strict = given.is_some_and(|entry| entry.text() == "strict");
    let mut seen = PermissionFindings::default();
    let is_secret = |entry: &&Entry| is_sensitive(&entry.key) && !entry.text().is_empty();
    for file in files {
        let inside = |entry: &&Entry| match &entry.origin {
            Origin::File(path, _) => *path == file.path && entry.reference.is_none(),
            _ => false,
        };
        if let Some(first) = entries.iter().filter(is_secret).find(inside) {
            seen.judge(first, &file.path, file.mode, is_strict);
        }
    }
    let mut said: Vec<PathBuf> = Vec::new();
    for SecretFile { entry, path, mode } in read {
        if is_sensitive(&entry.key) && !said.contains(&path) {
            seen.judge(&entry, &path, mode, is_strict);
            said.push(path);
        }
    }
    let on_line = entries.iter().filter(is_secret);
    for entry in on_line.filter(|entry| entry.origin == Origin::CommandLine) {
        if entry.reference.is_none() {
            seen.warnings.push(Warning {
                effect: Effect::Mistake,
                advice: "write it into a file (0600), or refer to one (config.providers)".into(),
                ..Warning::of(
                    entry,
                    "every user of the machine can read a secret on the command line".into(),
                )
            });
        }
    }
    seen
}

impl PermissionFindings {
    fn judge(&mut self, entry: &Entry, path: &Path, mode: u32, is_strict: bool) {
        if mode & READ_BY_OTHERS == 0 {
            return;
        }
        let path = path.display();
        let why = format!("others than its owner may read {path}, which has it (mode {mode:04o})");
        let advice = format!("chmod 600 {path}");
        if is_strict {
            self.problems.push(Problem {
                key: entry.key.clone(),
                value: "(hidden)".into(),
                allowed: format!("{why}, and {KEY}=strict: {advice}"),
                origin: entry.origin.clone(),
            });
        } else {
            self.warnings.push(Warning {
                effect: Effect::Mistake,
                advice,
                ..Warning::of(entry, why)
            });
        }
    }
}

/// Returns true for a setting whose value is a secret.
pub(super) fn is_sensitive(key: &str) -> bool {
    let row = keys::find(key).or_else(|| Some(keys::of_listener(key)?.1));
    row.is_some_and(|row| row.sensitive)
}
