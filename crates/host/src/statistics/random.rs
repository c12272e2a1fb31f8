//! Numbers from a seed (SplitMix64): the same seed gives the same assignment on every machine.

/// A source of random numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates a source from a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a uniformly distributed number less than `below`; 0 for 0.
    pub fn below(&mut self, below: usize) -> usize {
        let wide = u128::from(self.bits()) * below as u128;
        usize::try_from(wide >> 64).unwrap_or(0)
    }

    /// Returns a number from 0 (inclusive) to 1 (exclusive).
    pub fn share(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Flips a coin.
    pub fn coin(&mut self) -> bool {
        self.bits() >> 63 == 1
    }

    /// Shuffles values uniformly.
    pub fn shuffle<T>(&mut self, values: &mut [T]) {
        for at in (1..values.len()).rev() {
            values.swap(at, self.below(at + 1));
        }
    }

    /// Returns a value of the standard normal distribution.
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.share()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.share()).cos()
    }
}
