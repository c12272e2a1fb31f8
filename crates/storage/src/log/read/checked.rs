//! Judging bytes that come from a disk: only whole batches with the right header and CRC are served.

use bytes::Bytes;
use platform::Platform;
use wire::batch::{self, BatchHeader};
use wire::types::Offset;

use super::resident::Wanted;
use crate::error::{Error, Result};
use crate::segment::Segment;
use crate::segment::naming::Role;
use crate::segment::scan::{MAGIC, NO_BATCH};

/// Size of the batch that `bytes` begin with.
pub(super) fn first_size(bytes: &[u8]) -> Option<usize> {
    BatchHeader::parse(bytes).map(|header| header.size_bytes)
}

/// How many of `bytes` are whole, undamaged batches that are wanted, and the offset after them; `None` when the first
/// batch is not wanted. Damage in the first batch is an error, damage in a later one ends what is taken.
pub(super) fn take_checked<P: Platform>(
    bytes: &Bytes,
    wanted: Wanted,
    position: u64,
    segment: &Segment<P>,
) -> Result<Option<(usize, Offset)>> {
    let mut len = 0;
    let mut next = wanted.from;
    loop {
        let rest = bytes.get(len..).unwrap_or_default();
        let damage = match BatchHeader::parse(rest) {
            None if len > 0 => None,
            None => Some(NO_BATCH),
            Some(header) if len > 0 && header.next_offset() > wanted.below => None,
            Some(header) => {
                let end = len.saturating_add(header.size_bytes);
                let too_much = end > wanted.bytes_max && !(len == 0 && wanted.at_least_one);
                match rest.get(..header.size_bytes) {
                    None if len > 0 || too_much => None,
                    None => Some("a batch is longer than the rest of the segment"),
                    Some(_) if too_much => None,
                    Some(batch) => match damage_of(&header, batch, next) {
                        None if header.next_offset() > wanted.below => None,
                        None => {
                            len = end;
                            next = header.next_offset();
                            continue;
                        }
                        damage => damage,
                    },
                }
            }
        };
        return match damage {
            Some(reason) if len == 0 => Err(Error::Corrupt {
                path: segment.path(Role::Log),
                position,
                reason,
            }),
            _ => Ok((len > 0).then_some((len, next))),
        };
    }
}

/// What is wrong with a whole batch in which `from` or something after it is expected.
fn damage_of(header: &BatchHeader, batch: &[u8], from: Offset) -> Option<&'static str> {
    if header.magic != MAGIC {
        Some("unknown format version")
    } else if header.last_offset_delta < 0 || header.next_offset() <= from {
        Some("another offset was expected")
    } else if batch::crc_of(batch) != header.crc {
        Some("the CRC is wrong")
    } else {
        None
    }
}
