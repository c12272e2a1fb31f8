//! Files and streams are read to their end in one place only, which takes a bound: an index of a
//! gigabyte, or a device under the name of a checkpoint, has used up the memory of a broker before.
//!
//! All other code calls `platform::bounded` (or the disk's `read_file`). Test code is exempt.

use super::{Finding, line_of};
use crate::source::Source;

/// Crates of the broker's process.
const CRATES: &[&str] = &[
    "crates/broker/src/",
    "crates/host/src/",
    "crates/platform/src/",
    "crates/server/src/",
    "crates/storage/src/",
];

/// The one place.
const HELPER: &str = "crates/platform/src/bounded.rs";

/// Calls that read to the end without a bound.
const CALLS: &[&str] = &[
    "fs::read(",
    "fs::read;",
    "fs::read_to_string",
    "io::copy(",
    "io::read_to_string",
    ".read_line(",
    ".read_to_end(",
    ".read_to_string(",
    ".read_until(",
];

/// Returns the findings on one file.
pub(super) fn check(source: &Source) -> Vec<Finding> {
    let is_free =
        source.path == HELPER || !CRATES.iter().any(|inside| source.path.starts_with(inside));
    if is_free {
        return Vec::new();
    }
    let code = source.production();
    let calls = CALLS.iter().flat_map(|call| code.match_indices(call));
    let finding = |(at, call): (usize, &str)| {
        let place = format!("{}:{}", source.path, line_of(code, at));
        let call = call.trim_matches(['.', '(', ';']);
        let text = format!("`{call}` reads without a bound: use platform::bounded");
        Finding::new(place, text)
    };
    calls.map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::fixture;

    #[track_caller]
    fn found(path: &str, text: &str, expect: usize) {
        let findings = check(&fixture(path, text));
        assert_eq!(findings.len(), expect, "{findings:?}");
    }

    #[test]
    fn reading_to_the_end_is_found() {
        let path = "crates/server/src/a.rs";
        found(path, "let a = std::fs::read(path)?;\n", 1);
        found(path, "let a = fs::read_to_string(path)?;\n", 1);
        found(path, "file.read_to_end(&mut bytes)?;\n", 1);
        found(path, "file\n    .read_to_string(&mut text)?;\n", 1);
        found(path, "use std::fs::read;\n", 1);
    }

    #[test]
    fn the_helper_and_what_does_not_read_to_the_end_are_not_found() {
        let path = "crates/server/src/a.rs";
        found(path, "let a = bounded::file(path, 10)?;\n", 0);
        found(path, "let a = fs::read_dir(path)?;\n", 0);
        found(path, "// fs::read(path)\nlet a = \"fs::read(\";\n", 0);
        found(
            path,
            "#[cfg(test)]\nmod tests {\n fn a() { fs::read(path); }\n}\n",
            0,
        );
        found(
            "crates/platform/src/bounded.rs",
            "file.read_to_end(&mut bytes)?;\n",
            0,
        );
        found("crates/server/tests/a.rs", "fs::read(path);\n", 0);
        found("crates/bench/src/a.rs", "fs::read(path);\n", 0);
    }
}
