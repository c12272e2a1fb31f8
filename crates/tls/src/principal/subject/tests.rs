//! Subjects as Java 17 writes them: `tests/golden/subjects.txt`.

use proptest::prelude::*;

use super::{canonical_subject, decoded, subject_text};

const RECORDED: &str = include_str!("../../../tests/golden/subjects.txt");

fn bytes(hexadecimal: &str) -> Vec<u8> {
    let digits = hexadecimal.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.map(byte).collect()
}

#[test]
fn a_subject_is_written_as_java_writes_it() {
    let mut count = 0;
    for line in RECORDED.lines() {
        let (name, text) = line.split_once(' ').unwrap();
        let expect = String::from_utf8(bytes(text)).unwrap();
        assert_eq!(subject_text(&bytes(name)), Some(expect), "{name}");
        count += 1;
    }
    assert!(count > 100, "{count}");
}

/// Returns the DER of a name with one attribute in each part.
fn name(parts: &[(&[u8], u8, &[u8])]) -> Vec<u8> {
    let value = |tag: u8, content: &[u8]| {
        let mut value = vec![tag, u8::try_from(content.len()).unwrap()];
        value.extend_from_slice(content);
        value
    };
    let part = |&(kind, tag, text): &(&[u8], u8, &[u8])| {
        let inner = [value(6, kind), value(tag, text)].concat();
        value(0x31, &value(0x30, &inner))
    };
    value(0x30, &parts.iter().map(part).collect::<Vec<_>>().concat())
}

const CN: &[u8] = &[0x55, 4, 3];
const MAIL: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1];

#[test]
fn the_last_part_comes_first_and_mail_is_a_number() {
    let subject = name(&[
        (&[0x55, 4, 6], 0x13, b"US"),
        (MAIL, 0x16, b"a"),
        (CN, 0x0c, b"a,b"),
    ]);
    let expect = "CN=a\\,b,1.2.840.113549.1.9.1=#160161,C=US";
    assert_eq!(subject_text(&subject).as_deref(), Some(expect));
}

#[test]
fn what_is_no_name_is_none() {
    let sound = name(&[(CN, 0x0c, b"a")]);
    for end in 0..sound.len() {
        assert_eq!(subject_text(&sound[..end]), None, "{end}");
    }
    let behind = [sound, vec![0]].concat();
    assert_eq!(subject_text(&behind), None);
    assert_eq!(subject_text(&[0x30, 0x02, 0x31, 0x00]), None);
    assert_eq!(subject_text(&name(&[(&[0x80], 0x0c, b"a")])), None);
}

#[test]
fn names_that_differ_in_writing_only_are_the_same() {
    let canonical = |tag: u8, text: &[u8]| canonical_subject(&name(&[(CN, tag, text)])).unwrap();
    assert_eq!(
        canonical(0x0c, b"Broker  One "),
        canonical(0x13, b"broker one")
    );
    assert_ne!(canonical(0x0c, b"broker"), canonical(0x0c, b"broker1"));
    assert_ne!(canonical(0x0c, b"a\x02b"), canonical(0x0c, b"ab"));
    assert_ne!(canonical(0x02, b"a"), canonical(0x0c, b"a"));
}

#[test]
fn half_a_pair_of_utf_16_is_one_replacement() {
    assert_eq!(decoded(b"\xed\xa0\x80"), "\u{fffd}");
    assert_eq!(decoded(b"\xed\xa0A"), "\u{fffd}A");
    assert_eq!(decoded(b"a\xff\xc3\xa9"), "a\u{fffd}\u{e9}");
}

proptest! {
    #[test]
    fn any_bytes_are_a_text_or_none(bytes in any::<Vec<u8>>()) {
        let _ = subject_text(&bytes);
        let _ = canonical_subject(&bytes);
    }

    #[test]
    fn any_value_is_written(text in any::<Vec<u8>>().prop_filter("short", |it| it.len() < 100)) {
        let written = subject_text(&name(&[(CN, 0x0c, &text)])).unwrap();
        prop_assert!(written.starts_with("CN="));
    }

    #[test]
    fn utf_8_is_itself(text in "\\PC*") {
        prop_assert_eq!(decoded(text.as_bytes()), text);
    }
}
