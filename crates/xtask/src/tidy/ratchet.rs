//! The list of what is longer than the norm, which may only shrink.
//!
//! One line for each exception: `<lines> <path>[::function]  # reason`. An entry must be exact:
//! what has become shorter is entered at its new length (by `tidy --shrink`), so that it cannot
//! grow back; what meets the norm is removed.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};

use super::Finding;
use super::sizes::OversizedItem;

/// The parsed list.
pub(crate) struct Ratchet {
    lines_max: BTreeMap<String, usize>,
}

impl Ratchet {
    pub(crate) fn parse(text: &str) -> anyhow::Result<Ratchet> {
        let mut lines_max = BTreeMap::new();
        for line in text
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
        {
            let (entry, reason) = line
                .split_once('#')
                .with_context(|| format!("no reason: {line}"))?;
            ensure!(!reason.trim().is_empty(), "no reason: {line}");
            let (lines, name) = entry
                .trim()
                .split_once(' ')
                .with_context(|| format!("not an entry: {line}"))?;
            lines_max.insert(
                name.trim().to_owned(),
                lines.parse().with_context(|| line.to_owned())?,
            );
        }
        Ok(Ratchet { lines_max })
    }

    /// Returns what is too long without an entry, and the entries whose length is not exact.
    pub(crate) fn compare(&self, oversized: &[OversizedItem]) -> Vec<Finding> {
        let mut findings = Vec::new();
        for one in oversized {
            let text = match self.lines_max.get(&one.name) {
                None => format!("{} lines, {} are allowed", one.lines, one.limit),
                Some(max) if one.lines > *max => format!("{} lines, it had {max}", one.lines),
                Some(max) if one.lines < *max => {
                    format!(
                        "{} lines instead of {max}: run `cargo xtask tidy --shrink`",
                        one.lines
                    )
                }
                Some(_) => continue,
            };
            findings.push(Finding::new(&one.name, text));
        }
        for name in self.lines_max.keys() {
            if !oversized.iter().any(|one| one.name == *name) {
                findings.push(Finding::new(
                    name,
                    "needs no exception: run `cargo xtask tidy --shrink`",
                ));
            }
        }
        findings
    }

    /// Returns the file's text with every entry lowered to what was measured.
    pub(crate) fn shrunk(&self, text: &str, oversized: &[OversizedItem]) -> String {
        let mut out = String::new();
        for line in text.lines() {
            let name = line
                .split('#')
                .next()
                .and_then(|entry| entry.trim().split_once(' '))
                .map(|(_, name)| name.trim());
            match name.filter(|name| self.lines_max.contains_key(*name)) {
                None => out.push_str(line),
                Some(name) => {
                    let Some(one) = oversized.iter().find(|one| one.name == name) else {
                        continue;
                    };
                    let lines = one.lines.min(self.lines_max[name]);
                    let tail = line
                        .trim_start()
                        .trim_start_matches(|letter: char| letter.is_ascii_digit());
                    out.push_str(&lines.to_string());
                    out.push_str(tail);
                }
            }
            out.push('\n');
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::{OversizedItem, Ratchet};

    const LIST: &str = "# head\n80 a.rs::f  # a match\n90 b.rs::g  # a table\n";

    fn over(name: &str, lines: usize) -> OversizedItem {
        OversizedItem {
            name: name.to_owned(),
            lines,
            limit: 70,
        }
    }

    #[test]
    fn exact_entries_pass_and_all_others_fail() {
        let ratchet = Ratchet::parse(LIST).unwrap();
        assert_eq!(
            ratchet.compare(&[over("a.rs::f", 80), over("b.rs::g", 90)]),
            []
        );
        for (f, g) in [(81, 90), (79, 90), (80, 91)] {
            assert_eq!(
                ratchet
                    .compare(&[over("a.rs::f", f), over("b.rs::g", g)])
                    .len(),
                1
            );
        }
        assert_eq!(
            ratchet.compare(&[over("a.rs::f", 80)]).len(),
            1,
            "b.rs::g fits now"
        );
        assert_eq!(
            ratchet
                .compare(&[
                    over("c.rs::h", 71),
                    over("a.rs::f", 80),
                    over("b.rs::g", 90)
                ])
                .len(),
            1
        );
    }

    #[test]
    fn shrinking_never_grows() {
        let ratchet = Ratchet::parse(LIST).unwrap();
        let shrunk = ratchet.shrunk(LIST, &[over("a.rs::f", 75), over("b.rs::g", 95)]);
        assert_eq!(
            shrunk,
            "# head\n75 a.rs::f  # a match\n90 b.rs::g  # a table\n"
        );
        assert_eq!(ratchet.shrunk(LIST, &[]), "# head\n");
    }

    #[test]
    fn an_entry_has_a_reason() {
        assert!(Ratchet::parse("80 a.rs::f\n").is_err());
        assert!(Ratchet::parse("80 a.rs::f #\n").is_err());
    }
}
