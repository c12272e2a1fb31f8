//! Fetch responses as a broker writes them, over a real socket.

use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use wire::batch::BatchBuilder;
use wire::kafka::fetch::{FetchPartitionResponse, FetchResponse, FetchTopicResponse};
use wire::types::{ErrorCode, LeaderEpoch, Offset, TimestampMs, TopicId};

use super::super::stream::SkipMode;
use super::*;

#[derive(Default, Debug)]
struct SeenFetch {
    session: (i16, i32),
    partitions: Vec<(String, i32, i16)>,
    /// Base offset, records, bytes, and whether the whole batch was passed.
    batches: Vec<(i64, i32, u64, bool)>,
}

impl Reading for SeenFetch {
    fn begins(&mut self, error: i16, session_id: i32) {
        self.session = (error, session_id);
    }

    fn partition(&mut self, topic: &str, index: i32, error: i16) -> anyhow::Result<()> {
        self.partitions.push((topic.to_owned(), index, error));
        Ok(())
    }

    fn batch(
        &mut self,
        header: &BatchHeader,
        bytes: u64,
        whole: Option<&Bytes>,
    ) -> anyhow::Result<()> {
        let batch = (
            header.base_offset.0,
            header.record_count,
            bytes,
            whole.is_some(),
        );
        self.batches.push(batch);
        Ok(())
    }
}

fn batch(base: i64, values: &[usize], compression: wire::batch::Compression) -> Bytes {
    let builder = BatchBuilder::new(Offset(base), LeaderEpoch(0));
    let mut builder = builder.compression(compression);
    for bytes in values {
        let value = vec![7; *bytes];
        builder.add(
            TimestampMs(5),
            Some(b"key"),
            Some(&value),
            &[("h", Some(b"x"))],
        );
    }
    builder.finish().unwrap()
}

fn response(records: Vec<Bytes>) -> FetchResponse {
    let mut with = FetchPartitionResponse::failed(4, ErrorCode::NotLeaderOrFollower);
    with.error = None;
    with.records = records;
    FetchResponse {
        session_id: 12,
        topics: vec![FetchTopicResponse {
            name: "some-topic".to_owned().into(),
            topic_id: TopicId::ZERO,
            partitions: vec![
                with,
                FetchPartitionResponse::failed(5, ErrorCode::NotLeaderOrFollower),
            ],
        }],
        ..FetchResponse::default()
    }
}

async fn pair() -> (TcpStream, Stream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let socket = TcpStream::connect(listener.local_addr().unwrap())
        .await
        .unwrap();
    let (accepted, _) = listener.accept().await.unwrap();
    (socket, Stream::new(accepted, SkipMode::Discard))
}

async fn read(version: i16, want: Want, records: Vec<Bytes>) -> SeenFetch {
    let frame = response(records).encode(version, 77).unwrap().to_bytes();
    let (mut socket, mut stream) = pair().await;
    let sender = tokio::spawn(async move {
        // Two responses: the second one starts where the first one ends.
        socket.write_all(&frame).await.unwrap();
        socket.write_all(&frame).await.unwrap();
    });
    let mut seen = SeenFetch::default();
    for _ in 0..2 {
        seen = SeenFetch::default();
        let id = read_answer(&mut stream, version, want, &mut seen)
            .await
            .unwrap();
        assert_eq!(id, 77);
    }
    sender.await.unwrap();
    seen
}

#[tokio::test]
async fn every_version_gives_its_batches() {
    use wire::batch::Compression::{None, Zstd};
    for version in VERSIONS.0..=VERSIONS.1 {
        let plain = || vec![batch(10, &[100, 200], None), batch(12, &[300_000], None)];
        let named = ("some-topic".to_owned(), 4, 0);
        let failed = ErrorCode::NotLeaderOrFollower.code();
        for (want, whole) in [(Want::Bytes, false), (Want::Records, true)] {
            let seen = read(version, want, plain()).await;
            let expected = [(10, 2, 306, whole), (12, 1, 300_003, whole)];
            assert_eq!(seen.batches, expected, "{version} {want:?}");
            assert_eq!(seen.partitions[0], named);
            assert_eq!(seen.partitions[1], ("some-topic".to_owned(), 5, failed));
            assert_eq!(seen.session, if version >= 7 { (0, 12) } else { (0, 0) });
        }
        let seen = read(version, Want::Sized(9), plain()).await;
        assert_eq!(seen.batches, [(10, 2, 18, false), (12, 1, 9, false)]);
        let seen = read(version, Want::Bytes, vec![batch(0, &[5000], Zstd)]).await;
        assert_eq!(seen.batches, [(0, 1, 5003, true)]);
    }
}

#[tokio::test]
async fn a_batch_cut_short_is_passed_over() {
    use wire::batch::Compression::None;
    let (whole, cut) = (batch(0, &[100], None), batch(1, &[5000], None).slice(..900));
    for cut in [cut.clone(), cut.slice(..30)] {
        let seen = read(11, Want::Bytes, vec![whole.clone(), cut]).await;
        assert_eq!(seen.batches, [(0, 1, 103, false)]);
        assert_eq!(seen.partitions.len(), 2);
    }
}

#[tokio::test]
async fn a_broken_answer_is_an_error() {
    let frame = response(Vec::new()).encode(12, 77).unwrap().to_bytes();
    for at in 8..frame.len() {
        let mut broken = frame.to_vec();
        broken[at] = broken[at].wrapping_add(0x81);
        let (mut socket, mut stream) = pair().await;
        socket.write_all(&broken).await.unwrap();
        drop(socket);
        // Either a response or an error is fine, a panic or an endless wait is not.
        let _ = read_answer(&mut stream, 12, Want::Bytes, &mut SeenFetch::default()).await;
    }
}

#[tokio::test]
async fn records_of_any_length_are_added_up_wherever_the_reads_end() {
    use wire::batch::Compression::None;
    // Record lengths with varints of one, two and three bytes, and records longer than one read.
    let values: Vec<usize> = (0..900)
        .map(|at| match at % 90 {
            0 => 70_000,
            1 => 20_000,
            short => (short * short) % 1_500,
        })
        .collect();
    let payload = values.iter().map(|bytes| *bytes as u64 + 3).sum::<u64>();
    let batches = vec![batch(0, &values, None), batch(900, &[1], None)];
    let seen = read(12, Want::Bytes, batches).await;
    assert_eq!(seen.batches, [(0, 900, payload, false), (900, 1, 4, false)]);
}

#[test]
fn what_is_no_whole_record_is_left_alone() {
    let record = [20u8, 0, 0, 0, 2, b'k', 6, b'v', b'v', b'v', 0];
    let whole = Front::Whole {
        bytes: 11,
        payload: 4,
    };
    assert_eq!(front(&record, 11), whole);
    for cut in 1..11 {
        assert_eq!(front(&record[..cut], 11), Front::Short, "{cut}");
    }
    // Cases: longer than its batch; a key, and a value, longer than their record; a negative
    // length.
    assert_eq!(front(&record, 10), Front::Other);
    for (at, byte) in [(4, 14), (6, 60), (0, 1)] {
        let mut broken = record;
        broken[at] = byte;
        assert_eq!(front(&broken, 11), Front::Other, "{at}");
    }
    assert_eq!(front(&[], 11), Front::Other);
}
