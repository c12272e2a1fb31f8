//! Sets of CPUs, in list form (`0-3,8`) and as masks (`00000000,0000010f`), so that the kernel's
//! different forms can be compared.
//!
//! Invariant: no text makes a set larger than [`CPUS_MAX`].

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};

/// Limit on CPU numbers; no machine has that many.
pub const CPUS_MAX: usize = 8192;

/// Limit on the length of a list: each CPU by itself.
const LIST_BYTES_MAX: usize = 6 * CPUS_MAX;

/// A set of CPUs, displayed in the kernel's list form.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Cpus(BTreeSet<usize>);

impl Cpus {
    /// Parses a list of numbers and ranges, including `0-15:2/4` (two of each four); empty text is
    /// the empty set.
    pub fn from_list(list: &str) -> Option<Cpus> {
        if list.len() > LIST_BYTES_MAX {
            return None;
        }
        let mut cpus = BTreeSet::new();
        for part in list.trim().split(',').map(str::trim) {
            if part.is_empty() {
                if list.trim().is_empty() {
                    break;
                }
                return None;
            }
            let (range, groups) = match part.split_once(':') {
                Some((range, groups)) => (range, Some(groups.split_once('/')?)),
                None => (part, None),
            };
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
            if first > last || last >= CPUS_MAX {
                return None;
            }
            let (used, group) = match groups {
                Some((used, group)) => (used.parse().ok()?, group.parse().ok()?),
                None => (1_usize, 1_usize),
            };
            if used == 0 || used > group {
                return None;
            }
            cpus.extend((first..=last).filter(|cpu| (cpu - first) % group < used));
        }
        Some(Cpus(cpus))
    }

    /// Parses a mask: groups of eight hexadecimal digits, the last one with CPU 0.
    pub fn from_mask(mask: &str) -> Option<Cpus> {
        let digits: String = mask.trim().split(',').collect();
        if digits.is_empty() || digits.len() > CPUS_MAX / 4 {
            return None;
        }
        let mut cpus = BTreeSet::new();
        for (place, digit) in digits.chars().rev().enumerate() {
            let digit = digit.to_digit(16)?;
            let of_digit = (0..4_usize).filter(|bit| digit & (1 << bit) != 0);
            cpus.extend(of_digit.map(|bit| place * 4 + bit));
        }
        Some(Cpus(cpus))
    }

    /// Returns the mask in the kernel's form.
    pub fn mask(&self) -> String {
        let groups = self.0.last().map_or(0, |last| last / 32) + 1;
        let group = |number: usize| {
            (0..32).fold(0_u32, |bits, bit| {
                let has = self.0.contains(&(number * 32 + bit));
                bits | (u32::from(has) << bit)
            })
        };
        let mut text = format!("{:x}", group(groups - 1));
        for number in (0..groups - 1).rev() {
            let _ = write!(text, ",{:08x}", group(number));
        }
        text
    }

    /// Returns the number of CPUs.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether the set contains a CPU.
    pub fn contains(&self, cpu: usize) -> bool {
        self.0.contains(&cpu)
    }

    /// Returns the CPU numbers in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().copied()
    }

    /// Returns the CPUs that are not in the other set.
    #[must_use]
    pub fn without(&self, other: &Cpus) -> Cpus {
        Cpus(self.0.difference(&other.0).copied().collect())
    }

    /// Returns the CPUs that are in both sets.
    #[must_use]
    pub fn and(&self, other: &Cpus) -> Cpus {
        Cpus(self.0.intersection(&other.0).copied().collect())
    }

    /// Returns the CPUs that are in either set.
    #[must_use]
    pub fn or(&self, other: &Cpus) -> Cpus {
        Cpus(self.0.union(&other.0).copied().collect())
    }
}

impl FromIterator<usize> for Cpus {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> Cpus {
        Cpus(cpus.into_iter().filter(|cpu| *cpu < CPUS_MAX).collect())
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.iter().copied().peekable();
        let mut between = "";
        while let Some(first) = rest.next() {
            let mut last = first;
            while rest.next_if_eq(&(last + 1)).is_some() {
                last += 1;
            }
            write!(f, "{between}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            between = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(list: &str, shown: &str, mask: &str) {
        let cpus = Cpus::from_list(list).unwrap();
        assert_eq!((cpus.to_string(), cpus.mask()), (shown.into(), mask.into()));
        assert_eq!(Cpus::from_mask(mask).unwrap(), cpus);
    }

    #[test]
    fn lists_and_masks_are_the_same_sets() {
        check("0-1", "0-1", "3");
        check("1,0,2", "0-2", "7");
        check("0-3,8", "0-3,8", "10f");
        check("32,33", "32-33", "3,00000000");
        check("0-15:2/4", "0-1,4-5,8-9,12-13", "3333");
        check("", "", "0");
    }

    #[test]
    fn what_is_no_set_is_none() {
        for list in [
            "a",
            "3-1",
            "0,,1",
            "8192",
            "0-99999999999",
            "0-7:0/4",
            "0-7:5/4",
        ] {
            assert_eq!(Cpus::from_list(list), None, "{list}");
        }
        for mask in ["", "g", "1 2"] {
            assert_eq!(Cpus::from_mask(mask), None, "{mask}");
        }
        assert_eq!(Cpus::from_mask(&"f".repeat(CPUS_MAX)), None);
    }

    proptest! {
        #[test]
        fn every_set_makes_the_round_trip(cpus in prop::collection::btree_set(0..300_usize, 0..40)) {
            let cpus: Cpus = cpus.into_iter().collect();
            prop_assert_eq!(Cpus::from_list(&cpus.to_string()), Some(cpus.clone()));
            prop_assert_eq!(Cpus::from_mask(&cpus.mask()), Some(cpus));
        }

        #[test]
        fn any_text_is_a_set_or_none(text in ".{0,40}") {
            let _ = Cpus::from_list(&text);
            let _ = Cpus::from_mask(&text);
        }
    }
}
