//! The output format of a record: its value on a line, a line of JSON, or a template.
//!
//! Values, keys and headers are written as raw bytes, also to a terminal, like Kafka's own consumer
//! does, because the program that reads them needs them unchanged. In JSON, characters that a
//! terminal does not show are escaped, without a change of meaning.

use anyhow::bail;
use client::fetch::RecordView;
use wire::text::escaped_json;
use wire::types::TopicPartition;

use crate::show::Format;
use crate::topic::line::Line;

/// The timestamp of a record that has none.
const NO_TIMESTAMP: i64 = -1;

/// The output format of a record.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// One line of JSON for each record.
    Json,
    /// The pieces of a template.
    Pieces(Vec<Piece>),
}

/// A piece of a template.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Piece {
    Literal(u8),
    Topic,
    Partition,
    Offset,
    Key,
    Value,
    Timestamp,
    Headers,
    KeyLength,
    ValueLength,
}

impl Form {
    /// Returns the format; a template overrides `format`.
    pub(super) fn of(format: Format, template: Option<&str>) -> anyhow::Result<Self> {
        Ok(match (template, format) {
            (Some(template), _) => Self::Pieces(pieces(template)?),
            (None, Format::Json) => Self::Json,
            (None, Format::Text) => Self::Pieces(vec![Piece::Value, Piece::Literal(b'\n')]),
        })
    }

    /// Appends a record.
    pub(super) fn write(
        &self,
        place: &TopicPartition,
        record: &RecordView<'_>,
        out: &mut Vec<u8>,
    ) -> anyhow::Result<()> {
        match self {
            Self::Json => {
                let json = serde_json::to_string(&line(place, record))?;
                out.extend(escaped_json(&json).as_bytes());
                out.push(b'\n');
            }
            Self::Pieces(pieces) => {
                let pieces = pieces.iter();
                pieces.for_each(|piece| piece.write(place, record, out));
            }
        }
        Ok(())
    }
}

fn line(place: &TopicPartition, record: &RecordView<'_>) -> Line {
    let mut line = Line::default()
        .with_key(record.key)
        .with_value(record.value);
    line.topic = Some(place.topic.to_string());
    line.partition = Some(place.partition);
    line.offset = Some(record.offset);
    line.timestamp = (record.timestamp != NO_TIMESTAMP).then_some(record.timestamp);
    for header in record.headers() {
        line.add_header(&String::from_utf8_lossy(header.name), header.value);
    }
    line
}

fn pieces(template: &str) -> anyhow::Result<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut bytes = template.bytes();
    while let Some(byte) = bytes.next() {
        pieces.push(match byte {
            b'%' => match bytes.next() {
                Some(b't') => Piece::Topic,
                Some(b'p') => Piece::Partition,
                Some(b'o') => Piece::Offset,
                Some(b'k') => Piece::Key,
                Some(b's' | b'v') => Piece::Value,
                Some(b'T') => Piece::Timestamp,
                Some(b'h') => Piece::Headers,
                Some(b'K') => Piece::KeyLength,
                Some(b'S' | b'V') => Piece::ValueLength,
                Some(b'%') => Piece::Literal(b'%'),
                Some(other) => bail!("template: %{} means nothing", char::from(other)),
                None => bail!("template: a % at the end"),
            },
            b'\\' => Piece::Literal(match bytes.next() {
                Some(b'n') => b'\n',
                Some(b't') => b'\t',
                Some(b'r') => b'\r',
                Some(b'0') => 0,
                Some(b'\\') => b'\\',
                Some(other) => bail!("template: \\{} means nothing", char::from(other)),
                None => bail!("template: a \\ at the end"),
            }),
            other => Piece::Literal(other),
        });
    }
    Ok(pieces)
}

impl Piece {
    fn write(&self, place: &TopicPartition, record: &RecordView<'_>, out: &mut Vec<u8>) {
        let number = |number: i64, out: &mut Vec<u8>| out.extend(number.to_string().into_bytes());
        // As in kcat, a null has length -1 and no text.
        let length =
            |bytes: Option<&[u8]>| bytes.map_or(-1, |bytes| bytes.len().cast_signed() as i64);
        match self {
            Self::Literal(byte) => out.push(*byte),
            Self::Topic => out.extend_from_slice(place.topic.as_bytes()),
            Self::Partition => number(place.partition.into(), out),
            Self::Offset => number(record.offset, out),
            Self::Key => out.extend_from_slice(record.key.unwrap_or_default()),
            Self::Value => out.extend_from_slice(record.value.unwrap_or_default()),
            Self::Timestamp => number(record.timestamp, out),
            Self::KeyLength => number(length(record.key), out),
            Self::ValueLength => number(length(record.value), out),
            Self::Headers => {
                for (index, header) in record.headers().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    out.extend_from_slice(header.name);
                    out.push(b'=');
                    out.extend_from_slice(header.value.unwrap_or(b"NULL"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_read_or_what_is_wrong_is_said() {
        let wanted = [
            Piece::Key,
            Piece::Literal(b'\t'),
            Piece::Value,
            Piece::Literal(b'%'),
        ];
        assert_eq!(pieces("%k\\t%s%%").unwrap(), wanted);
        for (template, why) in [
            ("%q", "%q"),
            ("100%", "end"),
            ("\\x", "\\x"),
            ("a\\", "end"),
        ] {
            let said = pieces(template).unwrap_err().to_string();
            assert!(said.contains(why), "{said}");
        }
    }
}
