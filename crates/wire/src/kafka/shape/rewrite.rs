//! Rewrites the bytes of a message between two adjacent versions, according to the message's shape.
//!
//! Fields of both versions are copied. A field that only the newer version has moves into, or out
//! of, a row of such fields. A field that only the older version has is dropped on the way up and
//! written empty on the way down.
//! Invariant: fields that differ between rewritten versions have a fixed size, or are text that the
//! newer version dropped; both versions are flexible. Any bytes give bytes or an error; no claimed
//! length causes an allocation.

use bytes::{BufMut, Bytes, BytesMut};

use super::Shape;
use super::schema::{Field, FieldKind};
use crate::error::DecodeError;
use crate::kafka::reader::Reader;

/// The direction of a rewrite.
enum RewriteDirection<'a> {
    /// To the version before; collects the fields that it lacks.
    Down(BytesMut),
    /// To the version after; inserts these additional fields.
    Up(&'a [u8]),
}

/// A message rewritten to the version before its own.
pub(in crate::kafka) struct OlderMessage {
    /// The rewritten message.
    pub(in crate::kafka) body: Bytes,
    /// The fields that it lacks, in their original order.
    pub(in crate::kafka) row: Bytes,
    /// Length of the newer message in bytes; more bytes may follow it.
    pub(in crate::kafka) read: usize,
}

/// Rewrites a message of this version to the one before.
pub(in crate::kafka) fn older(
    shape: &Shape,
    version: i16,
    bytes: &Bytes,
) -> Result<OlderMessage, DecodeError> {
    let mut rewrite = Rewrite::new(bytes, version, RewriteDirection::Down(BytesMut::new()));
    rewrite.structure("message", shape.0)?;
    let RewriteDirection::Down(row) = rewrite.way else {
        unreachable!("a message goes one way");
    };
    Ok(OlderMessage {
        read: rewrite.reader.position(),
        body: rewrite.out.freeze(),
        row: row.freeze(),
    })
}

/// Rewrites a message of the version before to this one, inserting the fields of the row.
pub(in crate::kafka) fn newer(
    shape: &Shape,
    version: i16,
    bytes: &Bytes,
    row: &[u8],
) -> Result<BytesMut, DecodeError> {
    let mut rewrite = Rewrite::new(bytes, version, RewriteDirection::Up(row));
    rewrite.structure("message", shape.0)?;
    match rewrite.way {
        RewriteDirection::Up(rest) if !rest.is_empty() => Err(DecodeError::Codec {
            reason: format!("the message has no places for {} bytes more", rest.len()),
        }),
        _ => Ok(rewrite.out),
    }
}

struct Rewrite<'a> {
    reader: Reader<'a>,
    bytes: &'a Bytes,
    out: BytesMut,
    /// The newer of the two versions.
    version: i16,
    way: RewriteDirection<'a>,
}

impl<'a> Rewrite<'a> {
    fn new(bytes: &'a Bytes, version: i16, way: RewriteDirection<'a>) -> Self {
        Self {
            reader: Reader::new(bytes, true),
            bytes,
            out: BytesMut::with_capacity(bytes.len()),
            version,
            way,
        }
    }

    fn structure(
        &mut self,
        name: &'static str,
        fields: &'static [Field],
    ) -> Result<(), DecodeError> {
        for field in fields {
            match (field.is_in(self.version - 1), field.is_in(self.version)) {
                (true, true) => self.kept(field)?,
                (true, false) => self.gone(field)?,
                (false, true) => self.come(field)?,
                (false, false) => {}
            }
        }
        let start = self.reader.position();
        self.reader.skip_tags(name)?;
        self.copy(start);
        Ok(())
    }

    /// Copies a field of both versions.
    fn kept(&mut self, field: &'static Field) -> Result<(), DecodeError> {
        let start = self.reader.position();
        match field.kind {
            FieldKind::List(fields) => {
                // Null has no elements.
                let count = self.reader.count(field.name, 1)?.unwrap_or(0);
                self.copy(start);
                (0..count).try_for_each(|_| self.structure(field.name, fields))
            }
            FieldKind::Each(element) => {
                // Null has no elements.
                let count = self.reader.count(field.name, 1)?.unwrap_or(0);
                (0..count).try_for_each(|_| self.pass(field.name, *element))?;
                self.copy(start);
                Ok(())
            }
            other => {
                self.pass(field.name, other)?;
                self.copy(start);
                Ok(())
            }
        }
    }

    /// Drops a field that the newer version no longer has, or writes it empty.
    fn gone(&mut self, field: &'static Field) -> Result<(), DecodeError> {
        match (&self.way, field.kind) {
            (RewriteDirection::Up(_), kind) => self.pass(field.name, kind),
            (RewriteDirection::Down(_), FieldKind::Fixed(bytes)) => {
                self.out.put_bytes(0, bytes);
                Ok(())
            }
            // An empty string: length 0 in compact form.
            (RewriteDirection::Down(_), _) => {
                self.out.put_u8(1);
                Ok(())
            }
        }
    }

    /// Moves a field that only the newer version has, out of the message or into it.
    fn come(&mut self, field: &'static Field) -> Result<(), DecodeError> {
        let start = self.reader.position();
        let FieldKind::Fixed(bytes) = field.kind else {
            return self.pass(field.name, field.kind);
        };
        match &mut self.way {
            RewriteDirection::Down(row) => {
                self.reader.pass(bytes, field.name)?;
                row.put_slice(&self.bytes.slice(start..self.reader.position()));
            }
            RewriteDirection::Up(row) => {
                let (value, rest) =
                    row.split_at_checked(bytes)
                        .ok_or_else(|| DecodeError::Truncated {
                            field: field.name.to_owned(),
                            need: bytes as u64,
                            have: row.len(),
                        })?;
                self.out.put_slice(value);
                *row = rest;
            }
        }
        Ok(())
    }

    fn pass(&mut self, name: &'static str, kind: FieldKind) -> Result<(), DecodeError> {
        match kind {
            FieldKind::Fixed(bytes) => self.reader.pass(bytes, name),
            FieldKind::Text => self.reader.pass_string(name),
            _ => self.reader.pass_bytes(name),
        }
    }

    /// Copies the bytes read since `start`.
    fn copy(&mut self, start: usize) {
        self.out
            .put_slice(&self.bytes.slice(start..self.reader.position()));
    }
}
