//! Reads DER one value after another: a tag and the bytes that it is about.
//!
//! Invariant: any bytes give values or `None`; nothing is copied, and a reader never goes back, so
//! reading ends. Not here: what values mean. Lengths that could be shorter are taken as they are.

/// Tags that are read here.
pub(crate) mod tag {
    pub(crate) const INTEGER: u8 = 0x02;
    pub(crate) const OCTET_STRING: u8 = 0x04;
    pub(crate) const OID: u8 = 0x06;
    pub(crate) const UTF8_STRING: u8 = 0x0c;
    pub(crate) const PRINTABLE_STRING: u8 = 0x13;
    pub(crate) const T61_STRING: u8 = 0x14;
    pub(crate) const IA5_STRING: u8 = 0x16;
    pub(crate) const GENERAL_STRING: u8 = 0x1b;
    pub(crate) const BMP_STRING: u8 = 0x1e;
    pub(crate) const SEQUENCE: u8 = 0x30;
    pub(crate) const SET: u8 = 0x31;
    /// The first value with a number instead of a type, implicit and around a value.
    pub(crate) const IMPLICIT_0: u8 = 0x80;
    pub(crate) const CONTEXT_0: u8 = 0xa0;
}

/// In tags of more than one byte, which nothing here uses, these bits of the first are all set.
const LONG_TAG: u8 = 0x1f;

/// One value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DerValue<'a> {
    /// The byte that says what it is.
    pub(crate) tag: u8,
    /// The bytes that it consists of.
    pub(crate) content: &'a [u8],
    /// The same with tag and length.
    pub(crate) whole: &'a [u8],
}

/// Reads values from the beginning of some bytes.
#[derive(Debug)]
pub(crate) struct DerReader<'a>(&'a [u8]);

impl<'a> DerReader<'a> {
    /// Reads from these bytes.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns what was not read.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// Returns true if everything was read.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads a value; `None` if there is none, or it is not whole.
    pub(crate) fn value(&mut self) -> Option<DerValue<'a>> {
        let (tag, rest) = self.0.split_first()?;
        if tag & LONG_TAG == LONG_TAG {
            return None;
        }
        let (length, rest) = length(rest)?;
        let (content, rest) = rest.split_at_checked(length)?;
        let whole = self.0.get(..self.0.len().checked_sub(rest.len())?)?;
        self.0 = rest;
        Some(DerValue {
            tag: *tag,
            content,
            whole,
        })
    }

    /// Reads a value that has to have this tag.
    pub(crate) fn tagged(&mut self, tag: u8) -> Option<DerValue<'a>> {
        self.value().filter(|value| value.tag == tag)
    }
}

/// Reads a length. One that is not known in advance is not DER.
fn length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (first, rest) = bytes.split_first()?;
    if *first < 0x80 {
        return Some((usize::from(*first), rest));
    }
    let count = usize::from(first & 0x7f);
    if !(1..=4).contains(&count) {
        return None;
    }
    let (digits, rest) = rest.split_at_checked(count)?;
    let mut length = 0_usize;
    for digit in digits {
        length = length.checked_mul(256)?.checked_add(usize::from(*digit))?;
    }
    Some((length, rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{DerReader, tag};

    #[test]
    fn values_are_read_in_their_order() {
        let bytes = [0x30, 0x03, 0x06, 0x01, 0x55, 0x0c, 0x81, 0x01, b'x'];
        let mut reader = DerReader::new(&bytes);
        let sequence = reader.tagged(tag::SEQUENCE).unwrap();
        assert_eq!(sequence.content, [0x06, 0x01, 0x55]);
        assert_eq!(sequence.whole, &bytes[..5]);
        assert_eq!(reader.tagged(tag::UTF8_STRING).unwrap().content, b"x");
        assert!(reader.is_empty() && reader.value().is_none());
    }

    #[test]
    fn what_is_no_whole_value_is_none() {
        for bytes in [
            &[0x30][..],
            &[0x30, 0x02, 0x01],
            &[0x30, 0x80, 0x00, 0x00],
            &[0x1f, 0x81, 0x01, 0x00],
            &[0x30, 0x85, 0, 0, 0, 0, 0],
            &[0x30, 0x84, 0xff, 0xff, 0xff, 0xff],
        ] {
            assert_eq!(DerReader::new(bytes).value(), None, "{bytes:?}");
        }
        assert_eq!(DerReader::new(&[0x31, 0]).tagged(tag::SEQUENCE), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_to_an_end(bytes in any::<Vec<u8>>()) {
            let mut reader = DerReader::new(&bytes);
            let mut total = 0;
            while let Some(value) = reader.value() {
                total += value.whole.len();
            }
            prop_assert!(total <= bytes.len());
        }
    }
}
