//! The output of `cargo metadata` about the workspace: its crates, their direct dependencies, all
//! licences.
//!
//! It is read without network access.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use serde::Deserialize;

/// The part of `cargo metadata` that the checks use.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    /// All packages of the lock file, those of the workspace included.
    pub(crate) packages: Vec<Package>,
    workspace_members: Vec<String>,
}

/// One package.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Package {
    id: String,
    /// As in its manifest.
    pub(crate) name: String,
    /// As in its manifest.
    pub(crate) version: String,
    /// The SPDX expression.
    pub(crate) license: Option<String>,
    /// The registry of the package; `None` for a path.
    pub(crate) source: Option<String>,
    /// The entries of all its dependency tables.
    pub(crate) dependencies: Vec<Dependency>,
}

/// An entry of a dependency table.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Dependency {
    /// The package's name, not the name it is imported by.
    pub(crate) name: String,
    /// `None` for an ordinary dependency, otherwise `dev` or `build`.
    pub(crate) kind: Option<String>,
}

impl Metadata {
    /// Runs `cargo metadata` offline.
    pub(crate) fn load(root: &Path) -> anyhow::Result<Metadata> {
        let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(["metadata", "--format-version=1", "--locked"])
            .current_dir(root)
            .output()
            .context("running cargo metadata")?;
        ensure!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        serde_json::from_slice(&output.stdout).context("reading cargo metadata")
    }

    /// Returns the crates of the workspace.
    pub(crate) fn ours(&self) -> impl Iterator<Item = &Package> {
        self.packages
            .iter()
            .filter(|package| self.workspace_members.contains(&package.id))
    }
}
