//! The topics in a consumer's subscription, which is otherwise opaque to the coordinator.
//!
//! Layout (every version begins like version 0): version (16 bits), count (32), names (16-bit
//! length, bytes). What comes after is not read.

use std::collections::{BTreeSet, HashSet};

/// Most topic names read from all members of a group; with more, the topics are unknown.
///
/// They are read in every rebalance, without a pause.
const NAMES_MAX: usize = 200_000;

/// Returns the topics of the members' subscriptions; `None` when one cannot be read or there are
/// too many names.
///
/// Members mostly have equal subscriptions; equal ones are read once.
pub(super) fn of_all<'a>(members: impl Iterator<Item = &'a [u8]>) -> Option<BTreeSet<String>> {
    let (mut seen, mut all) = (HashSet::new(), BTreeSet::new());
    let mut left = NAMES_MAX;
    for subscription in members {
        if seen.insert(subscription) {
            read(subscription, &mut left, &mut all)?;
        }
    }
    Some(all.into_iter().map(str::to_owned).collect())
}

fn read<'a>(mut bytes: &'a [u8], left: &mut usize, topics: &mut BTreeSet<&'a str>) -> Option<()> {
    let version = i16::from_be_bytes(take(&mut bytes)?);
    if version < 0 {
        return None;
    }
    let count = i32::from_be_bytes(take(&mut bytes)?);
    *left = left.checked_sub(usize::try_from(count).ok()?)?;
    for _ in 0..count {
        let length = usize::try_from(i16::from_be_bytes(take(&mut bytes)?)).ok()?;
        let (name, rest) = bytes.split_at_checked(length)?;
        topics.insert(std::str::from_utf8(name).ok()?);
        bytes = rest;
    }
    Some(())
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topics(bytes: &[u8]) -> Option<BTreeSet<String>> {
        of_all([bytes].into_iter())
    }

    fn subscription(names: usize) -> Vec<u8> {
        let count = u32::try_from(names).unwrap();
        let mut bytes = vec![0, 0];
        bytes.extend(count.to_be_bytes());
        for name in 0..count {
            bytes.extend([0, 4]);
            bytes.extend((name % (1 << 20) + (1 << 20)).to_string().as_bytes()[3..].iter());
        }
        bytes
    }

    #[test]
    fn what_many_members_say_alike_is_read_once_and_too_much_is_not_read() {
        let (few, many) = (subscription(1000), subscription(NAMES_MAX - 1000));
        let alike = std::iter::repeat_n(&few[..], 5000);
        let all = of_all(alike.chain([&many[..]])).unwrap();
        assert_eq!(all.len(), 10_000);
        let more = subscription(1);
        assert_eq!(of_all([&few[..], &many[..], &more[..]].into_iter()), None);
    }

    #[test]
    fn topics_are_read_and_what_follows_is_not() {
        let found = topics(b"\x00\x03\x00\x00\x00\x02\x00\x01a\x00\x02bc\xff\xff");
        let names: Vec<String> = found.unwrap().into_iter().collect();
        assert_eq!(names, ["a", "bc"]);
        assert_eq!(
            topics(b"\x00\x00\x00\x00\x00\x00").map(|names| names.len()),
            Some(0)
        );
    }

    #[test]
    fn what_is_no_subscription_has_no_topics() {
        for bad in [
            &b""[..],
            b"\xff\xff\x00\x00\x00\x00",
            b"\x00\x00\xff\xff\xff\xff",
            b"\x00\x00\x00\x00\x00\x01\x00\x05a",
            b"\x00\x00\x7f\xff\xff\xff",
        ] {
            assert_eq!(topics(bad), None, "{bad:?}");
        }
    }
}
