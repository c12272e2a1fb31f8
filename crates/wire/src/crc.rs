//! CRC-32C (Castagnoli), the checksum of record batches and snapshots. All code computes it here.
//!
//! Invariant: the result does not depend on the processor; only the speed does.
//! Not here: which bytes a checksum covers (`batch.rs`).

use crc_fast::CrcAlgorithm::Crc32Iscsi;
use crc_fast::Digest;

/// Returns the checksum of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// Returns the checksum of the bytes that `crc` covers, followed by `bytes`.
pub fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    // Between two pieces, the state of the digest is the checksum without its final inversion.
    let mut digest = Digest::new_with_init_state(Crc32Iscsi, u64::from(!crc));
    digest.update(bytes);
    low_half(digest.finalize())
}

/// Returns the checksum of two concatenated runs of bytes.
///
/// It needs the checksum of each run and the length of the second, not the bytes.
pub fn crc32c_combine(first: u32, second: u32, second_len: usize) -> u32 {
    let (first, second) = (u64::from(first), u64::from(second));
    low_half(crc_fast::checksum_combine(
        Crc32Iscsi,
        first,
        second,
        second_len as u64,
    ))
}

/// Returns a 32-bit checksum from the library's 64-bit form.
fn low_half(wide: u64) -> u32 {
    let [a, b, c, d, ..] = wide.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Computes the checksum bit by bit from the polynomial.
    fn by_the_book(bytes: &[u8]) -> u32 {
        let step = |crc: u32| (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
        !bytes.iter().fold(u32::MAX, |crc, byte| {
            (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc))
        })
    }

    #[test]
    fn the_check_value_of_the_catalogue() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(b""), 0);
    }

    #[test]
    fn every_length_around_the_steps_of_wide_instructions_is_right() {
        let bytes: Vec<u8> = (0..=250_u8).cycle().take(5000).collect();
        for len in (0..600).chain([1023, 1024, 1025, 4095, 4096, 4097, 5000]) {
            let bytes = &bytes[..len];
            assert_eq!(crc32c(bytes), by_the_book(bytes), "{len} bytes");
        }
    }

    proptest! {
        #[test]
        fn pieces_give_what_the_whole_gives(
            bytes in prop::collection::vec(any::<u8>(), 0..3000),
            cut in any::<prop::sample::Index>(),
        ) {
            let (first, second) = bytes.split_at(cut.index(bytes.len() + 1));
            let whole = by_the_book(&bytes);
            prop_assert_eq!(crc32c(&bytes), whole);
            prop_assert_eq!(crc32c_append(crc32c(first), second), whole);
            prop_assert_eq!(crc32c_combine(crc32c(first), crc32c(second), second.len()), whole);
        }
    }
}
