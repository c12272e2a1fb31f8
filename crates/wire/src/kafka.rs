//! The Kafka protocol: served APIs, frames, headers, and the messages that carry records.
//!
//! Everything is sans-io: bytes in, values out, and the reverse. Messages without records use the
//! codecs of the `kafka-protocol` crate behind the guard of [`shape`]; [`newest`] adds the versions
//! that those codecs lack. Produce and Fetch have their own codecs ([`produce`], [`fetch`]),
//! because records must pass as slices of the frame that carried them.

pub mod api;
pub mod fetch;
pub mod frame;
pub mod newest;
pub mod produce;
mod reader;
mod response;
pub mod shape;
mod throttle;
mod writer;

pub use api::Api;
pub use frame::{Request, RequestHeader, Response, encode_response};
pub use newest::NewestVersion;
pub use shape::decode_request;
