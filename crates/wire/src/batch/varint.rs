//! Zigzag variable-length integers, as used in records.
//!
//! Invariant: reading returns a value or `None` for any bytes. Not here: the unsigned varints of
//! messages (`kafka/reader.rs`, `kafka/writer.rs`).

/// Reads an integer from the front; `None` when it is cut short or has more than ten bytes.
pub fn take(bytes: &mut &[u8]) -> Option<i64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(unzigzag(value));
        }
    }
    None
}

/// Undoes the zigzag.
pub fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

/// Appends an integer.
pub(crate) fn put(out: &mut Vec<u8>, value: i64) {
    let mut value = ((value << 1) ^ (value >> 63)).cast_unsigned();
    loop {
        let [low, ..] = value.to_le_bytes();
        value >>= 7;
        if value == 0 {
            out.push(low & 0x7f);
            return;
        }
        out.push(low | 0x80);
    }
}

/// Returns how many bytes [`put`] appends.
pub(crate) fn size(value: i64) -> usize {
    let zigzag = ((value << 1) ^ (value >> 63)).cast_unsigned();
    // Seven bits in each; zero has one, too.
    let bits = 64 - (zigzag | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

/// Returns how many bytes [`put_bytes`] appends.
pub(crate) fn size_of_bytes(bytes: Option<&[u8]>) -> usize {
    size(length_of(bytes)) + bytes.map_or(0, <[u8]>::len)
}

/// Appends a length and the bytes, or -1 for `None`.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    put(out, length_of(bytes));
    out.extend_from_slice(bytes.unwrap_or_default()); // Null has no bytes.
}

fn length_of(bytes: Option<&[u8]>) -> i64 {
    bytes.map_or(-1, |bytes| {
        i64::try_from(bytes.len()).expect("memory has fewer bytes than 2^63")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_come_back() {
        for value in [
            0,
            -1,
            1,
            63,
            -64,
            64,
            127,
            -8192,
            8191,
            8192,
            300,
            i64::MAX,
            i64::MIN,
            i64::from(i32::MIN),
        ] {
            let mut out = Vec::new();
            put(&mut out, value);
            assert_eq!(size(value), out.len(), "{value}");
            let mut rest = &out[..];
            assert_eq!(take(&mut rest), Some(value));
            assert!(rest.is_empty());
            assert_eq!(take(&mut &out[..out.len() - 1]), None);
        }
        assert_eq!(take(&mut &[0xff; 11][..]), None);
        for bytes in [None, Some(&b""[..]), Some(&[7; 63]), Some(&[7; 64])] {
            let mut out = Vec::new();
            put_bytes(&mut out, bytes);
            assert_eq!(size_of_bytes(bytes), out.len());
        }
    }
}
