//! Checks that a crate's own `clippy.toml` repeats that of the workspace.
//!
//! A crate's file hides the workspace's file as a whole.

use super::Finding;

/// Returns the findings on one crate's settings, given those of the workspace.
pub(super) fn check(workspace: &str, path: &str, own: &str) -> Vec<Finding> {
    let lacks =
        |line: &&str| !line.is_empty() && !line.starts_with('#') && !own.contains(line.trim_end());
    let finding = |line: &str| {
        Finding::new(
            path,
            format!("hides a setting of the workspace's clippy.toml: {line}"),
        )
    };
    workspace.lines().filter(lacks).map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn every_setting_is_repeated() {
        let workspace = "# why\nallow-unwrap-in-tests = true\nidents = [\"..\"]\n";
        let own = "allow-unwrap-in-tests = true\nidents = [\"..\"]\ndisallowed-types = []\n";
        assert_eq!(check(workspace, "crates/a/clippy.toml", own), []);
        assert_eq!(
            check(workspace, "crates/a/clippy.toml", "idents = [\"..\"]\n").len(),
            1
        );
    }
}
