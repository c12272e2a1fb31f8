//! JSON that is read strictly: no name twice in one object, and bounds on depth and values.
//!
//! Two readers of one token must not see two claims. Numbers are whole or they are no value that
//! anything here takes, so that none is rounded.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Deepest nesting: some times that of real tokens, and far from the end of a stack.
const DEPTH_MAX: usize = 16;

/// A value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Json {
    /// A whole number without point and exponent.
    Integer(i64),
    /// Text.
    Text(String),
    // Bounded: the values that `read` allows.
    List(Vec<Self>),
    Object(Object),
    /// Another: null, true, false, and every other number.
    Other,
}

/// The members of an object.
// Bounded: the values that `read` allows.
pub(super) type Object = BTreeMap<String, Json>;

impl Json {
    /// Reads an object and nothing else; `None` if it is none, or has more than `values_max` values
    /// in it.
    pub(super) fn object(bytes: &[u8], values_max: usize) -> Option<Object> {
        let mut reader = serde_json::Deserializer::from_slice(bytes);
        let left = Cell::new(values_max);
        let seed = Seed {
            depth_left: DEPTH_MAX,
            left: &left,
        };
        let read = seed.deserialize(&mut reader).ok()?;
        reader.end().ok()?;
        match read {
            Self::Object(object) => Some(object),
            _ => None,
        }
    }

    /// Returns the text, if it is one.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Reads one value, as long as there is room for it.
#[derive(Clone, Copy)]
struct Seed<'a> {
    depth_left: usize,
    left: &'a Cell<usize>,
}

impl Seed<'_> {
    fn deeper<E: Error>(self) -> Result<Self, E> {
        let depth_left = self.depth_left.checked_sub(1);
        let depth_left = depth_left.ok_or_else(|| E::custom("too deep"))?;
        Ok(Self { depth_left, ..self })
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Json, D::Error> {
        let left = self.left.get().checked_sub(1);
        let left = left.ok_or_else(|| D::Error::custom("too many values"))?;
        self.left.set(left);
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Json;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a value")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Json, E> {
        Ok(Json::Other)
    }

    fn visit_unit<E: Error>(self) -> Result<Json, E> {
        Ok(Json::Other)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Json, E> {
        Ok(Json::Integer(number))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Json, E> {
        Ok(i64::try_from(number).map_or(Json::Other, Json::Integer))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Json, E> {
        Ok(Json::Other)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Json, E> {
        Ok(Json::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let seed = self.deeper()?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(seed)? {
            list.push(item);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Json, A::Error> {
        let seed = self.deeper()?;
        let mut object = Object::new();
        while let Some(name) = members.next_key::<String>()? {
            let value = members.next_value_seed(seed)?;
            if object.insert(name, value).is_some() {
                return Err(A::Error::custom("a name twice"));
            }
        }
        Ok(Json::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Option<Object> {
        Json::object(text.as_bytes(), 100)
    }

    #[test]
    fn an_object_has_each_name_once_at_every_depth() {
        let found = read(r#"{"a":1,"b":[{"a":"x"}],"c":null,"d":-3}"#).unwrap();
        assert_eq!(found["a"], Json::Integer(1));
        assert_eq!(found["d"], Json::Integer(-3));
        assert_eq!(found["c"], Json::Other);
        for twice in [
            r#"{"a":1,"a":1}"#,
            r#"{"a":1,"\u0061":2}"#,
            r#"{"b":{"a":1,"a":2}}"#,
            r#"{"b":[{"a":1,"a":2}]}"#,
        ] {
            assert_eq!(read(twice), None, "{twice}");
        }
    }

    #[test]
    fn a_number_is_whole_or_no_number() {
        for other in [
            "1.0",
            "1e3",
            "1E3",
            "0.5",
            "-0",
            "9223372036854775808",
            "1e400",
            "-1e-9",
        ] {
            let read = read(&format!(r#"{{"a":{other}}}"#));
            assert!(read.is_none_or(|read| read["a"] == Json::Other), "{other}");
        }
        let most = read(&format!(r#"{{"a":{}}}"#, i64::MAX)).unwrap();
        assert_eq!(most["a"], Json::Integer(i64::MAX));
    }

    #[test]
    fn what_is_no_object_or_too_much_is_refused() {
        let deep = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
        assert!(read(&deep(DEPTH_MAX - 1)).is_some());
        assert_eq!(read(&deep(DEPTH_MAX)), None);
        assert_eq!(read(&deep(100_000)), None);
        let many = |count: usize| format!("{{\"a\":[{}0]}}", "0,".repeat(count));
        assert!(read(&many(90)).is_some());
        assert_eq!(read(&many(100)), None);
        for text in [
            "",
            "1",
            "[]",
            "{}x",
            "{} {}",
            "{\"a\":}",
            "{\"a\":\"\\ud800\"}",
            "{'a':1}",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(Json::object(b"{\"a\":\"\xff\"}", 9), None);
    }

    proptest! {
        #[test]
        fn whatever_comes_is_an_object_or_none(bytes: Vec<u8>, text in "[\\[\\]{}\",:a0-9.eE-]{0,60}") {
            let _ = Json::object(&bytes, 1000);
            let _ = read(&text);
        }
    }
}
