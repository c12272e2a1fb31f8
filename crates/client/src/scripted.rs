//! A broker for tests: it listens on a simulated network and answers as a script says.
//!
//! It claims to serve every request in every version, unless the script answers that itself.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use platform::clock::Instant;
use platform::sim::SimNet;
use platform::task;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio_rustls::TlsAcceptor;
use wire::kafka::frame::next_frame;
use wire::messages::api_versions_response::ApiVersion;
use wire::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use wire::messages::{
    ApiVersionsRequest, ApiVersionsResponse, MetadataRequest, MetadataResponse, RequestHeader,
    ResponseHeader, TopicName,
};
use wire::protocol::{HeaderVersion as _, Request};
use wire::{Decodable as _, Encodable as _, StrBytes};

use crate::cluster::Cluster;
use crate::settings::ClientSettings;

/// The port of all brokers.
pub(crate) const PORT: u16 = 9092;
/// More than there are requests.
const KEYS: i16 = 100;
/// Longer than any request of a test.
const FRAME_BYTES_MAX: usize = 64 << 20;

/// A request that a scripted broker got.
pub(crate) struct AskedRequest {
    frame: Bytes,
    pub(crate) api: i16,
    pub(crate) version: i16,
}

/// What a broker does with a request.
pub(crate) enum Reply {
    /// Answers with this frame.
    Answer(Bytes),
    /// Does the same after a time; later requests of the connection wait.
    Later(Duration, Bytes),
    /// Sends these bytes without a length.
    Raw(Bytes),
    /// Does not answer, and takes the next request.
    Silence,
    /// Ends the connection.
    Close,
}

/// What brokers do: the name of the broker, and the request.
pub(crate) type Script = Rc<RefCell<dyn FnMut(&str, &AskedRequest) -> Option<Reply>>>;

/// Makes a script of a closure.
pub(crate) fn script(
    closure: impl FnMut(&str, &AskedRequest) -> Option<Reply> + 'static,
) -> Script {
    Rc::new(RefCell::new(closure))
}

/// Starts a broker with this name that speaks TLS.
pub(crate) fn serve_tls(net: &SimNet, host: &str, script: &Script, config: &Arc<ServerConfig>) {
    let (listener, host) = (net.listen(host, PORT), host.to_owned());
    let (script, acceptor) = (Rc::clone(script), TlsAcceptor::from(Arc::clone(config)));
    task::spawn(async move {
        loop {
            let stream = listener.accept().await;
            // A client that does not trust ends it.
            if let Ok(stream) = acceptor.accept(stream).await {
                task::spawn(serve_one(stream, host.clone(), Rc::clone(&script)));
            }
        }
    });
}

/// Starts a broker with this name; it serves until the simulation ends.
pub(crate) fn serve(net: &SimNet, host: &str, script: &Script) {
    let (listener, host) = (net.listen(host, PORT), host.to_owned());
    let script = Rc::clone(script);
    task::spawn(async move {
        loop {
            let stream = listener.accept().await;
            let (host, script) = (host.clone(), Rc::clone(&script));
            task::spawn(serve_one(stream, host, script));
        }
    });
}

async fn serve_one<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, host: String, script: Script) {
    let mut input = BytesMut::new();
    while serve_request(&mut stream, &mut input, &host, &script).await {}
}

/// Serves the next request of a connection; returns whether others may come.
pub(crate) async fn serve_request<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    input: &mut BytesMut,
    host: &str,
    script: &Script,
) -> bool {
    loop {
        let Some(frame) = next_frame(input, FRAME_BYTES_MAX).unwrap() else {
            match stream.read_buf(input).await {
                Ok(0) | Err(_) => return false,
                Ok(_) => continue,
            }
        };
        let mut head = frame.clone();
        let asked = AskedRequest {
            api: head.get_i16(),
            version: head.get_i16(),
            frame,
        };
        let reply = {
            let mut script = script.borrow_mut();
            (*script)(host, &asked)
        };
        let answer = match reply.or_else(|| asked.versions()) {
            Some(Reply::Answer(answer)) => answer,
            Some(Reply::Later(after, answer)) => {
                tokio::time::sleep(after).await;
                answer
            }
            Some(Reply::Raw(bytes)) => {
                drop(stream.write_all(&bytes).await);
                return true;
            }
            Some(Reply::Silence) => return true,
            Some(Reply::Close) | None => return false,
        };
        let length = u32::try_from(answer.len()).unwrap();
        let frame = [&length.to_be_bytes(), &answer[..]].concat();
        return stream.write_all(&frame).await.is_ok() && stream.flush().await.is_ok();
    }
}

impl AskedRequest {
    /// Returns the request, if it is of this type.
    pub(crate) fn request<R: Request>(&self) -> Option<R> {
        if self.api != R::KEY {
            return None;
        }
        let mut frame = self.frame.clone();
        RequestHeader::decode(&mut frame, R::header_version(self.version)).unwrap();
        Some(R::decode(&mut frame, self.version).unwrap())
    }

    /// Returns the frame of an answer to this request.
    pub(crate) fn answer<R: Request>(&self, answer: &R::Response) -> Bytes {
        let mut frame = self.frame.clone();
        let header = RequestHeader::decode(&mut frame, R::header_version(self.version)).unwrap();
        let mut out = BytesMut::new();
        ResponseHeader::default()
            .with_correlation_id(header.correlation_id)
            .encode(&mut out, R::Response::header_version(self.version))
            .unwrap();
        answer.encode(&mut out, self.version).unwrap();
        out.freeze()
    }

    /// Answers a request of this type; `None` if it is of another.
    pub(crate) fn to<R: Request>(&self, respond: impl FnOnce(R) -> R::Response) -> Option<Reply> {
        let answer = respond(self.request::<R>()?);
        Some(Reply::Answer(self.answer::<R>(&answer)))
    }

    /// Answers what a client asks first on each connection.
    fn versions(&self) -> Option<Reply> {
        self.to(|_: ApiVersionsRequest| {
            let ranges = (0..KEYS).map(|key| {
                ApiVersion::default()
                    .with_api_key(key)
                    .with_max_version(i16::MAX)
            });
            ApiVersionsResponse::default().with_api_keys(ranges.collect())
        })
    }

    /// Answers with these brokers (id and name) and topics (partitions: leader and epoch).
    pub(crate) fn metadata(
        &self,
        brokers: &[(i32, &str)],
        topics: &BTreeMap<String, Vec<(i32, i32)>>,
    ) -> Option<Reply> {
        self.to(|request: MetadataRequest| {
            let asked = request.topics.map(|topics| {
                let names = topics.into_iter().filter_map(|topic| topic.name);
                names.map(|name| name.0.to_string()).collect::<Vec<_>>()
            });
            let asked = asked.unwrap_or_else(|| topics.keys().cloned().collect());
            let brokers = brokers.iter().map(|(id, host)| {
                MetadataResponseBroker::default()
                    .with_node_id((*id).into())
                    .with_host(StrBytes::from_string((*host).to_owned()))
                    .with_port(PORT.into())
            });
            let topics = asked.iter().map(|name| topic(name, topics.get(name)));
            MetadataResponse::default()
                .with_brokers(brokers.collect())
                .with_topics(topics.collect())
        })
    }
}

fn topic(name: &str, leaders: Option<&Vec<(i32, i32)>>) -> MetadataResponseTopic {
    let name = TopicName(StrBytes::from_string(name.to_owned()));
    let topic = MetadataResponseTopic::default().with_name(Some(name));
    let Some(leaders) = leaders else {
        return topic.with_error_code(3);
    };
    let partitions = (0..).zip(leaders).map(|(index, (leader, epoch))| {
        MetadataResponsePartition::default()
            .with_partition_index(index)
            .with_leader_id((*leader).into())
            .with_leader_epoch(*epoch)
    });
    topic.with_partitions(partitions.collect())
}

/// Returns the settings of a client that begins with this broker.
pub(crate) fn settings(host: &str) -> ClientSettings {
    ClientSettings::new(&format!("{host}:{PORT}")).unwrap()
}

/// Returns a client without jitter that begins with this broker.
pub(crate) fn cluster(net: &SimNet, host: &str) -> Cluster {
    Cluster::with_random(net.clone(), settings(host), || 20)
}

/// Returns a time that is far enough for every test.
pub(crate) fn later() -> Instant {
    Instant::now() + Duration::from_mins(10)
}
