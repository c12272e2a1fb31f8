//! What `meta.properties` says of the journal of its log directory: the rings that a start reads,
//! and where they are.
//!
//! Invariant: a ring that is not named does not count, whatever it holds; one that is named is
//! read, or the directory is not used. Layout: `docs/formats/journal.md`.
//! It does not read rings (`crate::journal`), or say when the mark is written.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::MalformedFileError;
use super::properties::{Entry, encode_entry};

/// Where the rings are; empty for the log directory itself.
const DIR: &str = "journal.dir";

/// Which rings there are.
const RINGS: &str = "journal.rings";

/// The rings of a log directory that a start reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JournalMark {
    /// Where they are; `None` for the log directory itself.
    pub dir: Option<PathBuf>,
    /// The rings, one at least, each of another shard. Bounded: the shards of a process.
    pub rings: Vec<RingMark>,
}

/// One ring, in one use of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingMark {
    /// The shard that writes it.
    pub shard: u32,
    /// A generation that the headers of this use are not below.
    pub generation: u64,
    /// What tells this use from others.
    pub fingerprint: u32,
}

impl JournalMark {
    /// Returns where the rings of the log directory `dir` are.
    pub fn rings_dir<'a>(&'a self, dir: &'a Path) -> &'a Path {
        self.dir.as_deref().unwrap_or(dir)
    }

    /// Reads the mark of a file; `line` is named if a key is missing.
    pub(super) fn parse(
        file: &Path,
        entries: &[Entry],
        line: usize,
    ) -> Result<Self, MalformedFileError> {
        let find = |key: &str| entries.iter().find(|entry| entry.key == key);
        let wrong = |line, found: &str| {
            MalformedFileError::new(file, line, "the rings of a journal", found)
        };
        let Some(listed) = find(RINGS) else {
            return Err(wrong(line, "no such key"));
        };
        let mut rings: Vec<RingMark> = Vec::new();
        let mut shards = BTreeSet::new();
        for text in listed.value.split(',') {
            let ring = RingMark::parse(text).ok_or_else(|| wrong(listed.line, text))?;
            if !shards.insert(ring.shard) {
                return Err(wrong(listed.line, text));
            }
            rings.push(ring);
        }
        let dir = find(DIR).map(|entry| entry.value.as_str());
        let dir = dir.filter(|dir| !dir.is_empty()).map(PathBuf::from);
        Ok(Self { dir, rings })
    }

    /// Returns the lines of the mark.
    pub(super) fn encode(&self) -> String {
        let dir = self.dir.as_deref().map(Path::to_string_lossy);
        let rings: Vec<_> = self.rings.iter().map(RingMark::text).collect();
        let mut text = encode_entry(DIR, &dir.unwrap_or_default());
        text.push_str(&encode_entry(RINGS, &rings.join(",")));
        text
    }
}

impl RingMark {
    fn text(&self) -> String {
        let Self {
            shard,
            generation,
            fingerprint,
        } = self;
        format!("{shard}/{generation}/{fingerprint:08x}")
    }

    fn parse(text: &str) -> Option<Self> {
        let (shard, rest) = text.split_once('/')?;
        let (generation, fingerprint) = rest.split_once('/')?;
        let ring = Self {
            shard: shard.parse().ok()?,
            generation: generation.parse().ok()?,
            fingerprint: u32::from_str_radix(fingerprint, 16).ok()?,
        };
        // One text for each ring: what is read is what would be written.
        (ring.text() == text).then_some(ring)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_has_one_text() {
        let ring = RingMark {
            shard: 3,
            generation: 17,
            fingerprint: 0xab,
        };
        assert_eq!(ring.text(), "3/17/000000ab");
        assert_eq!(RingMark::parse("3/17/000000ab"), Some(ring));
        for other in [
            "",
            "3/17",
            "3/17/",
            "3/17/ab",
            "3/17/000000AB",
            "+3/17/000000ab",
            "3/017/000000ab",
            "3/-1/000000ab",
            "3/17/000000ab/",
            " 3/17/000000ab",
        ] {
            assert_eq!(RingMark::parse(other), None, "{other:?}");
        }
    }
}
