//! Loads a sealed segment's indexes from their files, or rebuilds them from its batches when the
//! files are missing or invalid.
//!
//! A rebuilt index equals the lost one except for the density of its entries.
//! It does not rebuild the index of aborted transactions.

use platform::Platform;
use platform::disk::{Disk, SMALL_FILE_BYTES_MAX, is_unreadable};
use wire::batch::BatchHeader;
use wire::types::{LeaderEpoch, Offset};

use super::looked::LookedFiles;
use super::naming::Role;
use super::scan::{ExpectedBatch, NO_BATCH, Scan};
use super::stamps::WRONG_OFFSET;
use super::{File, LoadedIndexes, Segment};
use crate::error::{Error, Result};
use crate::log::indexes::{IndexOptions, Indexes};
use crate::log::offset_index::OffsetIndex;
use crate::log::time_index::TimeIndex;
use crate::log::txn_index::TxnIndex;

/// Bytes of one read while walking over headers.
const WINDOW_BYTES: usize = 64 << 10;

/// Reads the indexes of `segment`, which a look at its folder may have found already; returns
/// `None` when there are none that fit its data.
pub(crate) async fn indexes_of<P: Platform>(
    disk: &P::Disk,
    segment: &Segment<P>,
    options: IndexOptions,
    look: Option<&LookedFiles>,
) -> Result<Option<LoadedIndexes>> {
    let offsets = read(disk, segment, Role::OffsetIndex, options, look).await?;
    let times = read(disk, segment, Role::TimeIndex, options, look).await?;
    let aborted = read(disk, segment, Role::TxnIndex, options, look).await?;
    let (Some(offsets), Some(times)) = (offsets, times) else {
        return Ok(None);
    };
    if is_lost(segment, aborted.as_ref()) {
        let file = segment.path(Role::TxnIndex);
        tracing::warn!(file = %file.display(), "an index of aborted transactions is missing and will be rebuilt");
        return Ok(None);
    }
    // A missing file means no aborted transactions; a lost file was detected above.
    let aborted = aborted.unwrap_or_default();
    let parsed =
        OffsetIndex::parse(segment.base, options.bytes_max, &offsets).and_then(|offsets| {
            let times = TimeIndex::parse(segment.base, options.bytes_max, &times)?;
            let aborted = TxnIndex::parse(segment.base, &aborted)?;
            Ok((offsets, times, aborted))
        });
    let (offsets, times, aborted) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => {
            let file = segment.path(Role::Log);
            tracing::warn!(file = %file.display(), %error, "an index is damaged and will be rebuilt");
            return Ok(None);
        }
    };
    let size = segment.size();
    let last = offsets.last();
    // Kafka leaves the time index of a short segment empty when it rolls it after a restart.
    let no_times = times.entry_count() == 0 && size > 0;
    if (u64::from(last.position) >= size && size > 0) || no_times {
        return Ok(None);
    }
    let noted = aborted.entries().last().map(|txn| txn.last_offset);
    let told = [Some(last.offset), Some(times.last().offset), noted];
    let is_beyond = |offset: &Offset| *offset > segment.base && *offset >= segment.next();
    if segment.is_sealed() && told.iter().flatten().any(is_beyond) {
        let file = segment.path(Role::Log);
        tracing::warn!(file = %file.display(), "an index is of another segment and will be rebuilt");
        return Ok(None);
    }
    let indexes = Indexes::restore(offsets, times, options.interval_bytes);
    Ok(Some(LoadedIndexes { indexes, aborted }))
}

/// Returns true when an index of aborted transactions existed and is now missing.
fn is_lost<P: Platform>(segment: &Segment<P>, aborted: Option<&Vec<u8>>) -> bool {
    segment.notes_aborted() && aborted.is_none_or(Vec::is_empty)
}

async fn read<P: Platform>(
    disk: &P::Disk,
    segment: &Segment<P>,
    role: Role,
    options: IndexOptions,
    look: Option<&LookedFiles>,
) -> Result<Option<Vec<u8>>> {
    let bytes_max = match role {
        // Each entry stands for a marker in the data, which is longer.
        Role::TxnIndex => segment.size(),
        _ => u64::from(options.bytes_max).max(SMALL_FILE_BYTES_MAX),
    };
    read_within(disk, segment, role, bytes_max, look).await
}

async fn read_within<P: Platform>(
    disk: &P::Disk,
    segment: &Segment<P>,
    role: Role,
    bytes_max: u64,
    look: Option<&LookedFiles>,
) -> Result<Option<Vec<u8>>> {
    let path = segment.path(role);
    let read = match look {
        Some(look) => look.read(disk, &path, bytes_max).await,
        None => disk.read_file_within(&path, bytes_max).await,
    };
    match read {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) if is_unreadable(&error) => {
            tracing::warn!(file = %path.display(), %error, "an index is damaged and will be rebuilt");
            // No valid index has this length.
            Ok(Some(vec![0]))
        }
        Err(error) => Err(Error::io("read", &path)(error)),
    }
}

/// Returns the aborted transactions of a segment from its file; `None` when the file is missing or
/// damaged.
pub(crate) async fn aborted_of<P: Platform>(
    disk: &P::Disk,
    segment: &Segment<P>,
    options: IndexOptions,
) -> Result<Option<TxnIndex>> {
    let bytes = read(disk, segment, Role::TxnIndex, options, None).await?;
    if is_lost(segment, bytes.as_ref()) {
        return Ok(None);
    }
    let next = segment.next();
    let is_its = |index: &TxnIndex| index.entries().iter().all(|txn| txn.last_offset < next);
    let index = bytes.and_then(|bytes| TxnIndex::parse(segment.base, &bytes).ok());
    Ok(index.filter(is_its))
}

/// Durably removes those entries from the file of aborted transactions that end at or past the
/// segment's end.
///
/// Otherwise they would apply to records written there later. `len_before` is the length of the
/// data file before its truncation. All other entries stay, because the remaining batches may not
/// be enough to rebuild them.
pub(crate) async fn settle_aborted<P: Platform>(
    disk: &P::Disk,
    segment: &Segment<P>,
    len_before: u64,
) -> Result<()> {
    let bytes_max = len_before.max(SMALL_FILE_BYTES_MAX);
    let bytes = read_within(disk, segment, Role::TxnIndex, bytes_max, None).await?;
    let index = bytes.and_then(|bytes| TxnIndex::parse(segment.base, &bytes).ok());
    // A reader that needs a damaged index rebuilds it.
    let Some(mut index) = index else {
        return Ok(());
    };
    if !index.truncate_to(segment.next()) {
        return Ok(());
    }
    let path = segment.path(Role::TxnIndex);
    if !index.is_empty() {
        let replaced = disk.replace_file(&path, &index.encode()).await;
        return replaced.map_err(Error::io("write", &path));
    }
    let removed = disk.remove_file(&path).await;
    removed.map_err(Error::io("remove", &path))?;
    let synced = disk.sync_dir(&segment.folder).await;
    synced.map_err(Error::dir_sync(&segment.folder))
}

/// Rebuilds the offset index and the time index of a sealed segment from its batch headers.
pub(crate) async fn rebuild<P: Platform>(
    segment: &Segment<P>,
    file: &File<P>,
    options: IndexOptions,
    aborted: TxnIndex,
) -> Result<LoadedIndexes> {
    let path = segment.path(Role::Log);
    let mut indexes = Indexes::new(segment.base, options);
    let mut scan = Scan::new(file, 0, segment.size(), WINDOW_BYTES);
    let mut expected = ExpectedBatch {
        offset: segment.base,
        gaps: true,
        epoch: LeaderEpoch(i32::MIN),
    };
    while scan.position() < segment.size() {
        let position = scan.position();
        let header = scan.header().await.map_err(Error::io("read", &path))?;
        let refused = |header: &BatchHeader| {
            if header.next_offset() > segment.next() {
                Some(WRONG_OFFSET)
            } else {
                expected.refuses(header)
            }
        };
        let header = match header.ok_or(NO_BATCH) {
            Ok(header) => refused(&header).map_or(Ok(header), Err),
            none => none,
        };
        let header = header.map_err(|reason| Error::Corrupt {
            path: path.clone(),
            position,
            reason,
        })?;
        indexes.append(&header, position);
        expected = expected.after(&header);
        scan.skip(&header);
    }
    indexes.seal();
    Ok(LoadedIndexes { indexes, aborted })
}

/// Writes the index files of a segment; they are durable when it returns.
pub(crate) async fn save<P: Platform>(
    disk: &P::Disk,
    segment: &Segment<P>,
    saved: &SavedIndexes,
) -> Result<()> {
    for (role, bytes) in saved.files() {
        let path = segment.path(role);
        disk.replace_file(&path, bytes)
            .await
            .map_err(Error::io("write", &path))?;
    }
    Ok(())
}

/// The bytes of a segment's index files at one moment.
pub(crate) struct SavedIndexes {
    offsets: Vec<u8>,
    times: Vec<u8>,
    aborted: Vec<u8>,
    /// The offset up to which they cover the segment.
    pub(crate) upto: Offset,
}

impl SavedIndexes {
    /// Returns true when they contain aborted transactions.
    pub(crate) fn notes_aborted(&self) -> bool {
        !self.aborted.is_empty()
    }

    /// Returns the files and their content.
    pub(crate) fn files(&self) -> impl Iterator<Item = (Role, &[u8])> {
        let aborted = (!self.aborted.is_empty()).then_some((Role::TxnIndex, &*self.aborted));
        [
            (Role::OffsetIndex, &*self.offsets),
            (Role::TimeIndex, &*self.times),
        ]
        .into_iter()
        .chain(aborted)
    }

    /// Encodes the indexes of a segment.
    pub(crate) fn of<P: Platform>(segment: &Segment<P>) -> Option<Self> {
        let loaded = segment.loaded();
        let loaded = loaded.as_ref()?;
        Some(Self {
            offsets: loaded.indexes.offsets.encode(),
            times: loaded.indexes.times.encode(),
            aborted: loaded.aborted.encode(),
            upto: segment.next(),
        })
    }
}
