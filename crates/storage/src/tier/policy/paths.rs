//! Chooses which path of a tier gets the next bytes, by remaining room and speed, never by count.

use super::levels::share;
use super::settings::PolicySettings;
use super::view::{PathView, TierView};

/// Returns the best open path of `tier` with room for `bytes`; `None` if there is none.
pub fn choose_path(tier: &TierView, bytes: u64) -> Option<usize> {
    best(tier, |path| path.free_bytes() >= bytes)
}

/// Returns the same for a sealed segment, which must leave the path its reserve.
pub(super) fn choose_for_sealed(
    tier: &TierView,
    bytes: u64,
    settings: &PolicySettings,
) -> Option<usize> {
    best(tier, |path| {
        let reserve = if tier.sealed_only {
            0.0
        } else {
            settings.reserve
        };
        let limit = share(path.capacity_bytes, 1.0 - reserve);
        path.free_bytes() >= bytes && path.settled_bytes().saturating_add(bytes) <= limit
    })
}

fn best(tier: &TierView, fits: impl Fn(&PathView) -> bool) -> Option<usize> {
    let typical = typical_rate(tier);
    let fitting = tier.open_paths().filter(|(_, path)| fits(path));
    let worth = fitting.map(|(index, path)| (worth(path, typical), index));
    // Of equal paths the first wins: the order in the setting is the operator's choice.
    let better = |a: (f64, usize), b: (f64, usize)| if b.0 > a.0 { b } else { a };
    worth.reduce(better).map(|(_, index)| index)
}

/// Returns the room that will be left when the active segments have grown, weighted by the speed of
/// the path.
///
/// A path that is twice as fast counts as much as one with twice the room.
#[expect(
    clippy::cast_precision_loss,
    reason = "only compared with others like it"
)]
fn worth(path: &PathView, typical: u64) -> f64 {
    let left = path.free_bytes() as f64 - path.expected_bytes as f64;
    let rate = match path.bytes_per_second {
        0 => typical,
        known => known,
    };
    let rate = rate.max(1) as f64;
    if left >= 0.0 {
        left * rate
    } else {
        left / rate
    }
}

/// Returns the rate assumed for a path of unknown speed: the mean of the known ones.
fn typical_rate(tier: &TierView) -> u64 {
    let rates = tier.paths.iter().map(|path| path.bytes_per_second);
    let known: Vec<u64> = rates.filter(|rate| *rate > 0).collect();
    let sum = known
        .iter()
        .fold(0, |sum: u64, rate| sum.saturating_add(*rate));
    sum.checked_div(known.len() as u64).unwrap_or(1)
}
