//! The outputs of an answer: text, the table of published figures, and the files of a plan.

pub mod experiment;
pub mod properties;
pub mod report;
pub mod text;
pub mod topics;
pub mod tune;

use crate::answer::Plan;

/// Returns the files of a plan as (name, content); without an answer, only those that show that
/// there is none.
pub fn files(plan: &Plan) -> Vec<(&'static str, String)> {
    let mut files = vec![
        ("plan.json", json(plan)),
        ("report.html", report::page(plan)),
    ];
    if let Some(chosen) = &plan.chosen {
        files.push(("server.properties", properties::file(plan, chosen)));
        files.push(("topics.sh", topics::script(plan, chosen)));
        files.push(("verify.toml", experiment::file(plan, chosen, 1.0)));
        files.push(("tune.toml", tune::hint(plan, chosen)));
    }
    files
}

/// Returns the whole plan as JSON. Infinite values are `null`.
pub fn json(plan: &Plan) -> String {
    // A struct of numbers and text always serializes to JSON.
    let mut text = serde_json::to_string_pretty(plan).unwrap_or_default();
    text.push('\n');
    text
}

/// Formats a whole number of bytes, as settings need it.
pub(crate) fn whole(value: f64) -> String {
    format!("{:.0}", value.max(0.0).floor())
}

/// Returns a text for one line of comment: without control characters, it cannot end the comment.
pub(crate) fn comment(text: &str) -> String {
    text.chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect()
}

/// Returns a valid topic name: letters, digits, `.`, `_` and `-`.
pub(crate) fn topic_name(name: &str) -> String {
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    let named: String = name
        .chars()
        .map(|letter| if is_allowed(letter) { letter } else { '-' })
        .take(200)
        .collect();
    // A program would parse a leading hyphen as an option.
    match named.trim_start_matches('-') {
        "" | "." | ".." => "load".to_owned(),
        named => named.to_owned(),
    }
}

/// Returns a valid directory name: lower-case letters, digits and `-`.
pub fn directory_name(name: &str) -> String {
    let plain = |letter: char| {
        if letter.is_ascii_alphanumeric() {
            letter.to_ascii_lowercase()
        } else {
            '-'
        }
    };
    let named: String = name.chars().map(plain).take(100).collect();
    match named.trim_start_matches('-') {
        "" => "variant".to_owned(),
        named => named.to_owned(),
    }
}

#[cfg(test)]
mod tests;
