//! CRC-32C of a batch whose header changes and whose records do not: combines checksums without
//! rereading the records.
//!
//! A CRC is linear: appending n bytes to a sequence multiplies its checksum by a matrix that
//! depends only on n. The matrices for powers of two are kept, so combining costs some hundred
//! operations whatever the lengths.

use std::sync::LazyLock;

const BITS: usize = 32;

/// For each k the effect of appending 2^k zero bytes on each bit of a checksum: the matrix of one
/// byte, squared k times.
static POWERS: LazyLock<[[u32; BITS]; BITS]> = LazyLock::new(|| {
    let mut matrix = std::array::from_fn(|bit| crc32c::crc32c_combine(1 << bit, 0, 1));
    std::array::from_fn(|_power| {
        let this = matrix;
        matrix = this.map(|column| times(&this, column));
        this
    })
});

/// Returns the checksum of two concatenated byte sequences from the checksum of each.
pub(super) fn joined(first: u32, second: u32, second_bytes: usize) -> u32 {
    let mut sum = first;
    for (power, matrix) in POWERS.iter().enumerate() {
        if second_bytes >> power & 1 == 1 {
            sum = times(matrix, sum);
        }
    }
    sum ^ second
}

fn times(matrix: &[u32; BITS], sum: u32) -> u32 {
    let columns = matrix.iter().enumerate();
    columns.fold(0, |product, (bit, column)| {
        // The factor is all ones if the bit is set.
        product ^ (column & (sum >> bit & 1).wrapping_neg())
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn joining_is_summing_up_the_whole(
            first in prop::collection::vec(any::<u8>(), 0..100),
            second in prop::collection::vec(any::<u8>(), 0..5000),
        ) {
            let sums = (crc32c::crc32c(&first), crc32c::crc32c(&second));
            let whole = crc32c::crc32c(&[&first[..], &second[..]].concat());
            prop_assert_eq!(joined(sums.0, sums.1, second.len()), whole);
        }
    }
}
