//! Requests from any peer: frames, headers, bodies.
//!
//! The input is what a socket gave. Every frame in it is taken off, its header read, its body decoded.
#![no_main]

use bytes::{Bytes, BytesMut};
use libfuzzer_sys::fuzz_target;
use wire::kafka::frame::next_frame;
use wire::kafka::{Api, Request, fetch, produce};

const FRAME_BYTES_MAX: usize = 1 << 20;

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
    match api {
        Api::Produce => drop(produce::ProduceRequest::decode(body, version)),
        Api::Fetch => drop(fetch::FetchRequest::decode(body, version)),
        _ => {}
    }
}
