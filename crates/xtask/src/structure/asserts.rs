//! Counts asserts and lines of production code.
//!
//! Asserts of debug builds do not count.

use crate::source::Source;

const ASSERTS: [&str; 4] = ["assert!", "assert_eq!", "assert_ne!", "unreachable!"];

/// Returns the number of lines with code.
pub(crate) fn lines(source: &Source) -> usize {
    let code = source.production();
    code.lines().filter(|line| !line.trim().is_empty()).count()
}

/// Returns the number of asserts in all builds, without those of debug builds.
pub(crate) fn count(source: &Source) -> usize {
    let code = source.production();
    let of = |name: &&str| {
        let starts = code.match_indices(*name).map(|(at, _)| &code[..at]);
        starts.filter(|before| starts_a_word(before)).count()
    };
    ASSERTS.iter().map(of).sum()
}

/// Returns how many of them compare constants: the compiler proves those, so they cannot fail at
/// run time.
pub(super) fn of_constants(source: &Source) -> usize {
    let code = source.production();
    code.match_indices("const _: () = assert!").count()
}

fn starts_a_word(before: &str) -> bool {
    let last = before.bytes().next_back();
    last.is_none_or(|byte| !byte.is_ascii_alphanumeric() && byte != b'_')
}

/// Returns the count per thousand lines, with two decimals.
pub(super) fn per_thousand(count: usize, lines: usize) -> String {
    let hundredths = (count * 100_000).checked_div(lines).unwrap_or(0);
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

#[cfg(test)]
mod tests {
    use super::{count, lines, of_constants, per_thousand};
    use crate::source::Source;

    #[test]
    fn what_holds_in_release_builds_of_production_code_counts() {
        let text = "//! x\n\nfn f() {\n    assert!(true); // assert!\n    debug_assert!(true);\n    unreachable!();\n}\n\
            #[cfg(test)]\nmod tests {\n    fn g() { assert!(true) }\n}\n";
        let source = Source::new("crates/a/src/lib.rs", text);
        assert_eq!(count(&source), 2);
        assert_eq!(of_constants(&source), 0);
        let constant = Source::new(
            "crates/a/src/lib.rs",
            "//! x\nconst _: () = assert!(1 < 2);\n",
        );
        assert_eq!((count(&constant), of_constants(&constant)), (1, 1));
        assert_eq!(lines(&source), 5);
        assert_eq!(per_thousand(2, 5), "400.00");
        assert_eq!(per_thousand(37, 100_000), "0.37");
    }
}
