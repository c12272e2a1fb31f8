//! Answers from any broker: the body of the answer to each request, in each version.
//!
//! The first two bytes choose the request and the version, the rest is the body. The memory that it
//! may take is bounded by its length; libFuzzer's own limit on a single allocation holds it to that.
#![no_main]

#[macro_use]
#[path = "../each_message.rs"]
mod each_message;

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use wire::kafka::shape::decode_answer;
use wire::kafka::{Api, NewestVersion};
use wire::{messages, protocol};

fuzz_target!(|input: &[u8]| {
    let [which, version, body @ ..] = input else {
        return;
    };
    let api = Api::ALL[usize::from(*which) % Api::ALL.len()];
    decode(api, i16::from(*version % 20), &Bytes::copy_from_slice(body));
});

fn decode(api: Api, version: i16, body: &Bytes) {
    with_message!(api, decode_body(version, body),
        Api::Produce => decode_body::<messages::ProduceRequest>(version, body),
        Api::Fetch => decode_body::<messages::FetchRequest>(version, body),
    );
}

fn decode_body<T: protocol::Request>(version: i16, body: &Bytes) {
    drop(decode_answer::<T>(version, body));
}
