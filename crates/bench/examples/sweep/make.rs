//! Bytes of a request of any shape: sensible, or with one array as long as it gets, one text as
//! long as it gets, or numbers at their extremes.
//!
//! Walks over the shapes that guard the broker's decoders, so a request that is added is made here
//! without being named. Not here: what a sensible value is ([`super::words`]), what is asked when
//! ([`super::cases`]).

use wire::kafka::Api;
use wire::kafka::shape::Shape;
use wire::kafka::shape::schema::{Field, FieldKind};

use crate::words::Words;

/// What every number is set to in turn; the last ones are what a float makes of such bits.
pub(crate) const EXTREMES: [i64; 13] = [
    i64::MIN,
    -1,
    0,
    1,
    i64::MAX,
    i64::MAX - 1,
    i64::MAX / 2 + 1,
    i64::MIN + 1,
    1 << 31,
    0x7ff8_0000_0000_0000,
    0x7ff0_0000_0000_0000,
    0x7fe1_ccf3_85eb_c8a0,
    -2,
];

/// What every text is set to in turn.
pub(crate) const ODD_TEXTS: [&str; 10] = [
    "",
    "-1",
    "9223372036854775807",
    "-9223372036854775808",
    "NaN",
    "5e-324",
    "..",
    "a,,b",
    "\u{1b}[2J\u{7}\n\u{9b}",
    "*",
];

/// Longest text that is read.
const TEXT_BYTES_MAX: usize = 32_767;

/// What is special about a request. A path names a field by those around it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Aim {
    /// Nothing.
    Plain,
    /// This number of items in an array.
    Many {
        path: String,
        count: usize,
        distinct: bool,
    },
    /// This number of bytes in bytes, or in a text if one may be as long.
    Long { path: String, bytes: usize },
    /// This number of bytes in a text, although none may be as long.
    Overlong { path: String, bytes: usize },
    /// One extreme (its index) at one number, or at all.
    Extreme { path: Option<String>, which: usize },
    /// One odd text (its index) at one text, or at all.
    Odd { path: Option<String>, which: usize },
}

/// A field that can be aimed at.
#[derive(Clone, Debug)]
pub(crate) struct FieldPlace {
    pub(crate) path: String,
    pub(crate) kind: FieldKind,
}

/// All fields of a request in a version, in order.
pub(crate) fn places(api: Api, version: i16) -> Vec<FieldPlace> {
    fn walk(fields: &[Field], version: i16, before: &str, found: &mut Vec<FieldPlace>) {
        for field in fields.iter().filter(|field| field.is_in(version)) {
            let path = format!("{before}{}", field.name);
            let kind = field.kind;
            found.push(FieldPlace {
                path: path.clone(),
                kind,
            });
            if let FieldKind::List(inner) | FieldKind::Optional(inner) = kind {
                walk(inner, version, &format!("{path}."), found);
            }
        }
    }
    let mut found = Vec::new();
    walk(Shape::fields_of(api), version, "", &mut found);
    found
}

/// The body of a request.
pub(crate) fn body(api: Api, version: i16, aim: &Aim, words: &Words) -> Vec<u8> {
    let mut maker = Maker {
        api,
        version,
        aim,
        words,
        flexible: api.is_flexible(version),
        path: String::new(),
        inside: false,
        counter: 0,
        out: Vec::new(),
    };
    maker.structure(Shape::fields_of(api));
    maker.out
}

/// A whole frame, its length before it.
pub(crate) fn frame(api: Api, version: i16, correlation: i32, body: &[u8]) -> Vec<u8> {
    const CLIENT: &[u8] = b"sweep";
    let mut head = Vec::with_capacity(24);
    head.extend(api.key().to_be_bytes());
    head.extend(version.to_be_bytes());
    head.extend(correlation.to_be_bytes());
    head.extend(5_i16.to_be_bytes());
    head.extend(CLIENT);
    if api.request_header_version(version) == 2 {
        head.push(0);
    }
    let length = u32::try_from(head.len() + body.len()).unwrap_or(u32::MAX);
    [&length.to_be_bytes()[..], &head, body].concat()
}

struct Maker<'a> {
    api: Api,
    version: i16,
    aim: &'a Aim,
    words: &'a Words,
    flexible: bool,
    path: String,
    /// In the array that is aimed at.
    inside: bool,
    /// Of the item in it.
    counter: u64,
    out: Vec<u8>,
}

impl Maker<'_> {
    fn structure(&mut self, fields: &'static [Field]) {
        for field in fields {
            if field.is_in(self.version) {
                let before = self.path.len();
                if before > 0 {
                    self.path.push('.');
                }
                self.path.push_str(field.name);
                self.value(field.kind);
                self.path.truncate(before);
            }
        }
        if self.flexible {
            self.out.push(0);
        }
    }

    fn value(&mut self, kind: FieldKind) {
        match kind {
            FieldKind::Fixed(width) => self.number(width),
            FieldKind::Text => self.text(),
            FieldKind::Blob => self.blob(),
            FieldKind::Optional(fields) => {
                self.out.push(1);
                self.structure(fields);
            }
            FieldKind::Each(element) => self.items(|maker| maker.value(*element)),
            FieldKind::List(fields) => self.items(|maker| maker.structure(fields)),
            FieldKind::Struct(fields) => self.structure(fields),
            // Requests are sent without tagged fields.
            FieldKind::Tagged(..) => {}
        }
    }

    fn items(&mut self, one: impl Fn(&mut Self)) {
        let aimed = match self.aim {
            Aim::Many { path, count, .. } if *path == self.path => Some(*count),
            _ => None,
        };
        let count = aimed.unwrap_or_else(|| self.words.count(&self.path));
        self.length(Some(count), true);
        for at in 0..count {
            if aimed.is_some() {
                (self.inside, self.counter) = (true, at as u64);
            }
            one(self);
        }
        if aimed.is_some() {
            self.inside = false;
        }
    }

    fn varies(&self) -> bool {
        self.inside && matches!(self.aim, Aim::Many { distinct: true, .. })
    }

    fn number(&mut self, width: usize) {
        let aimed = match self.aim {
            Aim::Extreme { path, which } => path
                .as_ref()
                .is_none_or(|path| *path == self.path)
                .then_some(*which),
            _ => None,
        };
        if width == 16 {
            let id = match aimed {
                Some(which) => [EXTREMES[which].to_be_bytes(); 2].as_flattened().to_vec(),
                None if self.varies() => u128::from(self.counter + 1).to_be_bytes().to_vec(),
                None => self.words.id(self.api, &self.path).to_vec(),
            };
            self.out.extend(id);
            return;
        }
        let number = match aimed {
            Some(which) => extreme(EXTREMES[which], width),
            // What is short says what is meant, and not which.
            None if self.varies() && width >= 4 => i64::try_from(self.counter).unwrap_or(0),
            None => self.words.number(self.api, &self.path),
        };
        self.out.extend(&number.to_be_bytes()[8 - width..]);
    }

    fn text(&mut self) {
        match self.aim {
            Aim::Long { path, bytes } if *path == self.path => {
                self.long(&list_of_names((*bytes).min(TEXT_BYTES_MAX)), false);
            }
            Aim::Overlong { path, bytes } if *path == self.path => {
                self.long(&list_of_names(*bytes), false);
            }
            Aim::Odd { path, which } if path.as_ref().is_none_or(|path| *path == self.path) => {
                self.long(ODD_TEXTS[*which].as_bytes(), false);
            }
            _ if self.varies() => {
                let name = short_name(self.counter);
                self.long(&name, false);
            }
            _ => match self.words.text(self.api, &self.path) {
                Some(text) => self.long(text.as_bytes(), false),
                None => self.length(None, false),
            },
        }
    }

    fn blob(&mut self) {
        let bytes = match self.aim {
            Aim::Long { path, bytes } if *path == self.path => {
                self.words.long_bytes(self.api, &self.path, *bytes)
            }
            _ => self.words.bytes(self.api, &self.path),
        };
        self.long(&bytes, true);
    }

    fn long(&mut self, bytes: &[u8], wide: bool) {
        let most = if self.flexible || wide {
            usize::MAX
        } else {
            TEXT_BYTES_MAX
        };
        let bytes = &bytes[..bytes.len().min(most)];
        self.length(Some(bytes.len()), wide);
        self.out.extend(bytes);
    }

    /// The length of an array or of bytes (wide), or of a text.
    fn length(&mut self, length: Option<usize>, wide: bool) {
        if self.flexible {
            let mut rest = length.map_or(0, |length| length + 1);
            while rest >= 0x80 {
                self.out.push((rest & 0x7f) as u8 | 0x80);
                rest >>= 7;
            }
            self.out.push((rest & 0x7f) as u8);
        } else if wide {
            let length = length.map_or(-1, |length| i32::try_from(length).unwrap_or(i32::MAX));
            self.out.extend(length.to_be_bytes());
        } else {
            let length = length.map_or(-1, |length| i16::try_from(length).unwrap_or(i16::MAX));
            self.out.extend(length.to_be_bytes());
        }
    }
}

/// The extreme as far as a number of this width has it.
fn extreme(value: i64, width: usize) -> i64 {
    let bits = 8 * u32::try_from(width).unwrap_or(8);
    // MIN stays the least and MAX the greatest of the width: their highest bits are what counts.
    match value {
        i64::MIN => i64::MIN >> (64 - bits),
        i64::MAX => i64::MAX >> (64 - bits),
        value if bits == 64 || (-2..=1).contains(&value) => value,
        value => value >> (64 - bits),
    }
}

/// A name that no other number has, as short as it gets.
fn short_name(mut number: u64) -> Vec<u8> {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz012345";
    let mut name = Vec::with_capacity(8);
    loop {
        name.push(LETTERS[(number % 32) as usize]);
        number /= 32;
        if number == 0 {
            return name;
        }
    }
}

/// Distinct short names with commas between: what is split somewhere is split into as many as there
/// are.
fn list_of_names(bytes: usize) -> Vec<u8> {
    let mut list = Vec::with_capacity(bytes + 8);
    let mut number = 0;
    while list.len() < bytes {
        list.extend(short_name(number));
        list.push(b',');
        number += 1;
    }
    list.truncate(bytes);
    list
}
