//! The shapes of answers against the generated codecs, and answers that lie.

use super::*;
use crate::protocol::{Encodable as _, Message};

/// Calls a generic function with the request type of any API.
macro_rules! of_any {
    ($api:expr, $function:ident $arguments:tt) => {
        match $api {
            Api::Produce => $function::<messages::ProduceRequest> $arguments,
            Api::Fetch => $function::<messages::FetchRequest> $arguments,
            other => dispatch!(other, $function $arguments),
        }
    };
}

fn versions<T: Request>() -> std::ops::RangeInclusive<i16> {
    let known = <T::Response as Message>::VERSIONS;
    known.min..=known.max
}

/// Returns the answer to every request, in every version.
fn all() -> impl Iterator<Item = (Api, i16)> {
    Api::ALL.iter().flat_map(|&api| {
        let versions = of_any!(api, versions());
        versions.map(move |version| (api, version))
    })
}

fn again<T: Request>(version: i16, body: &Bytes) -> Bytes {
    let answer = decode_answer::<T>(version, body).unwrap();
    let mut out = BytesMut::new();
    answer.encode(&mut out, version).unwrap();
    out.freeze()
}

#[test]
fn every_shape_of_an_answer_is_exactly_what_the_generated_codec_reads_and_writes() {
    let mut runner = TestRunner::deterministic();
    for (api, version) in all() {
        let shape = super::super::answers::of(api);
        for _ in 0..50 {
            let body = make(runner.rng(), api, version, shape);
            let written = of_any!(api, again(version, &body));
            assert_eq!(written, body, "{api:?} {version}");
        }
    }
}

#[test]
fn estimates_of_answers_are_no_less_than_the_decoded_structures() {
    fn top<T: Request>() -> usize {
        size_of::<T::Response>()
    }
    for &api in Api::ALL {
        let size = of_any!(api, top());
        let estimate = message_bytes(api, super::super::answers::of(api));
        assert!(estimate >= size, "{api:?}: {size}");
    }
    let partition = size_of::<fetch_response::PartitionData>();
    let FieldKind::List(topics) = super::super::answers::of(Api::Fetch)[3].kind else {
        panic!("the topics of a fetch");
    };
    let FieldKind::List(partitions) = topics[2].kind else {
        panic!("the partitions of a topic");
    };
    assert!(struct_bytes(partitions) >= partition, "{partition}");
}

#[test]
fn a_claim_in_a_tagged_field_is_refused_by_name() {
    let mut body = BytesMut::new();
    // No error, no keys, no throttling, one tag: a billion features.
    body.put_slice(&[0, 0, 1, 0, 0, 0, 0, 1, 0, 5]);
    put_uvarint(&mut body, 1_000_000_000);
    let error = decode_answer::<ApiVersionsRequest>(3, &body.freeze()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "supported_features needs 999999999 bytes, 0 are left"
    );

    let mut body = BytesMut::new();
    body.put_slice(&[0, 0, 1, 0, 0, 0, 0, 1, 1, 7]);
    body.put_slice(&[0; 8]);
    let error = decode_answer::<ApiVersionsRequest>(3, &body.freeze()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "ApiVersions has a malformed tagged field 1"
    );
}

#[test]
fn the_memory_of_an_answer_follows_its_length() {
    let empty_topics = |count: u32| {
        let mut body = BytesMut::new();
        // Not throttled; topics without a name and without partitions.
        body.put_i32(0);
        body.put_u32(count);
        (0..count).for_each(|_| body.put_slice(&[0, 0, 0, 0, 0, 0]));
        decode_answer::<ListOffsetsRequest>(2, &body.freeze())
    };
    assert_eq!(empty_topics(3).unwrap().topics.len(), 3);
    // Real answers never look like this: 6 bytes take 80 here, and the bound is 192.
    assert!(empty_topics(100_000).is_ok());
    // A group with a member that subscribes to a million topics without a name.
    let names = 1 << 20;
    let mut body = BytesMut::new();
    body.put_slice(&[0, 0, 0, 0, 2]);
    body.put_slice(&[0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    body.put_slice(&[2, 1, 0, 0, 0, 0, 0, 0, 1, 1]);
    put_uvarint(&mut body, names + 1);
    body.put_bytes(1, names as usize);
    body.put_slice(&[0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    let flood = decode_answer::<ConsumerGroupDescribeRequest>(0, &body.freeze());
    assert!(
        matches!(flood, Err(DecodeError::TooMuchMemory { .. })),
        "{:?}",
        flood.err()
    );
}

fn any_answer<T: Request>(version: i16, body: &Bytes) {
    let _ = decode_answer::<T>(version, body);
}

proptest! {
    #[test]
    fn any_bytes_give_an_answer_or_an_error(
        at: prop::sample::Index, body in proptest::collection::vec(any::<u8>(), 0..120),
    ) {
        let all: Vec<_> = all().collect();
        let (api, version) = *at.get(&all);
        let body = body.into();
        of_any!(api, any_answer(version, &body));
    }

    #[test]
    fn damaged_answers_give_an_answer_or_an_error(
        which: prop::sample::Index, seed: [u8; 32], at: prop::sample::Index, byte: u8,
        cut: prop::sample::Index,
    ) {
        let all: Vec<_> = all().collect();
        let (api, version) = *which.get(&all);
        let mut rng = TestRng::from_seed(proptest::test_runner::RngAlgorithm::ChaCha, &seed);
        let shape = super::super::answers::of(api);
        let mut body = make(&mut rng, api, version, shape).to_vec();
        if !body.is_empty() {
            let length = body.len();
            body[at.index(length)] = byte;
            if byte % 2 == 0 {
                body.truncate(length - cut.index(length));
            }
        }
        let body = body.into();
        of_any!(api, any_answer(version, &body));
    }
}
