//! The notes at home: where a log's other segments are, and what was to be removed elsewhere and
//! could not be.
//!
//! `<base>.away` (the note) names the directory that a segment is in: while it exists it decides
//! which copy counts, whether there are several or none. `<base>.owed` (the debts) names
//! directories with files that must not count any more: a copy that could not be removed, or what a
//! compaction was making. A directory pays, by removing them, before it is used. A debt wins over
//! the note. For a segment that is being moved both directories are named, too: there the note
//! wins, and the directory that it does not name owes its copy. So a move takes effect at one
//! moment, with the note. Older versions skip such a line.
//! Invariants: a directory is known by its id; the path is for people, and for notes of older
//! versions, which had only a path. Home is in neither file. A note with invalid text names an
//! unknown directory.
//! Without room for a text, a note is an empty file with the id in its name.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use platform::disk::{Disk, Open, is_unreadable};
use wire::types::{Offset, Uuid, uuid_from_base64, uuid_to_base64};

use super::super::files::remove;
use crate::error::{Error, Result};
use crate::segment::naming::{away_path, away_to_path, owed_path};
use crate::tier::{TierPath, TierTable};

const VERSION: &str = "version: 1";
/// Longest note that is read: a few lines, each with a path.
const FILE_BYTES_MAX: u64 = 64 << 10;
/// Stands for the id of a directory that has none.
const NO_ID: &str = "-";

/// A directory as a note names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::log) struct NotedPlace {
    /// Its id; `None` in notes of older versions.
    pub(in crate::log) id: Option<Uuid>,
    /// Its path when the note was written.
    pub(in crate::log) dir: PathBuf,
}

/// What must no longer count in a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::log) enum Debt {
    /// The files of a segment.
    Copy,
    /// The files of a segment, unless the note names this directory.
    Moving,
    /// What a compaction was making.
    Unmade,
}

/// The debts of one base offset.
pub(in crate::log) type DebtList = Vec<(Debt, NotedPlace)>;

/// All notes of a log.
#[derive(Default, Debug)]
pub(in crate::log) struct Notes {
    pub(in crate::log) away: BTreeMap<Offset, NotedPlace>,
    pub(in crate::log) owed: BTreeMap<Offset, DebtList>,
}

impl NotedPlace {
    /// Returns the place of a path of the table.
    pub(in crate::log) fn of(path: &TierPath) -> Self {
        Self {
            id: path.identity(),
            dir: path.dir().to_path_buf(),
        }
    }

    /// Returns the place of an unknown directory.
    fn unknown(text: &str) -> Self {
        Self {
            id: None,
            dir: PathBuf::from(text),
        }
    }

    /// Returns its id, also where only its path was noted.
    pub(in crate::log) fn id(&self, tiers: Option<&TierTable>) -> Option<Uuid> {
        self.id.or_else(|| tiers?.known_id(&self.dir))
    }

    /// Returns true when it is this path.
    ///
    /// The directories are compared only where one of them has no id.
    pub(in crate::log) fn is(&self, path: &TierPath, tiers: Option<&TierTable>) -> bool {
        match (self.id(tiers), path.identity()) {
            (Some(id), Some(found)) => id == found,
            _ => self.dir == path.dir(),
        }
    }

    /// Returns true when two notes name the same directory, wherever it was.
    ///
    /// The paths are compared only where one of them has no id.
    fn is_same(&self, other: &Self) -> bool {
        match (self.id, other.id) {
            (Some(one), Some(other)) => one == other,
            _ => self.dir == other.dir,
        }
    }

    fn line(&self) -> String {
        let id = self.id.map_or_else(|| NO_ID.to_owned(), uuid_to_base64);
        format!("{id} {}", self.dir.display())
    }

    fn parse(line: &str) -> Self {
        match line.split_once(' ') {
            Some((NO_ID, dir)) => Self::unknown(dir),
            Some((id, dir)) => Self {
                id: uuid_from_base64(id),
                dir: dir.into(),
            },
            None => Self::unknown(line),
        }
    }
}

impl std::fmt::Display for NotedPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.id {
            Some(id) => write!(
                f,
                "directory {} (last at {})",
                uuid_to_base64(id),
                self.dir.display()
            ),
            None => write!(f, "{}", self.dir.display()),
        }
    }
}

/// Reads the note of a segment that is away; `in_name` is the id in the note's name.
pub(super) async fn read_away<D: Disk>(
    disk: &D,
    home: &Path,
    base: Offset,
    in_name: Option<Uuid>,
) -> Result<NotedPlace> {
    if in_name.is_some() {
        return Ok(NotedPlace {
            id: in_name,
            dir: PathBuf::new(),
        });
    }
    let file = away_path(home, base);
    let text = match disk.read_file_within(&file, FILE_BYTES_MAX).await {
        // As for an invalid text: the files of the segment say where it is.
        Err(error) if is_unreadable(&error) => {
            tracing::error!(file = %file.display(), %error, "a note of where a segment is cannot be one");
            String::new()
        }
        read => text_of(&read.map_err(Error::io("read", &file))?),
    };
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    if first == VERSION {
        return Ok(NotedPlace::parse(lines.next().unwrap_or_default()));
    }
    // Older versions wrote only the path.
    Ok(NotedPlace::unknown(first.trim_end()))
}

/// Reads the debts of a base offset; an invalid line is logged and dropped.
pub(super) async fn read_owed<D: Disk>(disk: &D, home: &Path, base: Offset) -> Result<DebtList> {
    let file = owed_path(home, base);
    let read = disk.read_file_within(&file, FILE_BYTES_MAX).await;
    let bytes = read.map_err(Error::io("read", &file));
    let bytes = bytes.inspect_err(|error| {
        if !error.is_exhausted() {
            // Without the file, what was deleted could count again.
            tracing::error!(file = %file.display(), %error,
                "nobody knows what does not count of a segment, and the log stays offline. Put the file back from a backup; or see \
                 that of the files of this base offset only those are left, in all directories, that are to count, and remove it");
        }
    });
    let text = text_of(&bytes?);
    let mut owed = DebtList::new();
    for line in text.lines().skip_while(|line| *line == VERSION) {
        match line.split_once(' ') {
            Some(("copy", place)) => owed.push((Debt::Copy, NotedPlace::parse(place))),
            Some(("moving", place)) => owed.push((Debt::Moving, NotedPlace::parse(place))),
            Some(("unmade", place)) => owed.push((Debt::Unmade, NotedPlace::parse(place))),
            _ => {
                tracing::warn!(file = %file.display(), line, "not something that a directory owes");
            }
        }
    }
    Ok(owed)
}

/// Returns the debts that apply where a note names `noted`, or where there is none.
pub(super) fn owed_beside(noted: Option<&NotedPlace>, read: DebtList) -> DebtList {
    let mut owed = DebtList::new();
    for (owing, place) in read {
        let is_noted = noted.is_some_and(|noted| noted.is_same(&place));
        let owing = match owing {
            Debt::Moving if is_noted => continue,
            // Nothing says which end counts: the segment was deleted.
            Debt::Moving if noted.is_none() => Debt::Copy,
            owing => owing,
        };
        if !owed.contains(&(owing, place.clone())) {
            owed.push((owing, place));
        }
    }
    owed
}

/// Returns true when a place owes its copy.
pub(super) fn owes_copy(owed: &DebtList, place: &NotedPlace) -> bool {
    let is_copy =
        |(owing, other): &(Debt, NotedPlace)| *owing != Debt::Unmade && place.is_same(other);
    owed.iter().any(is_copy)
}

/// Returns true when a place is one end of an unfinished move.
pub(super) fn is_end_of_move(owed: &DebtList, place: &NotedPlace) -> bool {
    let is_end =
        |(owing, other): &(Debt, NotedPlace)| *owing == Debt::Moving && place.is_same(other);
    owed.iter().any(is_end)
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Notes at home that the segment at `base` is in `place`; durable when it returns.
///
/// It removes the notes by name for the directory ids in `others`: a note of an earlier place would
/// count.
pub(in crate::log) async fn write_away<D: Disk>(
    disk: &D,
    home: &Path,
    base: Offset,
    place: &NotedPlace,
    others: &[Uuid],
) -> Result<()> {
    let note = away_path(home, base);
    let bytes = format!("{VERSION}\n{}\n", place.line()).into_bytes();
    let written = disk.replace_file(&note, &bytes).await;
    let written = written.map_err(Error::io("write", &note));
    let in_name = if let (Err(Error::Full { .. }), Some(id)) = (&written, place.id) {
        write_name(disk, home, base, id).await?;
        Some(id)
    } else {
        written?;
        None
    };
    // Only after the new note is durable: a note exists at every moment.
    remove_names(disk, home, base, others, in_name).await
}

/// Removes the notes by name of the segment at `base` for these directories, except `kept`.
///
/// Durable when it returns.
pub(in crate::log) async fn remove_names<D: Disk>(
    disk: &D,
    home: &Path,
    base: Offset,
    ids: &[Uuid],
    kept: Option<Uuid>,
) -> Result<()> {
    let mut removed = false;
    for id in ids.iter().filter(|id| Some(**id) != kept) {
        let note = away_to_path(home, base, *id);
        match disk.remove_file(&note).await {
            Ok(()) => removed = true,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io("remove", &note)(error)),
        }
    }
    if removed {
        sync(disk, home).await?;
    }
    Ok(())
}

async fn write_name<D: Disk>(disk: &D, home: &Path, base: Offset, id: Uuid) -> Result<()> {
    // A name alone needs no room, or less.
    let note = away_to_path(home, base, id);
    let made = disk.open(&note, Open::Create).await;
    match made {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(Error::io("create", &note)(error));
        }
        _ => {}
    }
    sync(disk, home).await
}

/// Removes the notes that the segment at `base` is away, also the one with `id` in its name.
///
/// That one goes last, and counts until then: a text beside it is of an earlier place.
pub(in crate::log) async fn remove_away<D: Disk>(
    disk: &D,
    home: &Path,
    base: Offset,
    id: Option<Uuid>,
) -> Result<()> {
    let named = match id.map(|id| away_to_path(home, base, id)) {
        Some(name) => match disk.open(&name, Open::Read).await {
            Ok(_) => Some(name),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(Error::io("open", &name)(error)),
        },
        None => None,
    };
    remove(disk, &away_path(home, base)).await?;
    if let Some(name) = named {
        sync(disk, home).await?;
        remove(disk, &name).await?;
    }
    Ok(())
}

/// Writes the debts of a base offset, or removes the file when there are none; durable when it
/// returns.
pub(in crate::log) async fn write_owed<D: Disk>(
    disk: &D,
    home: &Path,
    base: Offset,
    owed: &DebtList,
) -> Result<()> {
    let file = owed_path(home, base);
    if owed.is_empty() {
        remove(disk, &file).await?;
        return sync(disk, home).await;
    }
    let mut text = format!("{VERSION}\n");
    for (owing, place) in owed {
        let word = match owing {
            Debt::Copy => "copy",
            Debt::Moving => "moving",
            Debt::Unmade => "unmade",
        };
        text.extend([word, " ", &place.line(), "\n"]);
    }
    let written = disk.replace_file(&file, &text.into_bytes()).await;
    written.map_err(Error::io("write", &file))
}

async fn sync<D: Disk>(disk: &D, home: &Path) -> Result<()> {
    let synced = disk.sync_dir(home).await;
    synced.map_err(Error::dir_sync(home))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_was_written() {
        let known = NotedPlace {
            id: Some(Uuid::from_u128(7)),
            dir: "/mnt/a disk".into(),
        };
        let unknown = NotedPlace::unknown("/mnt/a disk");
        for place in [known, unknown] {
            assert_eq!(NotedPlace::parse(&place.line()), place);
        }
        for nonsense in ["", "x", "!! /a"] {
            assert_eq!(NotedPlace::parse(nonsense).id, None, "{nonsense}");
        }
    }
    #[test]
    fn of_a_move_only_the_end_owes_its_copy_that_no_note_names() {
        let place = |id: u128, dir: &str| NotedPlace {
            id: Some(Uuid::from_u128(id)),
            dir: dir.into(),
        };
        let (from, to) = (place(1, "/a"), place(2, "/b"));
        let moving = vec![
            (Debt::Moving, from.clone()),
            (Debt::Unmade, from.clone()),
            (Debt::Moving, to.clone()),
            (Debt::Copy, to.clone()),
        ];
        let copy = |place: &NotedPlace| (Debt::Copy, place.clone());
        let end = |place: &NotedPlace| (Debt::Moving, place.clone());
        let unmade = (Debt::Unmade, from.clone());
        let owed = |noted: Option<&NotedPlace>| owed_beside(noted, moving.clone());
        assert_eq!(owed(None), [copy(&from), unmade.clone(), copy(&to)]);
        assert_eq!(owed(Some(&from)), [unmade.clone(), end(&to), copy(&to)]);
        // A certain debt stays. The directory has moved, or the note has no room for its path.
        for dir in ["/c", ""] {
            let noted = place(2, dir);
            assert_eq!(owed(Some(&noted)), [end(&from), unmade.clone(), copy(&to)]);
            assert!(owes_copy(&owed(Some(&noted)), &noted));
        }
        let moving = vec![(Debt::Moving, from), (Debt::Moving, to)];
        let noted = place(2, "");
        assert_eq!(owed_beside(Some(&noted), moving), [end(&place(1, "/a"))]);
    }
}
