//! A set of mostly consecutive numbers: those acknowledged, or those read.
//!
//! Invariant: memory is bounded by one bit per number between the smallest and the largest of a
//! contiguous range, and falls to some bytes per 4096 numbers once all of these are present; a set
//! of a billion takes a few megabytes, whichever numbers were lost.

use std::collections::BTreeMap;

/// Numbers per chunk.
const CHUNK: u64 = 4096;
const WORDS: usize = 64;

type Words = [u64; WORDS];
const NONE: &Words = &[0; WORDS];
const ALL: &Words = &[u64::MAX; WORDS];

#[derive(Clone, PartialEq, Eq, Debug)]
enum Chunk {
    /// All numbers are present.
    Full,
    /// Some are present: one bit each, and their count.
    Part(Box<Words>, u64),
}

impl Chunk {
    fn words(&self) -> &Words {
        match self {
            Self::Full => ALL,
            Self::Part(words, _) => words,
        }
    }
}

/// A set of numbers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Numbers {
    chunks: BTreeMap<u64, Chunk>,
    count: u64,
}

impl Numbers {
    /// Returns the empty set.
    pub const fn none() -> Self {
        Self {
            chunks: BTreeMap::new(),
            count: 0,
        }
    }

    /// Adds a number; returns false if it was present.
    pub fn insert(&mut self, number: u64) -> bool {
        self.insert_range(number, number) == 1
    }

    /// Adds the numbers from `first` to `last`; returns how many were absent.
    pub fn insert_range(&mut self, first: u64, last: u64) -> u64 {
        let mut added = 0;
        let mut at = first;
        while at <= last {
            let index = at / CHUNK;
            let end = last.min(index * CHUNK + (CHUNK - 1));
            added += self.insert_in(index, at % CHUNK, end % CHUNK);
            match end.checked_add(1) {
                Some(next) => at = next,
                None => break,
            }
        }
        self.count += added;
        added
    }

    fn insert_in(&mut self, index: u64, first: u64, last: u64) -> u64 {
        let chunk = self
            .chunks
            .entry(index)
            .or_insert_with(|| Chunk::Part(Box::new(*NONE), 0));
        let Chunk::Part(words, count) = chunk else {
            return 0;
        };
        let mut added = 0;
        for word in first / 64..=last / 64 {
            let from = first.saturating_sub(word * 64).min(63);
            let to = (last - word * 64).min(63);
            let mask = (u64::MAX >> (63 - to)) & (u64::MAX << from);
            let bits = &mut words[word as usize];
            added += u64::from((mask & !*bits).count_ones());
            *bits |= mask;
        }
        *count += added;
        if *count == CHUNK {
            *chunk = Chunk::Full;
        }
        added
    }

    /// Returns whether the number is present.
    pub fn contains(&self, number: u64) -> bool {
        let bit = number % CHUNK;
        self.chunks
            .get(&(number / CHUNK))
            .is_some_and(|chunk| chunk.words()[bit as usize / 64] >> (bit % 64) & 1 == 1)
    }

    /// Returns how many numbers are present.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the largest number.
    pub fn last(&self) -> Option<u64> {
        let (index, chunk) = self.chunks.last_key_value()?;
        let words = chunk.words();
        let word = words.iter().rposition(|bits| *bits != 0)?;
        Some(index * CHUNK + word as u64 * 64 + (63 - u64::from(words[word].leading_zeros())))
    }

    /// Adds another set; returns how many numbers were in both.
    pub fn absorb(&mut self, other: &Self) -> u64 {
        let added: u64 = other
            .ranges()
            .map(|(first, last)| self.insert_range(first, last))
            .sum();
        other.count - added
    }

    /// Returns the numbers as maximal ranges (first, last), ascending.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> {
        static EMPTY: Numbers = Numbers::none();
        self.without(&EMPTY)
    }

    /// Returns the numbers of this set that are not in the other, as ranges.
    pub fn without<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = (u64, u64)> + 'a {
        let mut pieces = self
            .chunks
            .iter()
            .flat_map(move |(index, chunk)| {
                let hidden = other.chunks.get(index).map_or(NONE, Chunk::words);
                let mut words = Box::new(*chunk.words());
                for (word, hide) in words.iter_mut().zip(hidden) {
                    *word &= !hide;
                }
                runs(words, index * CHUNK)
            })
            .peekable();
        std::iter::from_fn(move || {
            let (first, mut last) = pieces.next()?;
            while let Some((_, end)) =
                pieces.next_if(|(start, _)| Some(*start) == last.checked_add(1))
            {
                last = end;
            }
            Some((first, last))
        })
    }
}

/// Returns the runs of ones in a chunk whose first number is `start`.
fn runs(words: Box<Words>, start: u64) -> impl Iterator<Item = (u64, u64)> {
    let mut at = 0_u64;
    std::iter::from_fn(move || {
        let first = next(&words, at, true)?;
        let end = next(&words, first, false).unwrap_or(CHUNK);
        at = end;
        Some((start + first, start + (end - 1)))
    })
}

/// Returns the first bit from `at` on that is set (or not set).
fn next(words: &Words, mut at: u64, set: bool) -> Option<u64> {
    while at < CHUNK {
        let word = words[at as usize / 64];
        let wanted = if set { word } else { !word } >> (at % 64);
        if wanted != 0 {
            return Some(at + u64::from(wanted.trailing_zeros()));
        }
        at = (at / 64 + 1) * 64;
    }
    None
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn set_of(ranges: &[(u64, u64)]) -> (Numbers, BTreeSet<u64>) {
        let (mut numbers, mut model) = (Numbers::default(), BTreeSet::new());
        for (first, length) in ranges {
            let before = model.len();
            model.extend(*first..=first + length);
            let added = numbers.insert_range(*first, first + length);
            assert_eq!(added, (model.len() - before) as u64);
        }
        (numbers, model)
    }

    fn ranges() -> impl Strategy<Value = Vec<(u64, u64)>> {
        let start = prop_oneof![0_u64..20_000, (1 << 40)..(1 << 40) + 20_000_u64];
        let length = prop_oneof![Just(0_u64), 0_u64..200, 0_u64..9_000];
        prop::collection::vec((start, length), 0..30)
    }

    proptest! {
        #[test]
        fn it_is_a_set(one in ranges(), two in ranges()) {
            let (mut one, mut first) = set_of(&one);
            let (two, second) = set_of(&two);
            prop_assert_eq!(one.count(), first.len() as u64);
            prop_assert_eq!(one.last(), first.last().copied());
            let flat = |ranges: Vec<(u64, u64)>| ranges.into_iter().flat_map(|(from, to)| from..=to);
            prop_assert!(flat(one.ranges().collect()).eq(first.iter().copied()));
            prop_assert!(flat(one.without(&two).collect()).eq(first.difference(&second).copied()));
            for number in first.iter().take(50) {
                prop_assert!(one.contains(*number) && two.contains(*number) == second.contains(number));
            }
            let both = first.intersection(&second).count() as u64;
            prop_assert_eq!(one.absorb(&two), both);
            first.extend(&second);
            prop_assert_eq!(one.count(), first.len() as u64);
        }
    }

    #[test]
    fn neighbours_are_one_range_and_the_last_number_is_no_end() {
        let mut numbers = Numbers::default();
        assert_eq!(numbers.insert_range(4_000, 12_999), 9_000);
        assert!(numbers.insert(u64::MAX) && !numbers.insert(u64::MAX));
        let all: Vec<_> = numbers.ranges().collect();
        assert_eq!(all, [(4_000, 12_999), (u64::MAX, u64::MAX)]);
        assert_eq!(numbers.last(), Some(u64::MAX));
    }

    #[test]
    fn a_million_in_a_row_cost_next_to_nothing() {
        let mut numbers = Numbers::default();
        numbers.insert_range(0, 999_999);
        let bitmaps = numbers
            .chunks
            .values()
            .filter(|chunk| matches!(chunk, Chunk::Part(..)));
        assert_eq!(bitmaps.count(), 1);
    }
}
