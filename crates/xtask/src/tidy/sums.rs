//! Finds calls that panic on a number where numbers come from clients, disks and clocks: a panic
//! ends the broker. Sums and products of iterators overflow (one fetch that named a partition
//! 70,000 times caused that), durations are made from fractions that are negative or not a number,
//! bytes are split beyond their end.
//!
//! Such code uses saturating or checked arithmetic, checks the number before, or gives the reason
//! why it cannot fail after `// Bounded:`, in the same line or the one directly above. Plain
//! arithmetic and indexing are left to the compiler's lints (`paths.rs`). Test code is exempt.

use super::{Finding, line_of};
use crate::source::Source;

/// Crates that handle numbers of clients, disks and clocks.
const CRATES: &[&str] = &[
    "crates/broker/src/",
    "crates/wire/src/",
    "crates/storage/src/",
    "crates/server/src/",
    "crates/platform/src/",
];

/// The simulated world, which only tests use.
const SIMULATED: &str = "crates/platform/src/sim/";

/// Calls that can overflow.
const SUMS: &[&str] = &[".sum()", ".sum::<", ".product()", ".product::<"];

/// Calls that panic on a number out of range.
const PANICS: &[&str] = &[
    "::from_secs_f32(",
    "::from_secs_f64(",
    ".div_f32(",
    ".div_f64(",
    ".mul_f32(",
    ".mul_f64(",
    ".split_at(",
    ".split_at_mut(",
    ".split_off(",
    ".split_to(",
];

/// The comment that gives the reason.
const REASON: &str = "// Bounded: ";

/// Returns the findings on one file.
pub(super) fn check(source: &Source) -> Vec<Finding> {
    let inside = |paths: &[&str]| paths.iter().any(|path| source.path.starts_with(path));
    if !inside(CRATES) || inside(&[SIMULATED]) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for line in unreasoned(source, SUMS) {
        let text =
            "a sum can overflow: fold it with saturating_add, or say why not: // Bounded: ...";
        findings.push(Finding::new(format!("{}:{line}", source.path), text));
    }
    for line in unreasoned(source, PANICS) {
        let text =
            "this panics on a number that does not fit: say what was checked: // Bounded: ...";
        findings.push(Finding::new(format!("{}:{line}", source.path), text));
    }
    findings
}

/// Returns the lines with one of `calls` and without a reason.
fn unreasoned(source: &Source, calls: &[&str]) -> Vec<usize> {
    let code = source.production();
    let calls = calls.iter().flat_map(|call| code.match_indices(call));
    let mut lines: Vec<usize> = calls.map(|(at, _)| line_of(code, at)).collect();
    lines.sort_unstable();
    lines.dedup();
    let text: Vec<&str> = source.text.lines().collect();
    let is_reasoned = |line: &usize| {
        let above = line.checked_sub(2).and_then(|above| text.get(above));
        let above = above.filter(|above| above.trim_start().starts_with("//"));
        let mut said = text.get(line - 1).into_iter().chain(above);
        said.any(|said| {
            let reason = said.split_once(REASON);
            reason.is_some_and(|(_, reason)| !reason.trim().is_empty())
        })
    };
    lines.retain(|line| !is_reasoned(line));
    lines
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
    fn calls_that_panic_on_a_number_are_found() {
        let path = "crates/storage/src/a.rs";
        found(path, "let a = Duration::from_secs_f64(b);\n", 1);
        found(path, "let (a, b) = c.split_at(d);\n", 1);
        found(path, "let a = b\n    .split_to(c)\n    .freeze();\n", 1);
        found(
            path,
            "// Bounded: c was compared.\nlet a = b.split_to(c);\n",
            0,
        );
        found(
            path,
            "let e = \"// Bounded: no.\";\nlet a = b.split_to(c);\n",
            1,
        );
        found(
            path,
            "let a = b.split_at_checked(c)?;\nlet a = Duration::try_from_secs_f64(b);\n",
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
