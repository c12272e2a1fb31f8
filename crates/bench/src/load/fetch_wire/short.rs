//! Adds up records in place that are completely buffered.
//!
//! Detects no errors: anything that does not look like a whole record is left to the reader that
//! goes field by field and reports errors.

use wire::batch::varint;

/// Longer records are skipped instead of awaited.
const SHORT_BYTES: usize = 16 << 10;

/// The item at the front of some bytes of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Front {
    /// A whole record of `bytes` bytes; `payload` of them are key and value.
    Whole { bytes: usize, payload: u64 },
    /// The beginning of a record that is short enough to wait for.
    Short,
    /// Anything else.
    Other,
}

/// Classifies the front of `here`, in a batch that continues for `left` bytes.
pub(super) fn front(here: &[u8], left: usize) -> Front {
    let mut at = here;
    let Some(length) = varint::take(&mut at).and_then(|length| usize::try_from(length).ok()) else {
        return Front::Other;
    };
    let bytes = (here.len() - at.len()).saturating_add(length);
    if bytes > left {
        return Front::Other;
    }
    let Some(record) = at.get(..length) else {
        return if bytes <= SHORT_BYTES {
            Front::Short
        } else {
            Front::Other
        };
    };
    match payload(record) {
        Some(payload) => Front::Whole { bytes, payload },
        None => Front::Other,
    }
}

/// Adds up key and value, after attributes, timestamp delta and offset delta; headers may follow.
fn payload(record: &[u8]) -> Option<u64> {
    let mut at = record.get(1..)?;
    varint::take(&mut at)?;
    varint::take(&mut at)?;
    let mut payload = 0;
    for _key_then_value in 0..2 {
        if let Ok(bytes) = usize::try_from(varint::take(&mut at)?) {
            at = at.get(bytes..)?;
            payload += bytes as u64;
        }
    }
    Some(payload)
}
