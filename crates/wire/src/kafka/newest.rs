//! Versions of Kafka 4.3 that the generated codecs lack: one more version for each message here.
//!
//! A [`NewestVersion`] is a generated message plus the fields of its newest version for which the
//! generated structure has no room. Up to the previous version, its bytes are those of the
//! generated codec. In the newest version they are rewritten to, and from, the previous version
//! according to the message's shape ([`super::shape`]), and the new fields are passed to the
//! message. When a generated codec gains the version, remove its message from this module.
//! Not here: the meaning of the new fields (`broker`).

use bytes::BytesMut;
use kafka_protocol::protocol::buf::{ByteBuf, ByteBufMut};

use super::shape::{Shape, newer, older};
use crate::error::DecodeError;
use crate::protocol::{Decodable, Encodable, HeaderVersion, Message, Request, VersionRange};

mod messages;

/// A message with one version more than its generated codec.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct NewestVersion<T: LacksNewest> {
    /// The generated message.
    pub message: T,
    /// The additional fields of the newest version.
    pub more: T::MoreFields,
}

/// A generated message whose newest version is not generated.
pub trait LacksNewest: Message {
    /// The fields of the newest version for which the generated structure has no room.
    type MoreFields: Clone + PartialEq + std::fmt::Debug + Default;

    /// Returns the shape of the message in its two newest versions; `None` where both have the same
    /// bytes.
    fn shape() -> Option<Shape>;

    /// Takes the fields that only the newest version has, concatenated.
    ///
    /// Fails when their number differs from the number of places in the message.
    fn tell(&mut self, row: &[u8]) -> Result<Self::MoreFields, DecodeError>;

    /// Returns the fields that only the newest version has, concatenated.
    fn row(&self, more: &Self::MoreFields) -> Vec<u8>;
}

/// A request whose newest version is not generated.
pub trait NewestRequest: Request + LacksNewest {
    /// The response type: the generated one where it has the newest version.
    type Answer: Message + Encodable + Decodable + HeaderVersion;
}

impl<T: LacksNewest> From<T> for NewestVersion<T> {
    fn from(message: T) -> Self {
        Self {
            message,
            more: T::MoreFields::default(),
        }
    }
}

impl<T: LacksNewest> NewestVersion<T> {
    fn is_newest(version: i16) -> bool {
        version == <Self as Message>::VERSIONS.max
    }
}

impl<T: LacksNewest> Message for NewestVersion<T> {
    const VERSIONS: VersionRange = VersionRange {
        min: T::VERSIONS.min,
        max: T::VERSIONS.max + 1,
    };
    const DEPRECATED_VERSIONS: Option<VersionRange> = T::DEPRECATED_VERSIONS;
}

impl<T: LacksNewest + Decodable> Decodable for NewestVersion<T> {
    fn decode<B: ByteBuf>(buffer: &mut B, version: i16) -> anyhow::Result<Self> {
        if !Self::is_newest(version) {
            return Ok(T::decode(buffer, version)?.into());
        }
        let Some(shape) = T::shape() else {
            return Ok(T::decode(buffer, version - 1)?.into());
        };
        let rest = buffer.peek_bytes(0..buffer.remaining());
        let mut before = older(&shape, version, &rest)?;
        assert!(before.read <= rest.len(), "what was read was there");
        buffer.advance(before.read);
        let mut message = T::decode(&mut before.body, version - 1)?;
        let more = message.tell(&before.row)?;
        Ok(Self { message, more })
    }
}

impl<T: LacksNewest + Encodable> NewestVersion<T> {
    fn bytes(&self, version: i16, shape: &Shape) -> anyhow::Result<BytesMut> {
        let mut before = BytesMut::new();
        self.message.encode(&mut before, version - 1)?;
        let row = self.message.row(&self.more);
        Ok(newer(shape, version, &before.freeze(), &row)?)
    }
}

impl<T: LacksNewest + Encodable> Encodable for NewestVersion<T> {
    fn encode<B: ByteBufMut>(&self, buffer: &mut B, version: i16) -> anyhow::Result<()> {
        if !Self::is_newest(version) {
            return self.message.encode(buffer, version);
        }
        match T::shape() {
            None => self.message.encode(buffer, version - 1),
            Some(shape) => {
                buffer.put_slice(&self.bytes(version, &shape)?);
                Ok(())
            }
        }
    }

    fn compute_size(&self, version: i16) -> anyhow::Result<usize> {
        if !Self::is_newest(version) {
            return self.message.compute_size(version);
        }
        match T::shape() {
            None => self.message.compute_size(version - 1),
            Some(shape) => Ok(self.bytes(version, &shape)?.len()),
        }
    }
}

impl<T: HeaderVersion + LacksNewest> HeaderVersion for NewestVersion<T> {
    fn header_version(version: i16) -> i16 {
        T::header_version(version)
    }
}

impl<T: NewestRequest> Request for NewestVersion<T> {
    const KEY: i16 = T::KEY;
    type Response = T::Answer;
}

#[cfg(test)]
mod tests;
