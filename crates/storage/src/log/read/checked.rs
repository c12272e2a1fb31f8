//! Judges bytes that come from a disk: only whole batches with the right header and CRC are served.
//!
//! Damage in the first batch is an error; damage in a later one ends what is served.

use bytes::Bytes;
use platform::Platform;
use wire::batch::{self, BatchHeader};
use wire::types::Offset;

use super::resident::ReadRange;
use crate::error::{Error, Result};
use crate::segment::Segment;
use crate::segment::naming::Role;
use crate::segment::scan::{MAGIC, NO_BATCH};
use crate::segment::stamps::{
    BatchPlace, Epochs, FileEnd, WRONG_EPOCH, WRONG_OFFSET, base_offset_of, place_of,
};

/// Returns the size of the batch that `bytes` begin with.
pub(super) fn first_size(bytes: &[u8]) -> Option<usize> {
    BatchHeader::parse(bytes).map(|header| header.size_bytes)
}

/// The origin of bytes, and what is known of the batches in them.
pub(super) struct Source<'a, P: Platform> {
    pub(super) segment: &'a Segment<P>,
    pub(super) position: u64,
    /// The first batch cannot begin before this offset.
    pub(super) lowest: Offset,
    pub(super) end: FileEnd,
    pub(super) epochs: Epochs<'a>,
}

/// How far bytes have been judged.
pub(super) struct CheckedExtent {
    /// Bytes of the whole, undamaged batches that are wanted, and the offset after them.
    len: usize,
    next: Offset,
    /// The next batch cannot begin before this offset.
    lowest: Offset,
}

/// The result of a step.
pub(super) enum Step {
    /// Judging continues after a rest.
    Rest,
    /// How many of the bytes are taken, and the offset after them; `None` when the first batch is
    /// not wanted.
    Done(Option<(usize, Offset)>),
}

impl CheckedExtent {
    /// Begins with nothing judged; the first batch cannot begin before `lowest`.
    pub(super) fn new(wanted: ReadRange, lowest: Offset) -> Self {
        Self {
            len: 0,
            next: wanted.from,
            lowest,
        }
    }

    /// Judges batches, about `work_max` bytes of them.
    ///
    /// Damage in the first batch is an error, damage in a later one ends what is taken.
    pub(super) fn go_on<P: Platform>(
        &mut self,
        bytes: &Bytes,
        wanted: ReadRange,
        source: &mut Source<'_, P>,
        work_max: usize,
    ) -> Result<Step> {
        let rest_at = self.len.saturating_add(work_max);
        source.lowest = self.lowest;
        while self.len < rest_at {
            if let Step::Done(taken) = take_checked(bytes, wanted, source, self)? {
                return Ok(Step::Done(taken));
            }
        }
        Ok(Step::Rest)
    }
}

/// Takes one more batch, or returns what is taken in all.
fn take_checked<P: Platform>(
    bytes: &Bytes,
    wanted: ReadRange,
    source: &mut Source<'_, P>,
    checked: &mut CheckedExtent,
) -> Result<Step> {
    let CheckedExtent { len, next, .. } = *checked;
    // Bounded: `len` is what was taken of them.
    let rest = &bytes[len..];
    let damage = match BatchHeader::parse(rest) {
        None if len > 0 => None,
        None => Some(NO_BATCH),
        Some(header) if len > 0 && header.next_offset() > wanted.below => None,
        Some(header) => {
            let end = len.saturating_add(header.size_bytes);
            let too_much = end > wanted.bytes_max && !(len == 0 && wanted.at_least_one);
            match rest.split_at_checked(header.size_bytes) {
                None if len > 0 || too_much => None,
                None => Some("a batch is longer than the rest of the segment"),
                Some(_) if too_much => None,
                Some((batch, behind)) => match source.judge(&header, batch, len, behind, next) {
                    Verdict::Sound if header.next_offset() > wanted.below => None,
                    Verdict::Sound => {
                        checked.len = end;
                        checked.next = header.next_offset();
                        checked.lowest = checked.next;
                        source.lowest = checked.next;
                        return Ok(Step::Rest);
                    }
                    Verdict::Later => None,
                    Verdict::Damaged(damage) => Some(damage),
                },
            }
        }
    };
    match damage {
        Some(reason) if len == 0 => Err(Error::Corrupt {
            path: source.segment.path(Role::Log),
            position: source.position,
            reason,
        }),
        _ => Ok(Step::Done((len > 0).then_some((len, next)))),
    }
}

/// The verdict on a batch.
enum Verdict {
    Sound,
    Damaged(&'static str),
    /// The batch is judged when what follows it has been read, too.
    Later,
}

impl<P: Platform> Source<'_, P> {
    /// Judges a whole batch, `len` bytes after the first one, which is to end past `from`.
    fn judge(
        &mut self,
        header: &BatchHeader,
        batch: &[u8],
        len: usize,
        behind: &[u8],
        from: Offset,
    ) -> Verdict {
        if header.magic != MAGIC {
            return Verdict::Damaged("unknown format version");
        }
        if header.last_offset_delta < 0 || header.next_offset() <= from {
            return Verdict::Damaged(WRONG_OFFSET);
        }
        let following = || {
            let end = self.position + (len + batch.len()) as u64;
            let end = (end >= self.end.position).then_some(self.end.next);
            end.unwrap_or_else(|| base_offset_of(behind))
        };
        match place_of(header, self.lowest, following) {
            BatchPlace::Right => {}
            BatchPlace::Unsure if len > 0 => return Verdict::Later,
            BatchPlace::Unsure if header.next_offset() <= self.end.bound => {}
            BatchPlace::Wrong | BatchPlace::Unsure => return Verdict::Damaged(WRONG_OFFSET),
        }
        if batch::crc_of(batch) != header.crc {
            Verdict::Damaged("the CRC is wrong")
        } else if !self.epochs.allow(header) {
            Verdict::Damaged(WRONG_EPOCH)
        } else {
            Verdict::Sound
        }
    }
}
