//! The contents of values: a pool of bytes with a given entropy, and the random numbers behind it.
//!
//! Invariant: bytes of the pool are independent of one another, so that no compressor can do better
//! than the given entropy. Values are consecutive parts of the pool; they repeat only after the
//! whole pool.

use std::sync::Arc;

/// Generates random numbers from a seed.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns 64 random bits.
    pub(super) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound` (0 for 0).
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        let product = u128::from(self.bits()) * u128::from(bound);
        (product >> 64) as u64
    }

    /// Returns a number from 0 (inclusive) to 1 (exclusive).
    pub(super) fn part(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The bytes that values are cut from, shared by all producers.
#[derive(Clone, Debug)]
pub(super) struct Payload {
    pool: Arc<Vec<u8>>,
    at: usize,
}

impl Payload {
    /// Creates a pool of `pool_bytes` bytes with this entropy (bits per byte).
    pub(super) fn new(entropy: f64, pool_bytes: usize, seed: u64) -> Self {
        let mut random = Random::new(seed);
        Self {
            pool: Arc::new(bytes_of(entropy, pool_bytes.max(1), &mut random)),
            at: 0,
        }
    }

    /// Starts at another position than the other users of the pool.
    #[must_use]
    pub(super) fn starting_at(mut self, seed: u64) -> Self {
        self.at = Random::new(seed).below(self.pool.len() as u64) as usize;
        self
    }

    /// Appends the next `bytes` bytes of the pool.
    pub(super) fn append(&mut self, bytes: usize, out: &mut Vec<u8>) {
        let mut missing = bytes;
        while missing > 0 {
            let here = &self.pool[self.at..];
            let some = &here[..here.len().min(missing)];
            out.extend_from_slice(some);
            missing -= some.len();
            self.at = (self.at + some.len()) % self.pool.len();
        }
    }
}

/// Returns independent bytes: one of `symbols` equally likely values or, with probability `rare`,
/// one further value.
///
/// Both are chosen so that the bytes have the wanted entropy.
fn bytes_of(entropy: f64, count: usize, random: &mut Random) -> Vec<u8> {
    if entropy >= 8.0 {
        let words = (0..count.div_ceil(8)).flat_map(|_| random.bits().to_le_bytes());
        return words.take(count).collect();
    }
    let entropy = entropy.max(0.0);
    let symbols = entropy.exp2().floor().max(1.0);
    let rare = rare_part(entropy, symbols);
    // Spreads the symbols over the byte values, so that text compressors find no order in them.
    let symbol = |index: u64| (index.wrapping_mul(157) as u8).wrapping_add(29);
    (0..count)
        .map(|_| {
            if rare > 0.0 && random.part() < rare {
                symbol(symbols as u64)
            } else {
                symbol(random.below(symbols as u64))
            }
        })
        .collect()
}

/// Returns the probability of the further symbol that gives the mixture this entropy.
fn rare_part(entropy: f64, symbols: f64) -> f64 {
    let of = |part: f64| {
        let certain = part <= 0.0;
        let choice = if certain {
            0.0
        } else {
            -part * part.log2() - (1.0 - part) * (1.0 - part).log2()
        };
        choice + (1.0 - part) * symbols.log2()
    };
    let (mut low, mut high) = (0.0, 1.0 / (symbols + 1.0));
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if of(middle) < entropy {
            low = middle;
        } else {
            high = middle;
        }
    }
    if of(low) < entropy - 1e-9 { high } else { low }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(bytes: &[u8]) -> f64 {
        let mut counts = [0u32; 256];
        for byte in bytes {
            counts[usize::from(*byte)] += 1;
        }
        let all = bytes.len() as f64;
        let parts = counts.iter().filter(|count| **count > 0);
        parts
            .map(|count| f64::from(*count) / all)
            .map(|part| -part * part.log2())
            .sum()
    }

    #[test]
    fn bytes_have_the_stated_entropy() {
        for entropy in [0.0, 0.3, 1.0, 2.5, 4.0, 6.7, 8.0] {
            let bytes = bytes_of(entropy, 1 << 20, &mut Random::new(7));
            let found = measured(&bytes);
            assert!((found - entropy).abs() < 0.01, "{entropy}: {found}");
        }
    }

    #[test]
    fn values_follow_one_another_around_the_pool() {
        let mut payload = Payload::new(8.0, 10, 1);
        let (mut first, mut second) = (Vec::new(), Vec::new());
        payload.append(25, &mut first);
        payload.append(5, &mut second);
        assert_eq!(first[..10], first[10..20]);
        assert_eq!(second, first[5..10]);
    }
}
