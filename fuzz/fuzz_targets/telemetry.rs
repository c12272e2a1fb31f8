//! Pushes of clients' metrics, of many clients and addresses: what is kept stays within its bound,
//! and so does the page that shows it, whatever is pushed.
#![no_main]

use std::net::Ipv4Addr;

use broker::telemetry::{BYTES_MAX, Client, Metrics, ReceivedMetrics, Subscription};
use libfuzzer_sys::fuzz_target;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use wire::batch::compression::Compression;
use wire::types::Uuid;

/// As on a machine with so many shards: the bound is soon reached.
const SHARDS: usize = 1024;
const BOUND: usize = BYTES_MAX / SHARDS;
const PLAIN_MAX: usize = 4 << 20;

fuzz_target!(|bytes: &[u8]| {
    let mut registry = Registry::default();
    let received = ReceivedMetrics::new(Metrics::register(&mut registry), SHARDS);
    let mut rest = bytes;
    while let Some((&[client, address, form, high, low], tail)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes([high, low])).min(tail.len());
        let (body, tail) = tail.split_at(length);
        rest = tail;
        let Ok(codec) = Compression::from_code(i16::from(form & 7)) else {
            continue;
        };
        // Half of the pushes arrive at the parser whatever the codec.
        let pushed = if form & 8 == 0 {
            codec.compress(body).expect("memory takes it")
        } else {
            body.to_vec()
        };
        let client = Client {
            id: Uuid::from_u128(100 + u128::from(client)),
            called: "x".repeat(usize::from(client)),
            software_name: String::new(),
            software_version: String::new(),
            address: Ipv4Addr::new(10, 0, 0, address).into(),
            port: 1,
        };
        let asked = Subscription {
            id: 1,
            metrics: vec!["*".to_owned()],
            interval_ms: 1000,
            version: 1,
        };
        let _ = received.take(&client, &asked, codec, &pushed, PLAIN_MAX);
        assert!(received.retained_bytes() <= BOUND);
    }
    let mut page = String::new();
    encode(&mut page, &registry).expect("a String takes it");
    // Quotes and backslashes take two characters each; the rest is other metrics.
    assert!(page.len() <= 2 * BOUND + 8192);
    let shown = |c: char| c == '\n' || !wire::text::is_unseen(c);
    assert!(page.chars().all(shown));
});
