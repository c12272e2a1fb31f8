//! The topics in a consumer's subscription, which is otherwise opaque to the coordinator.
//!
//! Layout (every version begins like version 0): version (16 bits), count (32), names (16-bit
//! length, bytes). What comes after is not read.

use std::collections::BTreeSet;

/// Topics of a subscription; `None` when it is not one.
pub(super) fn topics(mut bytes: &[u8]) -> Option<BTreeSet<String>> {
    let version = i16::from_be_bytes(take(&mut bytes)?);
    if version < 0 {
        return None;
    }
    let count = i32::from_be_bytes(take(&mut bytes)?);
    let mut topics = BTreeSet::new();
    for _ in 0..u32::try_from(count).ok()? {
        let length = usize::try_from(i16::from_be_bytes(take(&mut bytes)?)).ok()?;
        let (name, rest) = bytes.split_at_checked(length)?;
        topics.insert(std::str::from_utf8(name).ok()?.to_owned());
        bytes = rest;
    }
    Some(topics)
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use super::topics;

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
