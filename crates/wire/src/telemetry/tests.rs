//! Pushes that clients send, and invalid ones.

use proptest::prelude::*;

use super::*;

const BOUNDS: Bounds = Bounds {
    samples: 10,
    name_bytes: 20,
    attributes_bytes: 30,
    fields: 1000,
};

fn message(number: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    let mut length = body.len();
    while length >= 0x80 {
        bytes.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
        length >>= 7;
    }
    bytes.push(u8::try_from(length).unwrap());
    bytes.extend(body);
    bytes
}

fn fixed(number: u8, bits: u64) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 1];
    bytes.extend(bits.to_le_bytes());
    bytes
}

fn push(metrics: &[Vec<u8>]) -> Vec<u8> {
    let metrics: Vec<u8> = metrics
        .iter()
        .flat_map(|metric| message(2, metric))
        .collect();
    message(1, &message(2, &metrics))
}

#[test]
fn sums_and_gauges_are_read_and_the_rest_is_passed_over() {
    let topic = [message(1, b"topic"), message(2, &message(1, b"t"))].concat();
    let point = [fixed(3, 7), message(7, &topic), fixed(6, 12)].concat();
    // Field 2 is the aggregation temporality; 1 is delta.
    let sum = [message(1, &point), vec![2 << 3, 1]].concat();
    let total = [
        message(1, b"records.total"),
        message(3, b"1"),
        message(7, &sum),
    ]
    .concat();
    let gauge = message(1, &fixed(4, 0.5_f64.to_bits()));
    let lag = [message(1, b"lag"), message(5, &gauge)].concat();
    let histogram = [message(1, b"h"), message(9, &gauge)].concat();
    let bytes = push(&[total, histogram, lag]);
    let found = samples(&bytes, BOUNDS).unwrap();
    let expected = [
        Sample {
            name: "records.total".into(),
            attributes: "topic=t".into(),
            value: 12.0,
            is_delta: true,
        },
        Sample {
            name: "lag".into(),
            attributes: String::new(),
            value: 0.5,
            is_delta: false,
        },
    ];
    assert_eq!(found.samples, expected);
    assert_eq!(found.beyond, 0);
    let one = Bounds {
        samples: 1,
        ..BOUNDS
    };
    let found = samples(&bytes, one).unwrap();
    assert_eq!((found.samples.len(), found.beyond), (1, 1));
    assert_eq!(samples(&[], one), Ok(Samples::default()));
    for cut in 1..bytes.len() {
        assert!(samples(&bytes[..cut], BOUNDS).is_err(), "{cut}");
    }
}

#[test]
fn what_is_longer_than_its_bound_is_refused() {
    let gauge = |name: usize, key: usize, value: usize| {
        let value = message(2, &message(1, &vec![b'v'; value]));
        let attribute = [message(1, &vec![b'k'; key]), value].concat();
        // The bound covers all attributes of a point together.
        let attributes = [message(7, &attribute), message(7, &attribute)].concat();
        let point = [fixed(4, 0), attributes].concat();
        let name = message(1, &vec![b'n'; name]);
        push(&[[message(5, &message(1, &point)), name].concat()])
    };
    assert!(samples(&gauge(20, 5, 7), BOUNDS).is_ok());
    assert!(samples(&gauge(21, 5, 7), BOUNDS).is_err());
    assert!(samples(&gauge(20, 9, 7), BOUNDS).is_err());
    assert!(samples(&gauge(20, 5, 11), BOUNDS).is_err());
}

#[test]
fn more_fields_than_are_looked_at_are_refused() {
    // Each field takes two bytes.
    let many = [8, 0].repeat(1000);
    let few = Bounds {
        fields: 999,
        ..BOUNDS
    };
    assert!(samples(&many, BOUNDS).is_ok());
    assert!(samples(&many, few).is_err());
}

proptest! {
    #[test]
    fn any_bytes_are_answered_within_the_bounds(
        bytes in proptest::collection::vec(prop_oneof![Just(10_u8), Just(18), Just(58), Just(42), 0..40_u8, any::<u8>()], 0..200)
    ) {
        let found = samples(&bytes, BOUNDS).unwrap_or_default();
        prop_assert!(found.samples.len() <= BOUNDS.samples);
        for sample in found.samples {
            prop_assert!(sample.name.len() <= BOUNDS.name_bytes);
            prop_assert!(sample.attributes.len() <= BOUNDS.attributes_bytes);
        }
    }
}
