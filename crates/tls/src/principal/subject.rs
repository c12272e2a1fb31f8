//! A subject as text, to the byte as `X500Principal.getName()` of Java 17 writes it (RFC 2253):
//! ACLs name clients by it.
//!
//! The last attribute comes first. `CN`, `C`, `L`, `ST`, `O`, `OU`, `STREET`, `DC` and `UID` have
//! their names; any other type is its number, and its value the bytes in hexadecimal, so an e-mail
//! address is `1.2.840.113549.1.9.1=#16..`. Java takes the bytes of every string for UTF-8, those
//! of a `BMPString` too, and replaces what is none.
//!
//! Invariant: any bytes give a text of bounded length or `None`. Not here: what follows from it.

use std::fmt::Write as _;

use crate::der::{DerReader, DerValue, tag};

/// Longer subjects are not read. Java takes them; no certificate that is meant has one.
const SUBJECT_BYTES_MAX: usize = 4096;

/// Types of attributes that have a name: the bytes of the number, and the name.
const NAMED: &[(&[u8], &str)] = &[
    (&[0x55, 4, 3], "CN"),
    (&[0x55, 4, 6], "C"),
    (&[0x55, 4, 7], "L"),
    (&[0x55, 4, 8], "ST"),
    (&[0x55, 4, 10], "O"),
    (&[0x55, 4, 11], "OU"),
    (&[0x55, 4, 9], "STREET"),
    (
        &[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25],
        "DC",
    ),
    (
        &[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1],
        "UID",
    ),
];

/// Characters that are escaped wherever they are.
const ESCAPED: &str = ",=+<>#;\"\\";

/// Returns the text of the name whose DER is `name`; `None` if it is no name or too long.
pub fn subject_text(name: &[u8]) -> Option<String> {
    let mut parts = each_part(name)?
        .iter()
        .map(|part| text_of_part(part))
        .collect::<Option<Vec<String>>>()?;
    parts.reverse();
    let text = parts.join(",");
    (text.len() <= SUBJECT_BYTES_MAX).then_some(text)
}

/// Returns a text that is the same for names that differ in upper and lower case, in the kind of
/// their strings, in spaces, or in the order of attributes in one part only; `None` for what is no
/// name. It is for comparisons, not for display.
pub fn canonical_subject(name: &[u8]) -> Option<String> {
    let mut canonical = String::new();
    for part in each_part(name)? {
        let mut attributes = part.iter().map(canonical_attribute).collect::<Vec<_>>();
        attributes.sort();
        // Control characters separate: values have none of these, they are taken out above.
        let _ = write!(canonical, "{}\u{1}", attributes.join("\u{2}"));
    }
    Some(canonical)
}

/// One attribute: the bytes of its type, and its value.
struct Attribute<'a> {
    kind: &'a [u8],
    value: DerValue<'a>,
}

/// Reads the parts of a name, each with its attributes, in the order in which they are written.
fn each_part(name: &[u8]) -> Option<Vec<Vec<Attribute<'_>>>> {
    if name.len() > SUBJECT_BYTES_MAX {
        return None;
    }
    let mut reader = DerReader::new(name);
    let sequence = reader.tagged(tag::SEQUENCE)?;
    if !reader.is_empty() {
        return None;
    }
    let mut parts = Vec::new();
    let mut reader = DerReader::new(sequence.content);
    while !reader.is_empty() {
        let mut inner = DerReader::new(reader.tagged(tag::SET)?.content);
        let mut part = vec![attribute(&mut inner)?];
        while !inner.is_empty() {
            part.push(attribute(&mut inner)?);
        }
        parts.push(part);
    }
    Some(parts)
}

fn attribute<'a>(reader: &mut DerReader<'a>) -> Option<Attribute<'a>> {
    let mut inner = DerReader::new(reader.tagged(tag::SEQUENCE)?.content);
    let kind = inner.tagged(tag::OID)?.content;
    let value = inner.value()?;
    inner.is_empty().then_some(Attribute { kind, value })
}

fn text_of_part(part: &[Attribute<'_>]) -> Option<String> {
    let each = part.iter().map(text_of_attribute);
    Some(each.collect::<Option<Vec<_>>>()?.join("+"))
}

fn text_of_attribute(attribute: &Attribute<'_>) -> Option<String> {
    let named = NAMED.iter().find(|(kind, _)| *kind == attribute.kind);
    match named {
        Some((_, name)) if is_string(attribute.value.tag) => Some(format!(
            "{name}={}",
            escaped(&decoded(attribute.value.content))
        )),
        Some((_, name)) => Some(format!("{name}=#{}", hexadecimal(attribute.value.whole))),
        None => {
            let number = number(attribute.kind)?;
            Some(format!("{number}=#{}", hexadecimal(attribute.value.whole)))
        }
    }
}

fn canonical_attribute(attribute: &Attribute<'_>) -> String {
    let kind = hexadecimal(attribute.kind);
    if !is_string(attribute.value.tag) {
        return format!("{kind}#{}", hexadecimal(attribute.value.whole));
    }
    let text = decoded(attribute.value.content).to_lowercase();
    let words: Vec<&str> = text
        .split(|letter: char| letter.is_whitespace() || letter.is_control())
        .filter(|word| !word.is_empty())
        .collect();
    format!("{kind}={}", words.join(" "))
}

fn is_string(tag: u8) -> bool {
    [
        tag::PRINTABLE_STRING,
        tag::UTF8_STRING,
        tag::T61_STRING,
        tag::IA5_STRING,
        tag::GENERAL_STRING,
        tag::BMP_STRING,
    ]
    .contains(&tag)
}

/// Escapes what RFC 2253 says, and what Java escapes besides: `=`, `#` anywhere, and zero.
fn escaped(text: &str) -> String {
    let mut inner = String::with_capacity(text.len());
    for letter in text.chars() {
        if ESCAPED.contains(letter) {
            inner.push('\\');
        }
        if letter == '\0' {
            inner.push_str("\\00");
        } else {
            inner.push(letter);
        }
    }
    let is_blank = |letter: char| letter == ' ' || letter == '\r';
    let without_start = inner.trim_start_matches(is_blank);
    let middle = without_start.trim_end_matches(is_blank);
    let before = inner.len().saturating_sub(without_start.len());
    let after = without_start.len().saturating_sub(middle.len());
    let mut escaped = String::with_capacity(inner.len());
    let blanks = |blanks: &str, to: &mut String| {
        for blank in blanks.chars() {
            to.extend(['\\', blank]);
        }
    };
    blanks(inner.get(..before).unwrap_or_default(), &mut escaped);
    escaped.push_str(middle);
    let end = without_start.len().saturating_sub(after);
    blanks(without_start.get(end..).unwrap_or_default(), &mut escaped);
    escaped
}

/// Takes bytes for UTF-8 as Java does: the replacement character stands in the place of what is
/// none. Three bytes that would be half of a pair of UTF-16 have one such place, where Rust gives
/// them three.
fn decoded(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    let mut rest = bytes;
    while !rest.is_empty() {
        let valid = match std::str::from_utf8(rest) {
            Ok(valid) => {
                text.push_str(valid);
                break;
            }
            Err(error) => error.valid_up_to(),
        };
        let (valid, after) = rest.split_at_checked(valid).unwrap_or((rest, &[]));
        text.push_str(std::str::from_utf8(valid).unwrap_or_default());
        text.push(char::REPLACEMENT_CHARACTER);
        let skipped = malformed(after).clamp(1, after.len().max(1));
        rest = after.get(skipped..).unwrap_or_default();
    }
    text
}

/// Returns how many bytes one replacement stands for.
fn malformed(bytes: &[u8]) -> usize {
    let is_next = |byte: &u8| byte & 0xc0 == 0x80;
    match bytes {
        [0xed, 0xa0..=0xbf, third, ..] if is_next(third) => 3,
        [0xed, 0xa0..=0xbf, ..] => 2,
        _ => match std::str::from_utf8(bytes) {
            Err(error) => error.error_len().unwrap_or(bytes.len()),
            Ok(_) => 1,
        },
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().saturating_mul(2));
    for byte in bytes {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Returns the type of an attribute as numbers with dots; `None` if the bytes are none.
fn number(bytes: &[u8]) -> Option<String> {
    let mut text = String::new();
    let mut arc = 0_u128;
    let mut is_whole = false;
    for byte in bytes {
        arc = arc.checked_mul(128)?.checked_add(u128::from(byte & 0x7f))?;
        is_whole = byte & 0x80 == 0;
        if !is_whole {
            continue;
        }
        if text.is_empty() {
            // The first two are in one.
            let first = (arc / 40).min(2);
            let second = arc.checked_sub(first.checked_mul(40)?)?;
            let _ = write!(text, "{first}.{second}");
        } else {
            let _ = write!(text, ".{arc}");
        }
        arc = 0;
    }
    is_whole.then_some(text)
}

#[cfg(test)]
mod tests;
