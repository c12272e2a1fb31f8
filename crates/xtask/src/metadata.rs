//! What `cargo metadata` says about the workspace: its crates, their direct dependencies, everybody's licence.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use serde::Deserialize;

/// The part of `cargo metadata` that the checks look at.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    /// Every package that the lock file names, ours included.
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
    /// SPDX expression.
    pub(crate) license: Option<String>,
    /// Where it comes from; `None` is a path.
    pub(crate) source: Option<String>,
    /// What its manifest asks for, in every table of dependencies.
    pub(crate) dependencies: Vec<Dependency>,
}

/// One line of a table of dependencies.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Dependency {
    /// The package's name, not the name it is imported by.
    pub(crate) name: String,
    /// `None` is an ordinary one, else `dev` or `build`.
    pub(crate) kind: Option<String>,
}

impl Metadata {
    /// Asks cargo, without touching the network.
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

    /// Our crates.
    pub(crate) fn ours(&self) -> impl Iterator<Item = &Package> {
        self.packages
            .iter()
            .filter(|package| self.workspace_members.contains(&package.id))
    }
}
