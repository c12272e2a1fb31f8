//! Requests from any peer: frames, headers, bodies.
//!
//! The input is what a socket gave. Every frame in it is taken off, its header read, its body
//! decoded. The memory that a body may take is bounded as in the broker; libFuzzer's own limit on a
//! single allocation holds it to that.
#![no_main]

#[macro_use]
#[path = "../each_message.rs"]
mod each_message;

use bytes::{Bytes, BytesMut};
use libfuzzer_sys::fuzz_target;
use wire::kafka::frame::next_frame;
use wire::kafka::shape::{decode_request, decoded_bytes};
use wire::kafka::{Api, NewestVersion, Request, fetch, produce};
use wire::{messages, protocol};

const FRAME_BYTES_MAX: usize = 1 << 20;
const DECODED_BYTES_MAX: usize = 64 << 20;

fuzz_target!(|input: &[u8]| {
    let mut read = BytesMut::from(input);
    while let Ok(Some(frame)) = next_frame(&mut read, FRAME_BYTES_MAX) {
        match Request::parse(&frame) {
            Ok(request) if request.is_unknown_api_versions() => {}
            Ok(request) => decode(request.header.api, request.header.version, &request.body),
            Err(error) => drop(error.to_string()),
        }
    }
});

fn decode(api: Api, version: i16, body: &Bytes) {
    with_message!(api, decode_body(api, version, body),
        Api::Produce => drop(produce::ProduceRequest::decode(body, version)),
        Api::Fetch => drop(fetch::FetchRequest::decode(body, version)),
    );
}

fn decode_body<T: protocol::Request>(api: Api, version: i16, body: &Bytes) {
    let bound = decoded_bytes(api, version, body);
    let decoded = decode_request::<T>(version, body, DECODED_BYTES_MAX);
    assert!(bound.is_ok() || decoded.is_err());
}
