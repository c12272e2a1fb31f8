//! What a sensible request says: values by the names of fields.
//!
//! A field that is called alike in another request gets the same, so that requests fit together
//! without being known here. A field without a rule gets a number that is 1 and a text that is "x":
//! it is answered, too.

use std::collections::BTreeMap;

use bytes::{BufMut as _, Bytes, BytesMut};
use wire::batch::BatchBuilder;
use wire::kafka::Api;
use wire::types::{LeaderEpoch, Offset, ProducerId, TimestampMs};

pub(crate) const TOPIC: &str = "sweep";

/// The words of a client: some come from answers of the broker, every client has the others.
#[derive(Clone, Debug)]
pub(crate) struct Words {
    numbers: BTreeMap<&'static str, i64>,
    texts: BTreeMap<&'static str, Option<String>>,
    ids: BTreeMap<&'static str, [u8; 16]>,
    /// Arrays that have nothing in them.
    empty: Vec<&'static str>,
    /// For Produce within a transaction.
    pub(crate) in_transaction: bool,
    /// Chooses where several things are sensible.
    pub(crate) dice: u64,
}

impl Words {
    /// Returns those of a client that has no answer yet.
    pub(crate) fn stranger(dice: u64) -> Self {
        let mut words = Self {
            numbers: BTreeMap::new(),
            texts: BTreeMap::new(),
            ids: BTreeMap::new(),
            empty: Vec::new(),
            in_transaction: false,
            dice,
        };
        for (name, value) in NUMBERS {
            words.numbers.insert(name, *value);
        }
        for (name, value) in TEXTS {
            words.texts.insert(name, value.map(str::to_owned));
        }
        words
    }

    pub(crate) fn say(&mut self, name: &'static str, value: i64) -> &mut Self {
        self.numbers.insert(name, value);
        self
    }

    pub(crate) fn name(&mut self, name: &'static str, value: &str) -> &mut Self {
        self.texts.insert(name, Some(value.to_owned()));
        self
    }

    pub(crate) fn identify(&mut self, name: &'static str, id: [u8; 16]) -> &mut Self {
        self.ids.insert(name, id);
        self
    }

    pub(crate) fn without(&mut self, array: &'static str) -> &mut Self {
        self.empty.push(array);
        self
    }

    /// How many items an array has that is not the aim.
    pub(crate) fn count(&self, path: &str) -> usize {
        usize::from(!self.empty.iter().any(|name| path.ends_with(name)))
    }

    pub(crate) fn told(&self, name: &str) -> i64 {
        self.numbers.get(name).copied().unwrap_or_default()
    }

    pub(crate) fn id(&self, _: Api, path: &str) -> [u8; 16] {
        look_up(&self.ids, path).copied().unwrap_or([7; 16])
    }

    pub(crate) fn number(&self, api: Api, path: &str) -> i64 {
        if path.ends_with("config_operation") {
            return [0, 2, 3, 1][(self.dice % 4) as usize];
        }
        if is_consumer(api) && path == "member_epoch" {
            return self.told("consumer_epoch");
        }
        look_up(&self.numbers, path).copied().unwrap_or(1)
    }

    pub(crate) fn text(&self, api: Api, path: &str) -> Option<&str> {
        let name = path.rsplit('.').next().unwrap_or(path);
        let of = |key: &str| self.texts.get(key).and_then(Option::as_deref);
        if is_consumer(api) && matches!(name, "group_id" | "member_id" | "group_ids") {
            return of(if name == "member_id" {
                "consumer_member"
            } else {
                "consumer_group"
            });
        }
        if api == Api::Produce && path == "transactional_id" && !self.in_transaction {
            return None;
        }
        match look_up(&self.texts, path) {
            Some(text) => text.as_deref(),
            None => Some("x"),
        }
    }

    pub(crate) fn bytes(&self, api: Api, path: &str) -> Bytes {
        match path.rsplit('.').next().unwrap_or(path) {
            "records" => self.batch(1),
            "metadata" => subscription(1),
            "assignment" => assignment(),
            "metrics" => Bytes::new(),
            _ if api == Api::SaslAuthenticate => Bytes::from_static(b"\0alice\0secret"),
            _ => Bytes::from_static(&[7; 32]),
        }
    }

    /// Bytes of a format that a broker may parse, with as many things in them as fit.
    pub(crate) fn long_bytes(&self, _: Api, path: &str, bytes: usize) -> Bytes {
        match path.rsplit('.').next().unwrap_or(path) {
            "records" => self.batch(bytes / 8),
            "metadata" => subscription(bytes / 8),
            "metrics" => gauge(bytes),
            _ => Bytes::from(vec![b'x'; bytes]),
        }
    }

    /// A batch of this number of small records.
    fn batch(&self, records: usize) -> Bytes {
        let mut builder = BatchBuilder::new(Offset(0), LeaderEpoch::NONE);
        if self.in_transaction {
            let epoch = i16::try_from(self.told("producer_epoch")).unwrap_or(0);
            builder = builder
                .producer(ProducerId(self.told("producer_id")), epoch, 0)
                .transactional(true);
        }
        for _ in 0..records {
            builder.add(TimestampMs(1_767_225_600_000), None, Some(b"v"), &[]);
        }
        builder.finish().unwrap_or_default()
    }
}

fn is_consumer(api: Api) -> bool {
    matches!(
        api,
        Api::ConsumerGroupHeartbeat | Api::ConsumerGroupDescribe
    )
}

/// By the last two names of the path, by the last one.
fn look_up<'a, V>(known: &'a BTreeMap<&'static str, V>, path: &str) -> Option<&'a V> {
    let mut dots = path.rmatch_indices('.').map(|(at, _)| at);
    let (last, before) = (dots.next(), dots.next());
    let from = |dot: Option<usize>| dot.map_or(path, |dot| &path[dot + 1..]);
    known.get(from(before)).or_else(|| known.get(from(last)))
}

/// What a classic consumer says of itself: this number of topics.
fn subscription(topics: usize) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_i16(0);
    bytes.put_i32(i32::try_from(topics).unwrap_or(i32::MAX));
    for number in 0..topics {
        let name = if number == 0 {
            TOPIC.to_owned()
        } else {
            format!("{number:x}")
        };
        bytes.put_i16(i16::try_from(name.len()).unwrap_or(0));
        bytes.put_slice(name.as_bytes());
    }
    bytes.put_i32(-1);
    bytes.freeze()
}

/// One partition of one topic.
fn assignment() -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_i16(0);
    bytes.put_i32(1);
    bytes.put_i16(i16::try_from(TOPIC.len()).unwrap_or(0));
    bytes.put_slice(TOPIC.as_bytes());
    bytes.put_i32(1);
    bytes.put_i32(0);
    bytes.put_i32(-1);
    bytes.freeze()
}

/// An OTLP message with one gauge whose name takes this number of bytes.
fn gauge(name_bytes: usize) -> Bytes {
    fn field(number: u8, inner: &[u8]) -> Vec<u8> {
        let mut bytes = vec![number << 3 | 2];
        let mut rest = inner.len();
        while rest >= 0x80 {
            bytes.push((rest & 0x7f) as u8 | 0x80);
            rest >>= 7;
        }
        bytes.push((rest & 0x7f) as u8);
        bytes.extend(inner);
        bytes
    }
    // A data point of 1.0, in a gauge, in a metric, in a scope, in a resource, in the message.
    let point = [&[4 << 3 | 1][..], &1.0_f64.to_le_bytes()].concat();
    let name = field(1, &vec![b'x'; name_bytes]);
    let metric = [name, field(5, &field(1, &point))].concat();
    Bytes::from(field(1, &field(2, &field(2, &metric))))
}

const NUMBERS: &[(&str, i64)] = &[
    ("partition_index", 0),
    ("partition_indexes", 0),
    ("partition", 0),
    ("partitions", 0),
    ("index", 0),
    ("replica_id", -1),
    ("current_leader_epoch", -1),
    ("last_fetched_epoch", -1),
    ("committed_leader_epoch", -1),
    ("leader_epoch", 0),
    ("fetch_offset", 0),
    ("log_start_offset", -1),
    ("offset", 0),
    ("timestamp", -1),
    ("committed_offset", 0),
    ("retention_time_ms", -1),
    ("max_wait_ms", 0),
    ("min_bytes", 0),
    ("max_bytes", 1 << 20),
    ("partition_max_bytes", 1 << 20),
    ("isolation_level", 0),
    ("session_id", 0),
    ("session_epoch", -1),
    ("acks", -1),
    ("timeout_ms", 1000),
    ("generation_id", -1),
    ("generation_id_or_member_epoch", -1),
    ("member_epoch", 0),
    ("consumer_epoch", 0),
    ("session_timeout_ms", 10_000),
    ("rebalance_timeout_ms", 5_000),
    ("transaction_timeout_ms", 60_000),
    ("producer_id", -1),
    ("producer_epoch", -1),
    ("resource_type", 2),
    ("resource_types", 2),
    ("resource_type_filter", 1),
    ("pattern_type_filter", 1),
    ("key_type", 0),
    ("verify_only", 0),
    ("committed", 0),
    ("coordinator_epoch", 0),
    ("compression_type", 0),
    ("subscription_id", 0),
    ("terminating", 0),
    ("iterations", 4096),
    ("match_type", 0),
    ("strict", 0),
    ("count", 4),
    ("response_partition_limit", 2000),
    ("producer_id_filters", 1),
    ("duration_filter", -1),
    ("election_type", 0),
    ("allow_auto_topic_creation", 0),
];

const TEXTS: &[(&str, Option<&str>)] = &[
    ("name", Some(TOPIC)),
    ("topic", Some(TOPIC)),
    ("topic_name", Some(TOPIC)),
    ("topic_names", Some("sweep-gone")),
    ("subscribed_topic_names", Some(TOPIC)),
    ("resource_name", Some(TOPIC)),
    (
        "configs.name",
        Some("leader.replication.throttled.replicas"),
    ),
    ("configs.value", Some("0:1")),
    ("configuration_keys", Some("retention.ms")),
    ("protocols.name", Some("range")),
    ("users.name", Some("alice")),
    ("deletions.name", Some("alice")),
    ("upsertions.name", Some("alice")),
    ("listeners.name", Some("CONTROLLER")),
    ("group_id", Some("sweep-stranger")),
    ("groups", Some("sweep-stranger")),
    ("groups_names", Some("sweep-gone")),
    ("consumer_group", Some("sweep-stranger-2")),
    ("consumer_member", Some("AAAAAAAAAAAAAAAAAAAAAA")),
    ("member_id", Some("")),
    ("group_instance_id", None),
    ("instance_id", None),
    ("rack_id", Some("")),
    ("protocol_type", Some("consumer")),
    ("protocol_name", Some("range")),
    ("subscribed_topic_regex", None),
    ("server_assignor", None),
    ("transactional_id", Some("sweep-stranger")),
    ("transactional_ids", Some("sweep-stranger")),
    ("v3_and_below_transactional_id", Some("sweep-stranger")),
    ("transactional_id_pattern", Some("(a+)+$")),
    ("states_filter", Some("Stable")),
    ("types_filter", Some("classic")),
    ("state_filters", Some("Ongoing")),
    ("entity_type", Some("client-id")),
    ("entity_name", Some("sweep-throttled")),
    ("match", Some("sweep-throttled")),
    ("ops.key", Some("producer_byte_rate")),
    ("feature", Some("transaction.version")),
    ("principal_type", Some("User")),
];
