//! The permutation test for hosts in two arms: if the arms were equal, any host of a block could be
//! in either.

use super::random::Random;
use super::{ASSIGNMENTS_MAX, tolerance};

/// The hosts of a block: each host's value, and whether it is in the test arm.
pub type Block = Vec<(f64, bool)>;

/// Returns the mean of the test arm minus that of the control arm, over blocks weighted by their
/// number of hosts.
///
/// None if a block has only one arm.
pub fn difference(blocks: &[Block]) -> Option<f64> {
    let mut sum = 0.0;
    let mut hosts = 0.0;
    for block in blocks {
        let of = |test: bool| -> Vec<f64> {
            let arm = block.iter().filter(|(_, is_test)| *is_test == test);
            arm.map(|(value, _)| *value).collect()
        };
        let (test, control) = (of(true), of(false));
        if test.is_empty() || control.is_empty() {
            return None;
        }
        sum += (super::mean(&test) - super::mean(&control)) * block.len() as f64;
        hosts += block.len() as f64;
    }
    (hosts > 0.0).then(|| sum / hosts)
}

/// Returns the share of all assignments within blocks whose difference is at least as large as the
/// observed one.
///
/// It is exact up to [`ASSIGNMENTS_MAX`] assignments, otherwise estimated from that many drawn
/// ones.
pub fn p(blocks: &[Block], seed: u64) -> Option<f64> {
    let seen = difference(blocks)?.abs();
    let least = seen - tolerance(seen);
    if assignments(blocks)? <= ASSIGNMENTS_MAX as f64 {
        let (mut as_far, mut all) = (0_usize, 0_usize);
        each(&mut blocks.to_vec(), 0, &mut |blocks| {
            all += 1;
            as_far += usize::from(difference(blocks).is_some_and(|found| found.abs() >= least));
        });
        return Some(as_far as f64 / all as f64);
    }
    let mut random = Random::new(seed);
    let mut drawn = blocks.to_vec();
    let mut as_far = 0;
    for _ in 0..ASSIGNMENTS_MAX {
        for block in &mut drawn {
            let mut arms: Vec<bool> = block.iter().map(|(_, test)| *test).collect();
            random.shuffle(&mut arms);
            for (host, test) in block.iter_mut().zip(arms) {
                host.1 = test;
            }
        }
        as_far += usize::from(difference(&drawn).is_some_and(|found| found.abs() >= least));
    }
    Some((as_far + 1) as f64 / (ASSIGNMENTS_MAX + 1) as f64)
}

/// Returns the number of assignments; none if a block has only one arm.
pub fn assignments(blocks: &[Block]) -> Option<f64> {
    let mut all = 1.0;
    for block in blocks {
        let test = block.iter().filter(|(_, test)| *test).count();
        let hosts = block.len();
        if test == 0 || test == hosts {
            return None;
        }
        for at in 0..test {
            all *= (hosts - at) as f64 / (at + 1) as f64;
        }
    }
    Some(all)
}

/// Shows every assignment of the blocks from `at` on.
fn each(blocks: &mut Vec<Block>, at: usize, show: &mut dyn FnMut(&[Block])) {
    if at == blocks.len() {
        show(blocks);
        return;
    }
    let hosts = blocks[at].len();
    let test = blocks[at].iter().filter(|(_, test)| *test).count();
    // Every combination of `test` of the block's hosts, in lexicographic order.
    let mut chosen: Vec<usize> = (0..test).collect();
    loop {
        for (place, host) in blocks[at].iter_mut().enumerate() {
            host.1 = chosen.contains(&place);
        }
        each(blocks, at + 1, show);
        let Some(turn) = (0..test)
            .rev()
            .find(|turn| chosen[*turn] < hosts - test + turn)
        else {
            return;
        };
        chosen[turn] += 1;
        for later in turn + 1..test {
            chosen[later] = chosen[later - 1] + 1;
        }
    }
}
