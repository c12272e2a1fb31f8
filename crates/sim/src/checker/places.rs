//! The places of a log's segments before it is opened, from its files and notes: which segments
//! must be served although a path is away.
//!
//! In doubt the check requires nothing: a segment must be served only if no other copy of it could
//! count.

use std::collections::BTreeMap;
use std::path::Path;

use platform::disk::Disk;
use platform::sim::SimDisk;
use wire::types::Offset;

use crate::tiers::{PathAbsence, SlowPath};

/// The places of the segments' files.
#[derive(Default, Debug)]
pub(crate) struct Places {
    away: Vec<SlowPath>,
    segments: BTreeMap<Offset, SegmentPlace>,
}

/// The files of one base offset; slow paths are named by their directories.
#[derive(Default, Debug)]
struct SegmentPlace {
    is_home: bool,
    copies: Vec<&'static str>,
    noted: Option<&'static str>,
    owed: Vec<&'static str>,
}

impl Places {
    /// Reads the places from a healthy disk.
    pub(crate) async fn look(disk: &SimDisk, home: &Path, paths: &[SlowPath]) -> Self {
        let mut found = Self {
            away: paths.to_vec(),
            segments: BTreeMap::new(),
        };
        found.look_home(disk, home, paths).await;
        let name = home.file_name().unwrap_or_default();
        for path in paths {
            let folder = Path::new(path.dir).join(name);
            for entry in disk.list(&folder).await.unwrap_or_default() {
                if let Some((base, "log")) = parts(&entry.name) {
                    found.at(base).copies.push(path.dir);
                }
            }
        }
        found
    }

    async fn look_home(&mut self, disk: &SimDisk, home: &Path, paths: &[SlowPath]) {
        let named = |text: &str| {
            let mut dirs = paths.iter().map(|path| path.dir);
            dirs.find(|dir| text.trim_end().ends_with(&format!(" {dir}")))
        };
        for entry in disk.list(home).await.unwrap_or_default() {
            let Some((base, kind)) = parts(&entry.name) else {
                continue;
            };
            let bytes = disk.contents(&home.join(&entry.name)).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes);
            let place = self.at(base);
            match kind {
                "log" => place.is_home = entry.len > 0,
                "owed" => {
                    let copies = text.lines().filter(|line| line.starts_with("copy "));
                    place.owed.extend(copies.filter_map(named));
                }
                // A note with an id in its name takes precedence.
                "away" => place.noted = place.noted.or(named(&text)),
                kind => {
                    let by_id = paths.iter().find(|path| path.note == kind);
                    place.noted = by_id.map(|path| path.dir).or(place.noted);
                }
            }
        }
    }

    fn at(&mut self, base: Offset) -> &mut SegmentPlace {
        self.segments.entry(base).or_default()
    }

    fn away(&self, dir: &str) -> PathAbsence {
        let path = self.away.iter().find(|path| path.dir == dir);
        path.map_or(PathAbsence::No, |path| path.away)
    }

    /// Returns true when the record at `offset` must be served, whatever path is away.
    pub(crate) fn serves(&self, offset: Offset) -> bool {
        let place = self.segments.range(..=offset).next_back();
        place.is_some_and(|(_, place)| self.counts(place))
    }

    fn counts(&self, place: &SegmentPlace) -> bool {
        match place.noted() {
            Some(dir) => self.away(dir) == PathAbsence::No && place.copies.contains(&dir),
            None => place.is_home && !self.may_hide(place),
        }
    }

    /// Returns true when a copy on a read-only path may count, so that the segment is offline with
    /// that path.
    fn may_hide(&self, place: &SegmentPlace) -> bool {
        let mut copies = place.copies.iter();
        copies.any(|dir| self.away(dir) == PathAbsence::ReadOnly && !place.owed.contains(dir))
    }

    /// Returns true when the log need not open, because a segment may be on a path that is away.
    pub(crate) fn may_be_offline(&self) -> bool {
        let is_away = |place: &SegmentPlace| {
            let noted = place.noted();
            noted.is_some_and(|dir| self.away(dir) != PathAbsence::No) || self.may_hide(place)
        };
        self.segments.values().any(is_away)
    }

    /// Returns the base offset of the next segment after `offset`.
    pub(crate) fn next_base(&self, offset: Offset) -> Option<Offset> {
        let next = self.segments.range(offset.plus(1)..).next();
        next.map(|(base, _)| *base)
    }
}

impl SegmentPlace {
    /// Returns the noted path, unless the copy there is owed.
    fn noted(&self) -> Option<&'static str> {
        self.noted.filter(|dir| !self.owed.contains(dir))
    }
}

/// Returns the base offset and the rest of a file's name.
fn parts(name: &str) -> Option<(Offset, &str)> {
    let (base, kind) = name.split_once('.')?;
    Some((Offset(base.parse().ok()?), kind))
}
