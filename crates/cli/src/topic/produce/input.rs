//! Records from a stream: one for each line, one for each line of JSON in the format of
//! `topic consume`, or the whole stream as one record.
//!
//! It does not send records (`sender.rs`).

use std::io::BufRead;
use std::rc::Rc;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use clap::ValueEnum;

use crate::topic::line::Line;

/// The format of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(super) enum Input {
    /// Each line is a record.
    Lines,
    /// Each line is a record as `topic consume --format json` writes it; topic and offset in it are
    /// ignored.
    Json,
    /// The whole input is one record.
    Whole,
}

/// A record to write.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct Record {
    pub(super) key: Option<Vec<u8>>,
    pub(super) value: Option<Vec<u8>>,
    pub(super) headers: Vec<(String, Option<Vec<u8>>)>,
    pub(super) partition: Option<i32>,
    pub(super) timestamp: Option<i64>,
}

impl Record {
    /// Returns the record for the producer of a topic.
    pub(super) fn into_record(self, topic: &Rc<str>) -> client::Record {
        let headers = self.headers.into_iter();
        client::Record {
            topic: Rc::clone(topic),
            partition: self.partition,
            timestamp: self.timestamp,
            key: self.key.map(Bytes::from),
            value: self.value.map(Bytes::from),
            headers: headers
                .map(|(name, value)| (name, value.map(Bytes::from)))
                .collect(),
        }
    }
}

/// Reads the whole stream, record by record.
pub(super) fn read(
    mut from: impl BufRead,
    input: Input,
    delimiter: Option<&str>,
    mut each: impl FnMut(Record) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    if input == Input::Whole {
        let mut value = Vec::new();
        from.read_to_end(&mut value)?;
        return each(line(&value, delimiter));
    }
    let mut text = Vec::new();
    for number in 1_u64.. {
        text.clear();
        if from.read_until(b'\n', &mut text)? == 0 {
            break;
        }
        let text = text.strip_suffix(b"\n").unwrap_or(&text);
        if input == Input::Lines {
            each(line(text, delimiter))?;
        } else if !text.trim_ascii().is_empty() {
            each(json(text).with_context(|| format!("line {number}"))?)?;
        }
    }
    Ok(())
}

/// Makes a record from a line: key and value if a delimiter is between them.
pub(super) fn line(text: &[u8], delimiter: Option<&str>) -> Record {
    let delimiter = delimiter.unwrap_or_default().as_bytes();
    let (key, value) = match place_of(delimiter, text) {
        Some(at) => (Some(&text[..at]), &text[at + delimiter.len()..]),
        None => (None, text),
    };
    Record {
        key: key.map(<[u8]>::to_vec),
        value: Some(value.to_vec()),
        ..Record::default()
    }
}

/// Returns where the first delimiter of a text begins. An empty one is nowhere, and most records
/// have none: they are not gone through.
fn place_of(delimiter: &[u8], text: &[u8]) -> Option<usize> {
    let first = delimiter.first()?;
    let begins = text.iter().enumerate().filter(|(_, byte)| *byte == first);
    let mut places = begins.map(|(at, _)| at);
    places.find(|at| text[*at..].starts_with(delimiter))
}

fn json(text: &[u8]) -> anyhow::Result<Record> {
    let line: Line = serde_json::from_slice(text)?;
    if line.partition.is_some_and(|partition| partition < 0) {
        bail!("a partition below 0");
    }
    Ok(Record {
        key: line.key()?,
        value: line.value()?,
        headers: line.headers()?,
        partition: line.partition,
        timestamp: line.timestamp,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str, input: Input, delimiter: Option<&str>) -> anyhow::Result<Vec<Record>> {
        let mut records = Vec::new();
        read(text.as_bytes(), input, delimiter, |record| {
            records.push(record);
            Ok(())
        })?;
        Ok(records)
    }

    fn record(key: Option<&str>, value: &str) -> Record {
        Record {
            key: key.map(|key| key.as_bytes().to_vec()),
            value: Some(value.as_bytes().to_vec()),
            ..Record::default()
        }
    }

    #[test]
    fn lines_are_records_with_keys_where_there_is_a_delimiter() {
        let plain = all("a\n\nb=c", Input::Lines, None).unwrap();
        assert_eq!(
            plain,
            [record(None, "a"), record(None, ""), record(None, "b=c")]
        );
        let keyed = all("k=>v=>w\nnone\n=>", Input::Lines, Some("=>")).unwrap();
        assert_eq!(
            keyed,
            [
                record(Some("k"), "v=>w"),
                record(None, "none"),
                record(Some(""), "")
            ]
        );
        let begun = all("a==b=>c=>", Input::Lines, Some("=>")).unwrap();
        assert_eq!(begun, [record(Some("a==b"), "c=>")]);
        let empty = all("a=b", Input::Lines, Some("")).unwrap();
        assert_eq!(empty, [record(None, "a=b")]);
        let whole = all("a\nb\n", Input::Whole, None).unwrap();
        assert_eq!(whole, [record(None, "a\nb\n")]);
    }

    #[test]
    fn json_says_everything_of_a_record_or_which_line_is_wrong() {
        let text = r#"{"key":"k","value":null,"headers":[{"key":"h","value_base64":"AP8="}],"partition":3,"timestamp":5,
            "#;
        let one = text
            .replace('\n', "")
            .trim_end()
            .trim_end_matches(',')
            .to_owned()
            + "}\n";
        let records = all(&one, Input::Json, None).unwrap();
        let wanted = Record {
            key: Some(b"k".to_vec()),
            value: None,
            headers: vec![("h".to_owned(), Some(vec![0, 255]))],
            partition: Some(3),
            timestamp: Some(5),
        };
        assert_eq!(records, [wanted]);
        let error = all("{\"value\":\"x\"}\n{\n", Input::Json, None).unwrap_err();
        assert!(error.to_string().contains("line 2"), "{error}");
    }
}
