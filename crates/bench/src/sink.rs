//! A broker that discards all records: shows the most that a generator, a socket and this machine
//! can do.
//!
//! It implements just enough of Kafka for the same client: ApiVersions, Metadata, CreateTopics,
//! `DeleteTopics`, `InitProducerId`, Produce, and ListOffsets, by which a load finds the leaders
//! settled. It parses only the batch headers of records, to count
//! offsets; the rest is read into one reused buffer or, with [`SkipMode::Discard`], never leaves
//! the kernel. A produced topic counts as existing. Nothing can be read back.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use tokio::net::{TcpListener, TcpStream};
use wire::StrBytes;
use wire::batch::BatchHeader;
use wire::kafka::shape::DECODED_BYTES_MAX;
use wire::kafka::{Api, Request, Response, decode_request, encode_response};
use wire::messages::api_versions_response::ApiVersion;
use wire::messages::create_topics_response::CreatableTopicResult;
use wire::messages::delete_topics_response::DeletableTopicResult;
use wire::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use wire::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use wire::messages::{
    ApiVersionsRequest, ApiVersionsResponse, CreateTopicsRequest, CreateTopicsResponse,
    DeleteTopicsRequest, DeleteTopicsResponse, InitProducerIdResponse, ListOffsetsRequest,
    ListOffsetsResponse, MetadataRequest, MetadataResponse, TopicName,
};
use wire::types::ErrorCode;

use crate::load::stream::{SkipMode, Stream};

mod produced;

/// The served requests: API, oldest and newest version.
const SERVED: [(Api, i16, i16); 7] = [
    (Api::Produce, produced::VERSIONS.0, produced::VERSIONS.1),
    (Api::ListOffsets, 1, 7),
    (Api::Metadata, 1, 12),
    (Api::ApiVersions, 0, 3),
    (Api::CreateTopics, 2, 7),
    (Api::DeleteTopics, 1, 6),
    (Api::InitProducerId, 0, 4),
];
/// Limit on requests other than Produce, which alone is not read as a whole.
const QUESTION_BYTES_MAX: usize = 16 << 20;
/// Bytes of a request's header up to the client id: key, version, correlation id, length of the
/// client id.
const FIXED_HEADER_BYTES: usize = 10;

/// What happens to the bytes of records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SinkMode {
    /// They are copied to memory, as any broker must.
    Copies,
    /// The kernel discards them, which is faster than any broker could be.
    Nothing,
}

/// The state of a sink: the next offsets of each topic's partitions, and the last producer id.
#[derive(Debug, Default)]
struct SinkState {
    address: Option<SocketAddr>,
    topics: BTreeMap<String, Vec<i64>>,
    producers: i64,
}

/// Binds the listener for [`serve`].
pub async fn listen(address: &str) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).await;
    listener.with_context(|| format!("listening on {address}"))
}

/// Serves until dropped; must run on one thread, within a `LocalSet`.
pub async fn serve(listener: TcpListener, takes: SinkMode) -> anyhow::Result<()> {
    let state = Rc::new(RefCell::new(SinkState {
        address: Some(listener.local_addr()?),
        ..SinkState::default()
    }));
    let skipping = match takes {
        SinkMode::Copies => SkipMode::Copy,
        SinkMode::Nothing => SkipMode::Discard,
    };
    loop {
        let (socket, peer) = listener.accept().await?;
        let state = Rc::clone(&state);
        tokio::task::spawn_local(async move {
            if let Err(error) = converse(socket, skipping, &state).await {
                let why = format!("{error:#}");
                eprintln!("sink: {peer}: {}", wire::text::EscapedText(&why));
            }
        });
    }
}

/// Runs [`serve`] on the calling thread until ^C; passes the bound address to `said`.
pub fn run(address: &str, takes: SinkMode, said: impl FnOnce(SocketAddr)) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let served = async {
        let listener = listen(address).await?;
        said(listener.local_addr()?);
        tokio::select! {
            served = serve(listener, takes) => served,
            stopped = tokio::signal::ctrl_c() => Ok(stopped?),
        }
    };
    tokio::task::LocalSet::new().block_on(&runtime, served)
}

async fn converse(
    socket: TcpStream,
    skipping: SkipMode,
    state: &RefCell<SinkState>,
) -> anyhow::Result<()> {
    socket.set_nodelay(true)?;
    let mut stream = Stream::new(socket, skipping);
    let mut out = Vec::new();
    while stream.has_next().await? {
        let length = usize::try_from(i32::from_be_bytes(stream.take().await?))?;
        ensure!(length >= FIXED_HEADER_BYTES, "a request of {length} bytes");
        let key = i16::from_be_bytes([stream.peek(2).await?[0], stream.peek(2).await?[1]]);
        out.clear();
        if key == Api::Produce.key() {
            produced::take(&mut stream, length, state, &mut out).await?;
        } else {
            ensure!(length <= QUESTION_BYTES_MAX, "a question of {length} bytes");
            let mut frame = Vec::with_capacity(length);
            stream.take_into(length, &mut frame).await?;
            let answer = state.borrow_mut().answer(&frame.into())?;
            answer
                .segments()
                .iter()
                .for_each(|segment| out.extend_from_slice(segment));
        }
        stream.socket().write_all(&out).await?;
    }
    Ok(())
}

impl SinkState {
    fn answer(&mut self, frame: &Bytes) -> anyhow::Result<Response> {
        let request = Request::parse(frame)?;
        let (api, version) = (request.header.api, request.header.version);
        let id = request.header.correlation_id;
        let served = SERVED.iter().find(|(served, ..)| *served == api);
        let (_, oldest, newest) =
            served.with_context(|| format!("{} is not served", api.name()))?;
        if !(*oldest..=*newest).contains(&version) {
            if api == Api::ApiVersions {
                let unsupported = ErrorCode::UnsupportedVersion.code();
                let answer = api_versions().with_error_code(unsupported);
                return Ok(encode_response(api, 0, id, &answer)?);
            }
            bail!("{} is not served in version {version}", api.name());
        }
        let body = &request.body;
        Ok(match api {
            Api::ApiVersions => {
                decode_request::<ApiVersionsRequest>(version, body, DECODED_BYTES_MAX)?;
                encode_response(api, version, id, &api_versions())?
            }
            Api::Metadata => {
                let asked = decode_request(version, body, DECODED_BYTES_MAX)?;
                encode_response(api, version, id, &self.metadata(&asked))?
            }
            Api::CreateTopics => {
                let asked = decode_request(version, body, DECODED_BYTES_MAX)?;
                encode_response(api, version, id, &self.create(&asked))?
            }
            Api::ListOffsets => {
                let asked = decode_request(version, body, DECODED_BYTES_MAX)?;
                encode_response(api, version, id, &self.offsets(&asked))?
            }
            Api::DeleteTopics => {
                let asked = decode_request(version, body, DECODED_BYTES_MAX)?;
                encode_response(api, version, id, &self.delete(&asked))?
            }
            _ => {
                self.producers += 1;
                let answer = InitProducerIdResponse::default()
                    .with_producer_id(self.producers.into())
                    .with_producer_epoch(0);
                encode_response(api, version, id, &answer)?
            }
        })
    }

    /// Returns the next offsets, or zero as the earliest ones.
    fn offsets(&self, asked: &ListOffsetsRequest) -> ListOffsetsResponse {
        let topics = asked.topics.iter().map(|topic| {
            let known = self.topics.get(topic.name.0.as_str());
            let partitions = topic.partitions.iter().map(|partition| {
                let index = usize::try_from(partition.partition_index).ok();
                let next = index.and_then(|index| known?.get(index)).copied();
                let earliest = next.filter(|_| partition.timestamp == -2).map(|_| 0);
                let unknown = ErrorCode::UnknownTopicOrPartition.code();
                ListOffsetsPartitionResponse::default()
                    .with_partition_index(partition.partition_index)
                    .with_error_code(if next.is_some() { 0 } else { unknown })
                    .with_offset(earliest.or(next).unwrap_or(-1))
            });
            ListOffsetsTopicResponse::default()
                .with_name(topic.name.clone())
                .with_partitions(partitions.collect())
        });
        ListOffsetsResponse::default().with_topics(topics.collect())
    }

    fn metadata(&self, asked: &MetadataRequest) -> MetadataResponse {
        let names: Vec<String> = match &asked.topics {
            Some(topics) => {
                let named = topics.iter().filter_map(|topic| topic.name.as_ref());
                named.map(|name| name.0.as_str().to_owned()).collect()
            }
            None => self.topics.keys().cloned().collect(),
        };
        let topics = names.into_iter().map(|name| {
            let offsets = self.topics.get(&name);
            let unknown = ErrorCode::UnknownTopicOrPartition.code();
            let partitions = (0..).zip(offsets.into_iter().flatten()).map(|(index, _)| {
                MetadataResponsePartition::default()
                    .with_partition_index(index)
                    .with_leader_id(1.into())
                    .with_leader_epoch(0)
                    .with_replica_nodes(vec![1.into()])
                    .with_isr_nodes(vec![1.into()])
            });
            MetadataResponseTopic::default()
                .with_error_code(if offsets.is_some() { 0 } else { unknown })
                .with_name(Some(topic_name(name)))
                .with_partitions(partitions.collect())
        });
        let address = self
            .address
            .map_or_else(String::new, |address| address.ip().to_string());
        let port = self.address.map_or(0, |address| address.port());
        let broker = MetadataResponseBroker::default()
            .with_node_id(1.into())
            .with_host(StrBytes::from_string(address))
            .with_port(port.into());
        MetadataResponse::default()
            .with_brokers(vec![broker])
            .with_cluster_id(Some(StrBytes::from_static_str("sink")))
            .with_controller_id(1.into())
            .with_topics(topics.collect())
    }

    fn create(&mut self, asked: &CreateTopicsRequest) -> CreateTopicsResponse {
        let made = asked.topics.iter().map(|topic| {
            let partitions = usize::try_from(topic.num_partitions).unwrap_or(1);
            let name = topic.name.0.as_str().to_owned();
            let exists = self.topics.contains_key(&name);
            if !exists && !asked.validate_only {
                self.topics.insert(name, vec![0; partitions]);
            }
            let error = if exists {
                ErrorCode::TopicAlreadyExists.code()
            } else {
                0
            };
            CreatableTopicResult::default()
                .with_name(topic.name.clone())
                .with_error_code(error)
                .with_num_partitions(topic.num_partitions)
                .with_replication_factor(1)
        });
        CreateTopicsResponse::default().with_topics(made.collect())
    }

    fn delete(&mut self, asked: &DeleteTopicsRequest) -> DeleteTopicsResponse {
        let named = asked.topics.iter().filter_map(|topic| topic.name.clone());
        let names: Vec<TopicName> = asked.topic_names.iter().cloned().chain(named).collect();
        let gone = names.into_iter().map(|name| {
            let gone = self.topics.remove(name.0.as_str());
            let unknown = ErrorCode::UnknownTopicOrPartition.code();
            DeletableTopicResult::default()
                .with_name(Some(name))
                .with_error_code(if gone.is_some() { 0 } else { unknown })
        });
        DeleteTopicsResponse::default().with_responses(gone.collect())
    }

    /// Returns the offset of an appended batch, or -1 if the partition is out of range.
    fn append(&mut self, topic: &str, partition: usize, batch: &BatchHeader) -> i64 {
        if !self.topics.contains_key(topic) {
            self.topics.insert(topic.to_owned(), Vec::new());
        }
        let offsets = self.topics.get_mut(topic);
        let Some(offsets) = offsets.filter(|_| partition < PARTITIONS_MAX) else {
            return -1;
        };
        if offsets.len() <= partition {
            offsets.resize(partition + 1, 0);
        }
        let offset = offsets[partition];
        offsets[partition] += i64::from(batch.record_count.max(0));
        offset
    }
}

/// Limit on partition indexes.
const PARTITIONS_MAX: usize = 1 << 20;

fn api_versions() -> ApiVersionsResponse {
    let served = SERVED.iter().map(|(api, oldest, newest)| {
        ApiVersion::default()
            .with_api_key(api.key())
            .with_min_version(*oldest)
            .with_max_version(*newest)
    });
    ApiVersionsResponse::default().with_api_keys(served.collect())
}

fn topic_name(name: String) -> TopicName {
    TopicName(StrBytes::from_string(name))
}
