//! Assigns hosts, or blocks of time, to arms.

use crate::statistics::random::Random;

/// Fewer pairs than this cannot give p < 0.05, whatever is measured.
pub const PAIRS_MIN: usize = 6;

/// The arm of an experiment.
#[derive(Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Arm {
    /// Without the change.
    Control,
    /// With the change.
    Test,
}

/// Returns blocks of time in pairs, each pair with both arms in random order.
pub fn switchback(pairs: usize, seed: u64) -> Vec<Arm> {
    let mut random = Random::new(seed);
    let pair = |_| {
        if random.coin() {
            [Arm::Control, Arm::Test]
        } else {
            [Arm::Test, Arm::Control]
        }
    };
    (0..pairs).flat_map(pair).collect()
}

/// Returns the arms of hosts, given the block of each (its site and model).
///
/// Half of each block gets the change. In a block of odd size, a coin decides which arm has one
/// more host. A block of one host is in no arm.
pub fn hosts(blocks: &[String], seed: u64) -> Vec<Option<Arm>> {
    let mut random = Random::new(seed);
    let mut names: Vec<&String> = blocks.iter().collect();
    names.sort();
    names.dedup();
    let mut arms = vec![None; blocks.len()];
    for name in names {
        let mut members: Vec<usize> = (0..blocks.len())
            .filter(|at| blocks[*at] == *name)
            .collect();
        if members.len() < 2 {
            continue;
        }
        random.shuffle(&mut members);
        let more = members.len() % 2 == 1 && random.coin();
        let test = members.len() / 2 + usize::from(more);
        for (at, member) in members.into_iter().enumerate() {
            arms[member] = Some(if at < test { Arm::Test } else { Arm::Control });
        }
    }
    arms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_has_both_arms_and_the_seed_says_in_which_order() {
        let arms = switchback(50, 1);
        assert!(arms.chunks(2).all(|pair| pair[0] != pair[1]));
        assert_eq!(arms, switchback(50, 1));
        let first = arms.chunks(2).filter(|pair| pair[0] == Arm::Test).count();
        assert!((10..=40).contains(&first), "{first}");
    }

    #[test]
    fn every_site_is_halved() {
        let sites: Vec<String> = "aaaaaabbbbbcdd".chars().map(String::from).collect();
        for seed in 0..50 {
            let arms = hosts(&sites, seed);
            for site in ["a", "b", "d"] {
                let of = |arm| {
                    sites
                        .iter()
                        .zip(&arms)
                        .filter(|(name, is)| *name == site && **is == Some(arm))
                        .count()
                };
                let (test, control) = (of(Arm::Test), of(Arm::Control));
                assert!(
                    test.abs_diff(control) <= 1
                        && test + control == sites.iter().filter(|name| *name == site).count()
                );
            }
            assert_eq!(
                arms[11], None,
                "one host of a site has nothing to be compared with"
            );
        }
    }
}
