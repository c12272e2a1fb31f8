//! A message's bytes in one version from its bytes in the version next to it, after the message's shape.
//!
//! Fields that both versions have are copied. A field that only the newer has is taken into, or out of, a row of such
//! fields; a field that only the older has is left out on the way up and empty on the way down.
//! Invariant: what comes and goes between versions that are rewritten is of a fixed size, or text that goes; both
//! versions are flexible. Any bytes give bytes or an error; nothing is allocated for what a length claims.

use bytes::{BufMut, Bytes, BytesMut};

use super::Shape;
use super::schema::{Field, Kind};
use crate::error::DecodeError;
use crate::kafka::reader::Reader;

/// Which way a message goes.
enum Way<'a> {
    /// To the version before, collecting what that cannot say.
    Down(BytesMut),
    /// To the version after, which also says this.
    Up(&'a [u8]),
}

/// A message in the version before its own.
pub(in crate::kafka) struct Older {
    /// The message.
    pub(in crate::kafka) body: Bytes,
    /// The fields that are not in it, in the order in which they came.
    pub(in crate::kafka) row: Bytes,
    /// Bytes of the newer message; more may follow it.
    pub(in crate::kafka) read: usize,
}

/// Rewrites a message of this version to the one before.
pub(in crate::kafka) fn older(
    shape: &Shape,
    version: i16,
    bytes: &Bytes,
) -> Result<Older, DecodeError> {
    let mut rewrite = Rewrite::new(bytes, version, Way::Down(BytesMut::new()));
    rewrite.structure("message", shape.0)?;
    let Way::Down(row) = rewrite.way else {
        unreachable!("a message goes one way");
    };
    Ok(Older {
        read: rewrite.reader.position(),
        body: rewrite.out.freeze(),
        row: row.freeze(),
    })
}

/// Rewrites a message of the version before to this one, which also has the fields of the row.
pub(in crate::kafka) fn newer(
    shape: &Shape,
    version: i16,
    bytes: &Bytes,
    row: &[u8],
) -> Result<BytesMut, DecodeError> {
    let mut rewrite = Rewrite::new(bytes, version, Way::Up(row));
    rewrite.structure("message", shape.0)?;
    match rewrite.way {
        Way::Up(rest) if !rest.is_empty() => Err(DecodeError::Codec {
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
    way: Way<'a>,
}

impl<'a> Rewrite<'a> {
    fn new(bytes: &'a Bytes, version: i16, way: Way<'a>) -> Self {
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

    /// A field of both versions.
    fn kept(&mut self, field: &'static Field) -> Result<(), DecodeError> {
        let start = self.reader.position();
        match field.kind {
            Kind::List(fields) => {
                // Null has no elements.
                let count = self.reader.count(field.name, 1)?.unwrap_or(0);
                self.copy(start);
                (0..count).try_for_each(|_| self.structure(field.name, fields))
            }
            Kind::Each(element) => {
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

    /// A field that the newer version no longer has.
    fn gone(&mut self, field: &'static Field) -> Result<(), DecodeError> {
        match (&self.way, field.kind) {
            (Way::Up(_), kind) => self.pass(field.name, kind),
            (Way::Down(_), Kind::Fixed(bytes)) => {
                self.out.put_bytes(0, bytes);
                Ok(())
            }
            // No text, of length 0.
            (Way::Down(_), _) => {
                self.out.put_u8(1);
                Ok(())
            }
        }
    }

    /// A field that only the newer version has.
    fn come(&mut self, field: &'static Field) -> Result<(), DecodeError> {
        let start = self.reader.position();
        let Kind::Fixed(bytes) = field.kind else {
            return self.pass(field.name, field.kind);
        };
        match &mut self.way {
            Way::Down(row) => {
                self.reader.pass(bytes, field.name)?;
                row.put_slice(&self.bytes.slice(start..self.reader.position()));
            }
            Way::Up(row) => {
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

    fn pass(&mut self, name: &'static str, kind: Kind) -> Result<(), DecodeError> {
        match kind {
            Kind::Fixed(bytes) => self.reader.pass(bytes, name),
            Kind::Text => self.reader.pass_string(name),
            _ => self.reader.pass_bytes(name),
        }
    }

    /// Copies what was read since.
    fn copy(&mut self, start: usize) {
        self.out
            .put_slice(&self.bytes.slice(start..self.reader.position()));
    }
}
