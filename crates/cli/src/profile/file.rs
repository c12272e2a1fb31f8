//! The file of profiles, read and written as a whole.
//!
//! Invariant: a rename replaces it, so it is never half written.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::{env, fs, io, process};

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};

use crate::show::Format;

/// The profile of one cluster.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profile {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) brokers: Option<String>,
    /// The admin endpoint of a broker, for commands that ask it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) admin: Option<String>,
    /// A file of properties for the admin endpoint: TLS, and who the client is.
    #[serde(rename = "admin-config", skip_serializing_if = "Option::is_none")]
    pub(crate) admin_config: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) format: Option<Format>,
    /// A file of properties, for those who are let in by TLS or a login.
    #[serde(rename = "command-config", skip_serializing_if = "Option::is_none")]
    pub(crate) command_config: Option<PathBuf>,
}

/// All profiles.
#[derive(Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Profiles {
    /// The profile in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) current: Option<String>,
    #[serde(default)]
    pub(super) profile: BTreeMap<String, Profile>,
}

impl Profiles {
    /// Reads the file; without a file there are no profiles.
    pub(super) fn read() -> anyhow::Result<Self> {
        let Some(path) = path() else {
            return Ok(Self::default());
        };
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        toml::from_str(&text).with_context(|| path.display().to_string())
    }

    /// Replaces the file.
    pub(super) fn write(&self) -> anyhow::Result<()> {
        let Some(path) = path() else {
            bail!("neither XDG_CONFIG_HOME nor HOME says where profiles are kept");
        };
        let beside = path.with_extension(format!("toml.{}", process::id()));
        let written = || -> anyhow::Result<()> {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            fs::write(&beside, toml::to_string_pretty(self)?)?;
            Ok(fs::rename(&beside, &path)?)
        };
        written().with_context(|| path.display().to_string())
    }

    /// Returns the profile with this name; a missing one is an error.
    pub(super) fn named(&self, name: &str) -> anyhow::Result<&Profile> {
        let found = self.profile.get(name);
        found.with_context(|| format!("there is no profile {name:?}"))
    }
}

fn path() -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty());
    let config = match set("XDG_CONFIG_HOME") {
        Some(config) => PathBuf::from(config),
        None => PathBuf::from(set("HOME")?).join(".config"),
    };
    Some(config.join("forebay").join("profiles.toml"))
}
