//! Sums and products of iterators where clients' bytes are handled: release builds check overflow, and a panic ends the
//! broker. One fetch that named a partition 70,000 times did that.
//!
//! They are folded with saturating or checked arithmetic, or the line says why they cannot overflow, behind `// Bounded:`.
//! Test code is free.

use super::{Finding, line_of};
use crate::source::Source;

/// Crates that see what clients, disks and clocks say.
const CRATES: &[&str] = &[
    "crates/broker/src/",
    "crates/wire/src/",
    "crates/storage/src/",
    "crates/server/src/",
];

/// What overflows without a word.
const CALLS: &[&str] = &[".sum()", ".sum::<", ".product()", ".product::<"];

/// How a line says that it cannot.
const REASON: &str = "// Bounded: ";

/// Findings on one file.
pub(super) fn check(source: &Source) -> Vec<Finding> {
    if !CRATES.iter().any(|inside| source.path.starts_with(inside)) {
        return Vec::new();
    }
    let code = source.production();
    let calls = CALLS.iter().flat_map(|call| code.match_indices(call));
    let mut lines: Vec<usize> = calls.map(|(at, _)| line_of(code, at)).collect();
    lines.sort_unstable();
    lines.dedup();
    let is_reasoned = |line: &usize| {
        let text = source.text.lines().nth(line - 1).unwrap_or_default();
        let reason = text.split_once(REASON);
        reason.is_some_and(|(_, reason)| !reason.trim().is_empty())
    };
    lines.retain(|line| !is_reasoned(line));
    let finding = |line| {
        let place = format!("{}:{line}", source.path);
        let text =
            "a sum can overflow: fold it with saturating_add, or say why not: // Bounded: ...";
        Finding::new(place, text)
    };
    lines.into_iter().map(finding).collect()
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
    fn sums_without_a_reason_are_found() {
        let path = "crates/broker/src/a.rs";
        found(path, "let a = b.iter().sum();\n", 1);
        found(path, "let a = b.iter().sum::<usize>();\n", 1);
        found(path, "let a = b\n    .product::<u64>();\n", 1);
        found(path, "let a = b.iter().sum(); // Bounded: \n", 1);
        found(
            path,
            "let a = b.iter().sum(); // Bounded: lengths of a frame.\n",
            0,
        );
        found(
            path,
            "let a = b.iter().fold(0, usize::saturating_add);\n",
            0,
        );
        found(
            path,
            "// b.iter().sum()\nlet a = \".sum()\";\nlet c = d.sum;\n",
            0,
        );
    }

    #[test]
    fn tests_and_other_crates_are_free() {
        let text = "fn f() {}\n#[cfg(test)]\nmod tests {\n fn g() { b.iter().sum() }\n}\n";
        found("crates/wire/src/a.rs", text, 0);
        found("crates/wire/tests/a.rs", "b.iter().sum();\n", 0);
        found("crates/bench/src/a.rs", "b.iter().sum();\n", 0);
    }
}
