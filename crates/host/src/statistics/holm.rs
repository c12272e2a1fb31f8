//! Several questions of one experiment (Holm): the smallest p has to pass all of them, the next one fewer.

/// Each p, made larger for that it is one of several. In the given order.
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
