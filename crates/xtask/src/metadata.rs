//! The output of `cargo metadata` about the workspace: its crates, what is built of them, their
//! direct dependencies, all licences.
//!
//! It is read without network access.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use serde::Deserialize;

/// The part of `cargo metadata` that the checks use.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    /// All packages of the lock file, those of the workspace included.
    pub(crate) packages: Vec<Package>,
    workspace_members: Vec<String>,
    #[serde(default)]
    workspace_root: PathBuf,
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
    #[serde(default)]
    targets: Vec<Target>,
}

/// Something that cargo builds: a library, a program, a test, an example, a build script.
#[derive(Debug, Clone, Deserialize)]
struct Target {
    /// The file that it begins with, as an absolute path.
    src_path: PathBuf,
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

    /// Returns the files that cargo compiles by itself, relative to the workspace, with forward
    /// slashes; `mod` leads to all others.
    pub(crate) fn roots(&self) -> BTreeSet<String> {
        let targets = self.ours().flat_map(|package| &package.targets);
        let relative = |target: &Target| {
            let path = target.src_path.strip_prefix(&self.workspace_root).ok()?;
            Some(path.to_string_lossy().replace('\\', "/"))
        };
        targets.filter_map(relative).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Metadata;

    #[test]
    fn roots_are_those_of_the_workspace_only() {
        let text = r#"{"workspace_members": ["x"], "workspace_root": "/w", "packages": [
            {"id": "x", "name": "x", "version": "1.0.0", "license": null, "source": null, "dependencies": [],
             "targets": [{"src_path": "/w/crates/x/src/lib.rs"}, {"src_path": "/w/crates/x/tests/a.rs"}]},
            {"id": "y", "name": "y", "version": "1.0.0", "license": null, "source": null, "dependencies": [],
             "targets": [{"src_path": "/w/crates/y/src/lib.rs"}]}]}"#;
        let metadata: Metadata = serde_json::from_str(text).unwrap();
        let roots: Vec<_> = metadata.roots().into_iter().collect();
        assert_eq!(roots, ["crates/x/src/lib.rs", "crates/x/tests/a.rs"]);
    }
}
