//! A ratchet on the structure of the code: fewer and smaller circles of files, more asserts.
//!
//! `structure.txt` has one line for each crate:
//! `<crate> <asserts per 1,000 lines> <sizes of its circles | ->`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, ensure};

use super::Finding;
use crate::source::Source;
use crate::structure::{asserts, by_crate, circles};

/// The figures of one crate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Figures {
    /// Asserts per 10,000 lines, which are the tenths in the file.
    asserts: usize,
    circles: Vec<usize>,
}

pub(super) type ByCrate = BTreeMap<String, Figures>;

pub(super) fn measure(sources: &[Source]) -> ByCrate {
    let of = |(name, sources): (&str, Vec<&Source>)| {
        let lines: usize = sources.iter().map(|source| asserts::lines(source)).sum();
        let count: usize = sources.iter().map(|source| asserts::count(source)).sum();
        let figures = Figures {
            asserts: (count * 10_000).checked_div(lines).unwrap_or(0),
            circles: circles(&sources).iter().map(Vec::len).collect(),
        };
        (name.to_owned(), figures)
    };
    by_crate(sources).into_iter().map(of).collect()
}

pub(super) fn parse(text: &str) -> anyhow::Result<ByCrate> {
    let mut known = ByCrate::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split(' ').collect();
        let [name, asserts, circles] = fields[..] else {
            anyhow::bail!("not a line of three: {line}");
        };
        let (whole, tenth) = asserts.split_once('.').with_context(|| line.to_owned())?;
        ensure!(tenth.len() == 1, "one decimal: {line}");
        let asserts = whole.parse::<usize>()? * 10 + tenth.parse::<usize>()?;
        let sizes = circles.split(',').filter(|size| *size != "-");
        let sizes: Result<Vec<usize>, _> = sizes.map(str::parse).collect();
        let circles = sizes.with_context(|| line.to_owned())?;
        known.insert(name.to_owned(), Figures { asserts, circles });
    }
    Ok(known)
}

/// Returns what has become worse than recorded.
pub(super) fn compare(known: &ByCrate, measured: &ByCrate) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, now) in measured {
        let Some(before) = known.get(name) else {
            let text = "not in structure.txt: run `cargo xtask tidy --shrink`";
            findings.push(Finding::new(name, text));
            continue;
        };
        let grew =
            |(at, size): (usize, &usize)| before.circles.get(at).is_none_or(|before| size > before);
        if now.circles.iter().enumerate().any(grew) {
            let text = format!(
                "circles of {:?} files, it had {:?}: `cargo xtask structure` names them",
                now.circles, before.circles
            );
            findings.push(Finding::new(name, text));
        }
        if now.asserts < before.asserts {
            let text = format!(
                "{}.{} asserts per 1,000 lines, it had {}.{}",
                now.asserts / 10,
                now.asserts % 10,
                before.asserts / 10,
                before.asserts % 10
            );
            findings.push(Finding::new(name, text));
        }
    }
    findings
}

/// Returns the text with the improvements; no figure becomes worse.
pub(super) fn shrunk(text: &str, known: &ByCrate, measured: &ByCrate) -> String {
    let heads = text.lines().filter(|line| line.starts_with('#'));
    let mut out: String = heads.fold(String::new(), |out, line| out + line + "\n");
    for (name, now) in measured {
        let before = known.get(name).unwrap_or(now);
        let is_better = compare(known, &ByCrate::from([(name.clone(), now.clone())])).is_empty();
        let circles = if is_better {
            &now.circles
        } else {
            &before.circles
        };
        let sizes: Vec<String> = circles.iter().map(usize::to_string).collect();
        let sizes = if sizes.is_empty() {
            "-".to_owned()
        } else {
            sizes.join(",")
        };
        let asserts = before.asserts.max(now.asserts);
        let _ = writeln!(out, "{name} {}.{} {sizes}", asserts / 10, asserts % 10);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{compare, parse, shrunk};

    const KNOWN: &str = "# head\na 1.5 7,3\nb 0.0 -\n";

    #[test]
    fn what_becomes_worse_is_found_and_what_becomes_better_is_entered() {
        let known = parse(KNOWN).unwrap();
        for worse in [
            "a 1.5 8\n",
            "a 1.5 7,3,2\n",
            "a 1.5 7,4\n",
            "a 1.4 7\n",
            "c 0.0 -\n",
        ] {
            let measured = parse(worse).unwrap();
            assert_eq!(compare(&known, &measured).len(), 1, "{worse}");
        }
        let better = parse("a 2.0 6\nb 0.0 -\n").unwrap();
        assert!(compare(&known, &better).is_empty());
        assert_eq!(shrunk(KNOWN, &known, &better), "# head\na 2.0 6\nb 0.0 -\n");
        let worse = parse("a 1.0 9\nb 0.0 -\n").unwrap();
        assert_eq!(shrunk(KNOWN, &known, &worse), KNOWN);
    }
}
