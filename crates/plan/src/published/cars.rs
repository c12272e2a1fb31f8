//! The fleet for 100 million cars, the fleet from which it was scaled, and tuned servers.

use super::Digits::{Behind, Three, Whole};
use super::{Row, Verdict, row};

const MESSAGES: f64 = 1.6e6;
const BYTES: f64 = 240e3;
/// The quoted rate.
const QUOTED: f64 = 800e9;
/// The other fleet, April 2015.
const OTHER_MESSAGES: f64 = 13e6;
const OTHER_BYTES: f64 = 2.7e9;
const OTHER_BROKERS: f64 = 1100.0;
const OTHER_CLUSTERS: f64 = 60.0;

pub(super) fn rows() -> Vec<Row> {
    let computed = MESSAGES * BYTES;
    let mut rows = vec![
        row(
            "C1",
            "S0 \"Espaco Automotivo\"",
            "1.6 M messages/s of 240 KB = 800 GB/s",
            Verdict::Contradiction,
            "{} GB/s; 800 GB/s need {} KB a message. Every car plan is made for both",
            &[(computed / 1e9, Three), (QUOTED / MESSAGES / 1e3, Three)],
        ),
        row(
            "C2",
            "S0, first section",
            "100 million cars",
            Verdict::Derived,
            "one message per car each {} s; {} ({}) KB/s per car",
            &[
                (100e6 / MESSAGES, Three),
                (computed / 100e6 / 1e3, Three),
                (QUOTED / 100e6 / 1e3, Three),
            ],
        ),
        row(
            "C3",
            "S0 \"Praticas\", end",
            "LinkedIn \"a year ago\": 13 M/s, 2.7 GB/s, 1,100 brokers, \"more than 60 in a cluster\"",
            Verdict::Contradiction,
            "{} B a message; {} MB/s and {} messages/s per broker. 60 is the number of clusters ({} brokers each); the original is of April 2015 and says 2.75 GB/s",
            &[
                (OTHER_BYTES / OTHER_MESSAGES, Whole),
                (OTHER_BYTES / OTHER_BROKERS / 1e6, Behind(2)),
                (OTHER_MESSAGES / OTHER_BROKERS, Whole),
                (OTHER_BROKERS / OTHER_CLUSTERS, Three),
            ],
        ),
    ];
    rows.extend(sizes(computed));
    rows.extend(others());
    rows
}

fn sizes(computed: f64) -> Vec<Row> {
    let by_bytes = |rate: f64| rate / (OTHER_BYTES / OTHER_BROKERS);
    let by_messages = MESSAGES / (OTHER_MESSAGES / OTHER_BROKERS);
    // Two followers and one group read from a broker: three times the incoming rate.
    let by_network = |rate: f64| (rate * 3.0 / (100e9 / 8.0 * 0.7)).ceil();
    vec![
        row(
            "C4",
            "S0 \"Espaco Automotivo\"",
            "44,000 brokers",
            Verdict::Contradiction,
            "exactly {} x {}; by bytes {} (384 GB/s: {}), by messages {}: an assumption. {} ({}) MB/s each",
            &[
                (44_000.0 / OTHER_BROKERS, Whole),
                (OTHER_BROKERS, Whole),
                (by_bytes(QUOTED), Whole),
                (by_bytes(computed), Whole),
                (by_messages, Whole),
                (QUOTED / 44_000.0 / 1e6, Behind(1)),
                (computed / 44_000.0 / 1e6, Behind(1)),
            ],
        ),
        row(
            "C5",
            "S0 \"Espaco Automotivo\"",
            "4,400 brokers = 240 clusters",
            Verdict::Sound,
            "{} a cluster: fits the {} of C3; with 60 brokers each it would be {} clusters",
            &[
                (4400.0 / 240.0, Behind(2)),
                (OTHER_BROKERS / OTHER_CLUSTERS, Behind(2)),
                (4400.0 / 60.0, Whole),
            ],
        ),
        row(
            "C6",
            "S0 \"Espaco Automotivo\"",
            "400-500 brokers",
            Verdict::Plausible,
            "{}-{} ({}-{}) GB/s each; by 100 Gb/s interfaces at 70 %, RF 3, one reader group: {} ({})",
            &[
                (QUOTED / 400.0 / 1e9, Behind(1)),
                (QUOTED / 500.0 / 1e9, Behind(1)),
                (computed / 400.0 / 1e9, Behind(2)),
                (computed / 500.0 / 1e9, Behind(2)),
                (by_network(QUOTED), Whole),
                (by_network(computed), Whole),
            ],
        ),
    ]
}

fn others() -> Vec<Row> {
    vec![
        row(
            "C7",
            "S0 \"Optane\", \"Primeira abordagem\"",
            "6 TB in two sockets; half of 1.5 TB is 750 GB",
            Verdict::Rounded,
            "12 x 512 GB = {}; 12 x 128 / 2 = {}",
            &[(12.0 * 512.0, Whole), (12.0 * 128.0 / 2.0, Whole)],
        ),
        row(
            "C8",
            "S0 \"Comparacao\", \"Otimizacao\", \"Chamada\"",
            "NVMe 2x SATA; PMem half 5x = 2.5x NVMe; whole \"2-3 times more\" = 12-15x; \"15x\"",
            Verdict::Sound,
            "5/2 = {}; {}-{}x, so 12 needs {}; 15 is the top of the range. 4,400 / 12..15 = {}..{}",
            &[
                (5.0 / 2.0, Three),
                (5.0 * 2.0, Whole),
                (5.0 * 3.0, Whole),
                (12.0 / 5.0, Three),
                ((4400.0_f64 / 12.0).ceil(), Whole),
                ((4400.0_f64 / 15.0).ceil(), Whole),
            ],
        ),
        row(
            "T1",
            "S2, start and end",
            "20,000 servers, 250 Tb/s; capacity +10..40 %",
            Verdict::Derived,
            "{} Gb/s each; {}..{} servers for the same load",
            &[
                (250e12 / 20_000.0 / 1e9, Three),
                (20_000.0 / 1.1, Whole),
                (20_000.0 / 1.4, Whole),
            ],
        ),
    ]
}
