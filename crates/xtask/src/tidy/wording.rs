//! A ratchet on wording: fewer words that hide the actor of a sentence, and fewer types whose name
//! does not say what they hold.
//!
//! `wording.txt` has one line for each crate, and one for the pages:
//! `<crate | pages> <words in comments> <names of types>`. `cargo xtask words` prints every place.
//! Decisions (`docs/adr`) and the changelog stay as they were written, so they do not count.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, ensure};

use super::words::{declared, is_recorded};
use super::{Finding, line_of};
use crate::source::Source;

/// Words for which a noun would say more: the client, the operator, "again", "without".
const WORDS: &[&str] = &[
    "nobody", "somebody", "whoever", "anew", "is told", "are told", "of which", "of whom",
    "so many",
];

/// Bare participles and other names that fit any type; a qualified noun fits one.
#[rustfmt::skip]
const NAMES: &[&str] = &[
    "About", "Absorbs", "Accepted", "Acknowledged", "Ahead", "All", "Allowed", "Alone", "Answered",
    "Answering", "Appended", "Applied", "Around", "Arrived", "As", "Asked", "Asks", "At",
    "Available", "Away", "Became", "Before", "Begun", "Behind", "Beside", "Better", "Beyond",
    "Blamed", "Busy", "Came", "Changed", "Changing", "Checked", "Checking", "Chosen", "Closest",
    "Cold", "Compared", "Connected", "Counted", "Counting", "Current", "Described", "Doing", "Done",
    "Dying", "Effective", "Elsewhere", "Ended", "Everything", "Exported", "Failed", "Fetched",
    "First", "Following", "Found", "Free", "From", "Full", "Gathered", "Gathering", "Given", "Goes",
    "Gone", "Growing", "Guarded", "Headed", "Heeded", "Hidden", "How", "Idle", "Infeasible",
    "Initial", "Inner", "Inspected", "Judged", "Kept", "Keyed", "Known", "Largest", "Lately",
    "Limited", "Listed", "Listening", "Live", "Lost", "Made", "Measured", "Moved", "Named",
    "Needed", "Newest", "Next", "Now", "Of", "Older", "On", "Only", "Out", "Outcome", "Outer",
    "Over", "Oversized", "Per", "Place", "Planned", "Prepared", "Priced", "Produced", "Promised",
    "Proven", "Quoted", "Raw", "Received", "Recorded", "Refused", "Rejected", "Relaxed", "Reserved",
    "Resolved", "Running", "Said", "Scaled", "Seen", "Seldom", "Sent", "Serial", "Settled",
    "Shared", "Shown", "Silent", "Simulated", "Since", "Slow", "Sparse", "Standing", "Stands",
    "Started", "State", "Stay", "Stored", "Stuck", "Taken", "Takes", "Then", "Told", "Torn",
    "Trimmed", "Undone", "Unfinished", "Unlanded", "Unlike", "Unnamed", "Unreadable", "Unsent",
    "Unserved", "Unsound", "Unstable", "Updating", "Upgraded", "Verified", "Versioned", "Waited",
    "Waiting", "Wanted", "Watched", "Way", "Weighed", "What", "When", "Which", "Whose", "Woken",
    "Written", "Wrong",
];

/// A word or a name of these lists, where it stands.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Hit {
    /// A crate, or [`PAGES`].
    part: String,
    /// `file:line`.
    place: String,
    what: &'static str,
    is_name: bool,
}

impl Hit {
    /// Returns the place and the word, as one line.
    pub(super) fn line(&self) -> String {
        let kind = if self.is_name { "type " } else { "" };
        format!("{}: {kind}{}", self.place, self.what)
    }
}

/// The part to which all pages belong.
const PAGES: &str = "pages";

/// Words and names of one part.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Counts {
    words: usize,
    names: usize,
}

pub(super) type ByPart = BTreeMap<String, Counts>;

/// Returns whether a file is a page that counts.
pub(super) fn is_page(path: &str) -> bool {
    path.ends_with(".md")
        && path != "CHANGELOG.md"
        && !path.starts_with("docs/adr/")
        && !is_recorded(path)
}

/// Returns every hit, in the order of the files; `pages` are paths with their texts.
pub(super) fn hits(sources: &[Source], pages: &[(String, String)]) -> Vec<Hit> {
    let mut hits = Vec::new();
    for source in sources {
        let part = source.path.split('/').nth(1).unwrap_or_default();
        let comments: Vec<&str> = source.text.lines().map(comment).collect();
        let words = in_lines(&comments).map(|(line, word)| (line, word, false));
        let found = words.chain(names(source));
        hits.extend(found.map(|found| hit(part, &source.path, found)));
    }
    for (path, text) in pages {
        let lines: Vec<&str> = text.lines().collect();
        let found = in_lines(&lines).map(|(line, word)| (line, word, false));
        hits.extend(found.map(|found| hit(PAGES, path, found)));
    }
    hits
}

fn hit(part: &str, path: &str, (line, what, is_name): (usize, &'static str, bool)) -> Hit {
    Hit {
        part: part.to_owned(),
        place: format!("{path}:{line}"),
        what,
        is_name,
    }
}

/// Returns the text of a line that is a comment; other lines have none.
fn comment(line: &str) -> &str {
    let text = line.trim_start();
    if text.starts_with("//") {
        text.trim_start_matches(['/', '!'])
    } else {
        ""
    }
}

/// Returns the words of the list with their lines, from 1; a phrase may end in the next line.
fn in_lines<'a>(lines: &'a [&'a str]) -> impl Iterator<Item = (usize, &'static str)> + 'a {
    (0..lines.len()).flat_map(move |at| {
        let line = lines[at].trim();
        let next = lines.get(at + 1).map_or("", |next| next.trim());
        let text = format!("{line} {next}").to_ascii_lowercase();
        let end = line.len();
        WORDS.iter().flat_map(move |word| {
            let starts = text.match_indices(word).map(|(start, _)| start);
            let whole = starts.filter(|start| *start < end && is_whole(&text, *start, word.len()));
            vec![(at + 1, *word); whole.count()]
        })
    })
}

fn is_whole(text: &str, start: usize, length: usize) -> bool {
    let in_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let before = text[..start].chars().next_back();
    let after = text[start + length..].chars().next();
    !before.is_some_and(in_word) && !after.is_some_and(in_word)
}

/// Returns the types of a file whose names are in the list, with their lines.
fn names(source: &Source) -> impl Iterator<Item = (usize, &'static str, bool)> {
    ["struct ", "enum ", "trait ", "type ", "union "]
        .into_iter()
        .flat_map(move |keyword| declared(&source.code, keyword))
        .filter_map(move |(at, name)| {
            let name = NAMES.iter().find(|known| **known == name)?;
            Some((line_of(&source.code, at), *name, true))
        })
}

/// Returns the counts of each part; one without a hit has zeros.
pub(super) fn count(sources: &[Source], hits: &[Hit]) -> ByPart {
    let parts = sources
        .iter()
        .filter_map(|source| source.path.split('/').nth(1));
    let parts = parts.chain([PAGES]);
    let mut counts: ByPart = parts
        .map(|part| (part.to_owned(), Counts::default()))
        .collect();
    for hit in hits {
        let counts = counts.entry(hit.part.clone()).or_default();
        if hit.is_name {
            counts.names += 1;
        } else {
            counts.words += 1;
        }
    }
    counts
}

pub(super) fn parse(text: &str) -> anyhow::Result<ByPart> {
    let mut known = ByPart::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split(' ').collect();
        ensure!(fields.len() == 3, "not a line of three: {line}");
        let number = |at: usize| fields[at].parse().with_context(|| line.to_owned());
        let counts = Counts {
            words: number(1)?,
            names: number(2)?,
        };
        known.insert(fields[0].to_owned(), counts);
    }
    Ok(known)
}

/// Returns what has become more than recorded.
pub(super) fn compare(known: &ByPart, counted: &ByPart) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (part, now) in counted {
        let before = known.get(part).copied().unwrap_or_default();
        let more = [
            (now.words, before.words, "words that hide the actor"),
            (
                now.names,
                before.names,
                "types with a name that says nothing",
            ),
        ];
        for (now, before, what) in more.into_iter().filter(|(now, before, _)| now > before) {
            let text = format!("{now} {what}, it had {before}: `cargo xtask words` prints them");
            findings.push(Finding::new(part, text));
        }
    }
    findings
}

/// Returns the text with the lower counts; none becomes higher.
pub(super) fn shrunk(text: &str, known: &ByPart, counted: &ByPart) -> String {
    let heads = text.lines().filter(|line| line.starts_with('#'));
    let mut out: String = heads.fold(String::new(), |out, line| out + line + "\n");
    for (part, now) in counted {
        let before = known.get(part).unwrap_or(now);
        let words = before.words.min(now.words);
        let names = before.names.min(now.names);
        let _ = writeln!(out, "{part} {words} {names}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{Hit, compare, count, hits, is_page, parse, shrunk};
    use crate::tidy::fixture;

    fn lines(hits: &[Hit]) -> Vec<String> {
        hits.iter().map(Hit::line).collect()
    }

    #[test]
    fn words_of_comments_and_pages_count_also_across_a_line_and_code_does_not() {
        let text = [
            "//! Nobody. Anew: renewed.",
            "fn nobody() {} // at the end of a line",
            "/// The client is",
            "/// told.",
            "const A: &str = \"whoever\";",
            "// of",
            "struct Which;",
        ];
        let sources = [fixture("crates/a/src/lib.rs", &text.join("\n"))];
        let pages = [("README.md".to_owned(), "So many\npages\n".to_owned())];
        assert_eq!(
            lines(&hits(&sources, &pages)),
            [
                "crates/a/src/lib.rs:1: nobody",
                "crates/a/src/lib.rs:1: anew",
                "crates/a/src/lib.rs:3: is told",
                "crates/a/src/lib.rs:7: type Which",
                "README.md:1: so many",
            ]
        );
    }

    #[test]
    fn decisions_the_changelog_and_recorded_texts_are_no_pages_that_count() {
        assert!(is_page("docs/cli.md") && is_page("README.md"));
        for path in [
            "CHANGELOG.md",
            "docs/adr/0001-x.md",
            "a/golden/b.md",
            "a.rs",
        ] {
            assert!(!is_page(path), "{path}");
        }
    }

    #[test]
    fn more_is_found_and_less_is_entered() {
        let sources = [fixture(
            "crates/a/src/lib.rs",
            "//! Nobody.\nstruct Told;\n",
        )];
        let now = count(&sources, &hits(&sources, &[]));
        let exact = "# head\na 1 1\npages 0 0\n";
        for (text, findings) in [(exact, 0), ("a 0 1\n", 1), ("a 0 0\n", 2), ("a 2 9\n", 0)] {
            assert_eq!(
                compare(&parse(text).unwrap(), &now).len(),
                findings,
                "{text}"
            );
        }
        let high = "# head\na 3 4\npages 2 0\n";
        assert_eq!(shrunk(high, &parse(high).unwrap(), &now), exact);
        let low = "# head\na 0 1\npages 0 0\n";
        assert_eq!(shrunk(low, &parse(low).unwrap(), &now), low);
        assert!(parse("a 1\n").is_err() && parse("a 1 x\n").is_err());
    }
}
