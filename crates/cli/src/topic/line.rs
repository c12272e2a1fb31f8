//! A record as a line of JSON, written by `topic consume` and read by `topic produce --input json`.
//!
//! Bytes that are text are in `key` and `value`; other bytes are in `key_base64` and
//! `value_base64`. A null is null.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};

/// The line.
#[derive(Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Line {
    #[serde(default)]
    pub(super) topic: Option<String>,
    #[serde(default)]
    pub(super) partition: Option<i32>,
    #[serde(default)]
    pub(super) offset: Option<i64>,
    #[serde(default)]
    pub(super) timestamp: Option<i64>,
    #[serde(default)]
    key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key_base64: Option<String>,
    #[serde(default)]
    value: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value_base64: Option<String>,
    #[serde(default)]
    headers: Vec<HeaderLine>,
}

/// A header of the record.
#[derive(PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HeaderLine {
    key: String,
    #[serde(default)]
    value: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value_base64: Option<String>,
}

impl Line {
    pub(super) fn with_key(mut self, key: Option<&[u8]>) -> Self {
        (self.key, self.key_base64) = split(key);
        self
    }

    pub(super) fn with_value(mut self, value: Option<&[u8]>) -> Self {
        (self.value, self.value_base64) = split(value);
        self
    }

    pub(super) fn add_header(&mut self, key: &str, value: Option<&[u8]>) {
        let (value, value_base64) = split(value);
        self.headers.push(HeaderLine {
            key: key.to_owned(),
            value,
            value_base64,
        });
    }

    pub(super) fn key(&self) -> anyhow::Result<Option<Vec<u8>>> {
        join(self.key.as_deref(), self.key_base64.as_deref())
    }

    pub(super) fn value(&self) -> anyhow::Result<Option<Vec<u8>>> {
        join(self.value.as_deref(), self.value_base64.as_deref())
    }

    pub(super) fn headers(&self) -> anyhow::Result<Vec<(String, Option<Vec<u8>>)>> {
        let headers = self.headers.iter().map(|header| {
            let value = join(header.value.as_deref(), header.value_base64.as_deref())?;
            Ok((header.key.clone(), value))
        });
        headers.collect()
    }
}

/// Returns bytes as text, otherwise as base64.
fn split(bytes: Option<&[u8]>) -> (Option<String>, Option<String>) {
    match bytes.map(|bytes| (bytes, str::from_utf8(bytes))) {
        None => (None, None),
        Some((_, Ok(text))) => (Some(text.to_owned()), None),
        Some((bytes, Err(_))) => (None, Some(BASE64_STANDARD.encode(bytes))),
    }
}

fn join(text: Option<&str>, base64: Option<&str>) -> anyhow::Result<Option<Vec<u8>>> {
    Ok(match base64 {
        Some(base64) => Some(BASE64_STANDARD.decode(base64)?),
        None => text.map(|text| text.as_bytes().to_vec()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_the_bytes_they_come_back() {
        for bytes in [
            None,
            Some(&b""[..]),
            Some(b"text"),
            Some(&[0, 159, 146, 150]),
        ] {
            let mut line = Line::default().with_key(bytes).with_value(bytes);
            line.add_header("h", bytes);
            let text = serde_json::to_string(&line).unwrap();
            let read: Line = serde_json::from_str(&text).unwrap();
            let wanted = bytes.map(<[u8]>::to_vec);
            assert_eq!(read.key().unwrap(), wanted);
            assert_eq!(read.value().unwrap(), wanted);
            assert_eq!(read.headers().unwrap(), [("h".to_owned(), wanted)]);
        }
    }
}
