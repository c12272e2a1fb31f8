//! Which tiers may hold a topic: `channel.type`, and the names in `storage.tier.min` and
//! `storage.tier.max`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::kind::{InvalidSetting, invalid};

const MIN: &str = "storage.tier.min";
const MAX: &str = "storage.tier.max";

/// Returns the fastest and the slowest tier, by index, for the texts of the three settings; `None`:
/// any.
///
/// A tier name that no longer exists is ignored.
pub(super) fn pins(
    tiers: &[Arc<str>],
    channel: &str,
    min: &str,
    max: &str,
) -> Option<(usize, usize)> {
    let last = tiers.len().checked_sub(1)?;
    let (of_channel_min, of_channel_max) = match channel {
        "file" => (last, last),
        "pmem" => (0, 0),
        _ => (0, last),
    };
    let (min, max) = (position(tiers, min), position(tiers, max));
    // A tier name takes precedence over `channel.type`: it moves the other bound if necessary.
    let (fastest, slowest) = match (min, max) {
        (Some(min), Some(max)) => (min, max.max(min)),
        (Some(min), None) => (min, of_channel_max.max(min)),
        (None, Some(max)) => (of_channel_min.min(max), max),
        (None, None) => (of_channel_min, of_channel_max),
    };
    ((fastest, slowest) != (0, last)).then_some((fastest, slowest))
}

/// Refuses unknown tier names, and a fastest tier that is slower than the slowest.
pub(super) fn check(
    settings: &BTreeMap<String, String>,
    tiers: &[Arc<str>],
) -> Result<(), InvalidSetting> {
    let mut bounds = [None, None];
    for (name, bound) in [MIN, MAX].into_iter().zip(&mut bounds) {
        let Some(tier) = settings.get(name).map(|text| text.trim()) else {
            continue;
        };
        *bound = position(tiers, tier);
        if bound.is_none() && !tier.is_empty() {
            let message = if tiers.is_empty() {
                "storage.tiers of the broker names no tiers".to_owned()
            } else {
                format!("String must be one of: {}", tiers.join(", "))
            };
            return Err(invalid(name, tier, &message));
        }
    }
    match bounds {
        [Some(min), Some(max)] if min > max => Err(InvalidSetting(format!(
            "conflict topic config setting {MIN} ({}) is slower than {MAX} ({})",
            tiers[min], tiers[max]
        ))),
        _ => Ok(()),
    }
}

fn position(tiers: &[Arc<str>], name: &str) -> Option<usize> {
    tiers.iter().position(|tier| **tier == *name.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiers() -> Vec<Arc<str>> {
        ["fast", "bulk", "deep"].map(Arc::from).to_vec()
    }

    fn check_pins(channel: &str, min: &str, max: &str, expect: Option<(usize, usize)>) {
        assert_eq!(
            pins(&tiers(), channel, min, max),
            expect,
            "{channel} {min} {max}"
        );
    }

    #[test]
    fn channel_types_are_words_for_the_ends_of_the_list() {
        check_pins("tiered", "", "", None);
        check_pins("mix", "", "", None);
        check_pins("file", "", "", Some((2, 2)));
        check_pins("pmem", "", "", Some((0, 0)));
        assert_eq!(pins(&[], "file", "", ""), None);
    }

    #[test]
    fn names_win_over_the_channel_type() {
        check_pins("tiered", "bulk", "", Some((1, 2)));
        check_pins("tiered", "", "bulk", Some((0, 1)));
        check_pins("pmem", "bulk", "", Some((1, 1)));
        check_pins("file", "", "bulk", Some((1, 1)));
        check_pins("file", "fast", "deep", None);
        check_pins("tiered", "gone", "", None);
    }

    fn check_refused(settings: &[(&str, &str)], tiers: &[Arc<str>], expect: &str) {
        let settings = settings
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        let said = check(&settings.collect(), tiers).map_err(|error| error.to_string());
        assert_eq!(said, Err(expect.to_owned()));
    }

    #[test]
    fn names_of_no_tier_are_refused() {
        check_refused(
            &[(MIN, "slow")],
            &tiers(),
            "Invalid value slow for configuration storage.tier.min: \
             String must be one of: fast, bulk, deep",
        );
        check_refused(
            &[(MAX, "fast")],
            &[],
            "Invalid value fast for configuration storage.tier.max: \
             storage.tiers of the broker names no tiers",
        );
        check_refused(
            &[(MIN, "deep"), (MAX, "fast")],
            &tiers(),
            "conflict topic config setting storage.tier.min (deep) is slower than storage.tier.max (fast)",
        );
    }
}
