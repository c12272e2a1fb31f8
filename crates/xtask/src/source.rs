//! Rust source files as the checks see them: the text, and the code with comments and literals
//! blanked out.
//!
//! Invariant: `code` has as many lines as `text`, and every byte of code is in the same line as in
//! `text`. This is not a parser: its lexer is sufficient to keep braces, `fn` and `mod` in strings
//! and comments from being taken for code.

pub(crate) mod fields;
pub(crate) mod functions;
mod mask;

use std::path::{Path, PathBuf};

use anyhow::Context;

/// One Rust file of the workspace.
#[derive(Debug)]
pub(crate) struct Source {
    /// The path relative to the workspace, with forward slashes.
    pub(crate) path: String,
    /// The text of the file.
    pub(crate) text: String,
    /// The text with comments and literals replaced by spaces.
    pub(crate) code: String,
}

impl Source {
    /// Makes a file with this path and text.
    pub(crate) fn new(path: &str, text: &str) -> Source {
        Source {
            path: path.to_owned(),
            text: text.to_owned(),
            code: mask::mask(text),
        }
    }

    /// Returns whether the whole file is test code.
    pub(crate) fn is_test(&self) -> bool {
        let mut parts = self.path.split('/').skip(2);
        parts.next() != Some("src")
            || self.path.ends_with("/tests.rs")
            || self.path.ends_with("_tests.rs")
            || self.path.contains("/tests/")
    }

    /// Returns the code before the inline test module, to which the norms of size apply.
    pub(crate) fn production(&self) -> &str {
        if self.is_test() {
            return "";
        }
        let mark = "#[cfg(test)]\n";
        let mut marks = self.code.match_indices(mark).map(|(at, _)| at);
        let end = marks.find(|at| {
            // `mod tests;` names a file of its own: production code follows it.
            let item = &self.code[at + mark.len()..];
            let opens = item.find(['{', ';']).map(|brace| item.split_at(brace));
            opens.is_some_and(|(head, body)| {
                let is_module =
                    head.starts_with("mod ") || head.starts_with("pub") && head.contains(" mod ");
                is_module && body.starts_with('{')
            })
        });
        &self.code[..end.unwrap_or(self.code.len())]
    }
}

/// Reads every Rust file below `crates/`, in the order of the paths.
pub(crate) fn read_all(root: &Path) -> anyhow::Result<Vec<Source>> {
    let mut paths = Vec::new();
    collect(&root.join("crates"), &mut paths)?;
    paths.sort();
    let read = |path: &PathBuf| -> anyhow::Result<Source> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let relative = path
            .strip_prefix(root)
            .context("a path outside the workspace")?;
        Ok(Source::new(
            &relative.to_string_lossy().replace('\\', "/"),
            &text,
        ))
    };
    paths.iter().map(read).collect()
}

fn collect(directory: &Path, found: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let entries = std::fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            collect(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Source;

    #[test]
    fn production_ends_at_the_inline_tests() {
        let text = "//! x\nfn a() {}\n#[cfg(test)]\nmod tests {\n fn b() {}\n}\n";
        assert_eq!(
            Source::new("crates/a/src/lib.rs", text)
                .production()
                .lines()
                .count(),
            2
        );
        let shared = text.replace("mod tests", "pub(super) mod tests");
        let source = Source::new("crates/a/src/lib.rs", &shared);
        assert_eq!(source.production().lines().count(), 2);
        let apart = "//! x\n#[cfg(test)]\nmod tests;\nfn a() {}\n";
        assert_eq!(
            Source::new("crates/a/src/lib.rs", apart)
                .production()
                .lines()
                .count(),
            4
        );
        for path in [
            "crates/a/tests/x.rs",
            "crates/a/src/foo/tests.rs",
            "crates/a/src/foo/model_tests.rs",
            "crates/a/src/foo/tests/bar.rs",
        ] {
            assert_eq!(Source::new(path, text).production(), "", "{path}");
        }
    }
}
