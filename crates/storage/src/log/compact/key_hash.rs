//! `SipHash`-2-4 with 128 bits of output: how the offset map identifies a key without storing it.
//!
//! Two keys with the same hash would be taken for one, and the older record of the pair deleted, so
//! it must be infeasible to construct such a pair: the hash is keyed with a secret that is drawn
//! for each compaction, and by chance 100 million keys collide with a probability below 10^-22.
//! (Kafka uses MD5 here, for which pairs can be made.)
//! It is implemented here rather than in a crate because it is forty lines that never change;
//! checked against the authors' vectors.

/// A secret under which keys are hashed.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyHash {
    pub(super) secret: [u64; 2],
}

struct SipHashState {
    v: [u64; 4],
}

impl SipHashState {
    fn round(&mut self) {
        let [mut a, mut b, mut c, mut d] = self.v;
        a = a.wrapping_add(b);
        b = b.rotate_left(13) ^ a;
        a = a.rotate_left(32);
        c = c.wrapping_add(d);
        d = d.rotate_left(16) ^ c;
        a = a.wrapping_add(d);
        d = d.rotate_left(21) ^ a;
        c = c.wrapping_add(b);
        b = b.rotate_left(17) ^ c;
        c = c.rotate_left(32);
        self.v = [a, b, c, d];
    }

    fn absorb(&mut self, word: u64) {
        self.v[3] ^= word;
        self.round();
        self.round();
        self.v[0] ^= word;
    }

    fn squeeze(&mut self) -> u64 {
        for _ in 0..4 {
            self.round();
        }
        self.v.iter().fold(0, |out, word| out ^ word)
    }
}

impl KeyHash {
    /// Returns the hash of a key.
    pub(super) fn of(&self, key: &[u8]) -> [u64; 2] {
        let [k0, k1] = self.secret;
        let mut state = SipHashState {
            v: [
                k0 ^ 0x736f_6d65_7073_6575,
                k1 ^ 0x646f_7261_6e64_6f6d ^ 0xee,
                k0 ^ 0x6c79_6765_6e65_7261,
                k1 ^ 0x7465_6462_7974_6573,
            ],
        };
        let (words, rest) = key.as_chunks::<8>();
        for word in words {
            state.absorb(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        for (to, from) in last.iter_mut().zip(rest) {
            *to = *from;
        }
        // The last word ends with the length modulo 256.
        state.absorb(u64::from_le_bytes(last) | (key.len() as u64) << 56);
        state.v[2] ^= 0xee;
        let first = state.squeeze();
        state.v[1] ^= 0xdd;
        [first, state.squeeze()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_authors() {
        let hash = KeyHash {
            secret: [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908],
        };
        let of = |len: u8| {
            let input: Vec<u8> = (0..len).collect();
            let [first, second] = hash.of(&input).map(u64::swap_bytes);
            format!("{first:016x}{second:016x}")
        };
        assert_eq!(of(0), "a3817f04ba25a8e66df67214c7550293");
        assert_eq!(of(1), "da87c1d86b99af44347659119b22fc45");
        assert_eq!(of(15), "5493e99933b0a8117e08ec0f97cfc3d9");
        assert_eq!(of(63), "5150d1772f50834a503e069a973fbd7c");
    }
}
