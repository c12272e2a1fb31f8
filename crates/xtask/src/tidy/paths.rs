//! Where numbers of clients and disks are handled, the compiler refuses indexing, and on the paths
//! of requests plain arithmetic as well: the root modules ask clippy for it, and the modules below
//! them inherit it.
//!
//! This check does not look at the modules below: one that allows more again has to give a reason
//! (`allow_attributes_without_reason`).

use super::Finding;
use crate::source::Source;

const ARITHMETIC: &str = "clippy::arithmetic_side_effects";
const INDEXING: &str = "clippy::indexing_slicing";

/// The root modules, and the lints that they deny.
const ROOTS: &[(&str, &[&str])] = &[
    (
        "crates/broker/src/controller/decide.rs",
        &[ARITHMETIC, INDEXING],
    ),
    ("crates/broker/src/dispatch.rs", &[ARITHMETIC, INDEXING]),
    (
        "crates/broker/src/fetch_session.rs",
        &[ARITHMETIC, INDEXING],
    ),
    ("crates/broker/src/fetching.rs", &[ARITHMETIC, INDEXING]),
    ("crates/broker/src/group.rs", &[INDEXING]),
    ("crates/broker/src/handler.rs", &[ARITHMETIC, INDEXING]),
    ("crates/broker/src/purgatory.rs", &[ARITHMETIC, INDEXING]),
    ("crates/broker/src/route.rs", &[ARITHMETIC, INDEXING]),
    ("crates/broker/src/telemetry.rs", &[INDEXING]),
    ("crates/broker/src/transaction.rs", &[INDEXING]),
    ("crates/server/src/connection.rs", &[INDEXING]),
    ("crates/storage/src/checkpoint.rs", &[INDEXING]),
    ("crates/storage/src/journal.rs", &[ARITHMETIC, INDEXING]),
    ("crates/storage/src/log/producer_state.rs", &[INDEXING]),
    ("crates/storage/src/log/recover.rs", &[INDEXING]),
    ("crates/storage/src/segment.rs", &[INDEXING]),
    ("crates/wire/src/lib.rs", &[INDEXING]),
];

/// Returns the findings on all files.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    check_roots(ROOTS, sources)
}

fn check_roots(roots: &[(&str, &[&str])], sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, lints) in roots {
        let Some(source) = sources.iter().find(|source| source.path == *path) else {
            let text = "is named in tidy/paths.rs, and is not there: where is what clients say handled now?";
            findings.push(Finding::new(*path, text));
            continue;
        };
        let attributes: Vec<&str> = denials(&source.code);
        let lacks = |lint: &&&str| !attributes.iter().any(|denied| denied.contains(**lint));
        for lint in lints.iter().filter(lacks) {
            let text = format!("numbers from outside come here: it has to deny {lint}");
            findings.push(Finding::new(*path, text));
        }
    }
    findings
}

/// Returns the content of each `deny(...)`.
fn denials(code: &str) -> Vec<&str> {
    let parts = code.split("deny(").skip(1);
    parts
        .filter_map(|rest| Some(rest.split_once(')')?.0))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{ARITHMETIC, INDEXING, check_roots};
    use crate::tidy::fixture;

    #[track_caller]
    fn found(text: &str, expect: usize) {
        let sources = [fixture("crates/a/src/b.rs", text)];
        let roots: &[(&str, &[&str])] = &[("crates/a/src/b.rs", &[ARITHMETIC, INDEXING])];
        let findings = check_roots(roots, &sources);
        assert_eq!(findings.len(), expect, "{findings:?}");
    }

    #[test]
    fn a_path_of_requests_that_refuses_nothing_is_found() {
        found("fn a() {}\n", 2);
        found(
            "#![cfg_attr(not(test), deny(clippy::indexing_slicing))]\n",
            1,
        );
        found(
            "// deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)\n",
            2,
        );
        found(
            "#![allow(clippy::indexing_slicing, clippy::arithmetic_side_effects)]\n",
            2,
        );
        assert_eq!(check_roots(&[("crates/gone.rs", &[])], &[]).len(), 1);
    }

    #[test]
    fn one_that_does_is_not() {
        found(
            "#![cfg_attr(\n    not(test),\n    deny(\n        clippy::arithmetic_side_effects,\n        clippy::indexing_slicing,\n        reason = \"so\"\n    )\n)]\n",
            0,
        );
    }
}
