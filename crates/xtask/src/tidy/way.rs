//! Checks the page on the path of a Produce request.
//!
//! The path is as the page describes it, and no longer than it claims.

use super::Finding;
use crate::source::Source;
use crate::structure::path::{self, PAGE};

/// Returns the findings on `page`, which is the text of [`PAGE`].
pub(super) fn check(page: &str, sources: &[Source]) -> anyhow::Result<Vec<Finding>> {
    let steps = path::parse(page)?;
    let faults = path::faults(&steps, sources).into_iter();
    let mut findings: Vec<_> = faults
        .map(|(file, text)| Finding::new(file, text))
        .collect();
    let measured = path::figures(&steps, sources).to_string();
    let claimed = path::claimed(page);
    if measured != claimed {
        let text = format!(
            "it is {measured}, and the page says {claimed}: only what is better is entered"
        );
        findings.push(Finding::new(PAGE, text));
    }
    Ok(findings)
}
