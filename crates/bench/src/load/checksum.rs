//! CRC-32C of a batch whose header changes and whose records do not: sums are joined, not made anew.
//!
//! A CRC is linear: appending n bytes to a sequence multiplies its sum by a matrix that depends on n alone.
//! The matrices for powers of two are kept, so joining costs some hundred operations whatever the lengths.

use std::sync::LazyLock;

const BITS: usize = 32;

/// For each k what appending 2^k zero bytes does to each bit of a sum: that of one byte, squared again and
/// again.
static POWERS: LazyLock<[[u32; BITS]; BITS]> = LazyLock::new(|| {
    let mut matrix = std::array::from_fn(|bit| crc32c::crc32c_combine(1 << bit, 0, 1));
    std::array::from_fn(|_power| {
        let this = matrix;
        matrix = this.map(|column| times(&this, column));
        this
    })
});

/// The sum of two runs of bytes, one after the other, from the sum of each.
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
        // All ones where the bit is set.
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
