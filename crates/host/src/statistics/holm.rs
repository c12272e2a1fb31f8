//! Holm's correction for several questions of one experiment: the smallest p must pass for all of
//! them, the next one for one fewer.

/// Returns each p adjusted for the number of questions, in the given order.
pub fn adjusted(ps: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..ps.len()).collect();
    order.sort_by(|one, two| ps[*one].total_cmp(&ps[*two]));
    let mut adjusted = vec![1.0; ps.len()];
    let mut least = 0.0_f64;
    for (rank, at) in order.into_iter().enumerate() {
        least = least.max(ps[at] * (ps.len() - rank) as f64).min(1.0);
        adjusted[at] = least;
    }
    adjusted
}
