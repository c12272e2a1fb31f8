//! A broker for tests: it answers on a port of this machine as a script says.
//!
//! It claims to serve every request in every version. It ends a connection when the script has no
//! answer.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use client::ClientSettings;
use wire::messages::api_versions_response::ApiVersion;
use wire::messages::find_coordinator_response::Coordinator;
use wire::messages::metadata_response::{MetadataResponseBroker, MetadataResponseTopic};
use wire::messages::{
    ApiVersionsRequest, ApiVersionsResponse, FindCoordinatorRequest, FindCoordinatorResponse,
    MetadataRequest, MetadataResponse, RequestHeader, ResponseHeader,
};
use wire::protocol::{HeaderVersion as _, Request};
use wire::{Decodable as _, Encodable as _};

use super::{Cluster, text};

const HOST: &str = "127.0.0.1";
/// More than there are requests.
const KEYS: i16 = 100;
/// The newest version in which a client asks first on a connection.
const FIRST_VERSION_MAX: i16 = 3;
/// Long enough for a machine that is busy.
const WITHIN: Duration = Duration::from_mins(1);

/// A broker, which serves until the tests end.
#[derive(Debug)]
pub(crate) struct Peer {
    port: u16,
}

/// A request that the scripted broker got.
#[derive(Debug)]
pub(crate) struct AskedRequest {
    frame: Bytes,
    port: u16,
}

impl Peer {
    /// Starts a broker that answers with what the script returns for a request.
    pub(crate) fn start(
        script: impl FnMut(&AskedRequest) -> Option<Bytes> + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind((HOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let script = Arc::new(Mutex::new(script));
        thread::spawn(move || {
            for socket in listener.incoming() {
                let script = Arc::clone(&script);
                thread::spawn(move || {
                    let answer = |asked: &AskedRequest| {
                        let mut script = script.lock().unwrap();
                        (*script)(asked)
                    };
                    // The client has ended the connection.
                    drop(socket.and_then(|socket| serve(socket, port, answer)));
                });
            }
        });
        Self { port }
    }

    /// Returns the cluster that is reached through this broker.
    pub(crate) fn cluster(&self) -> Cluster {
        let settings = ClientSettings::new(&format!("{HOST}:{}", self.port)).unwrap();
        Cluster::reach(settings, WITHIN).unwrap()
    }

    /// Returns this broker as metadata names it.
    pub(crate) fn node(&self, id: i32) -> MetadataResponseBroker {
        node(id, self.port)
    }
}

fn node(id: i32, port: u16) -> MetadataResponseBroker {
    MetadataResponseBroker::default()
        .with_node_id(id.into())
        .with_host(text(HOST))
        .with_port(port.into())
}

/// Answers the requests of one connection.
fn serve(
    mut socket: TcpStream,
    port: u16,
    mut script: impl FnMut(&AskedRequest) -> Option<Bytes>,
) -> io::Result<()> {
    loop {
        let mut length = [0; 4];
        socket.read_exact(&mut length)?;
        let mut frame = vec![0; usize::try_from(u32::from_be_bytes(length)).unwrap()];
        socket.read_exact(&mut frame)?;
        let frame = Bytes::from(frame);
        let asked = AskedRequest { frame, port };
        let Some(answer) = asked.versions().or_else(|| script(&asked)) else {
            return Ok(());
        };
        let length = u32::try_from(answer.len()).unwrap();
        socket.write_all(&length.to_be_bytes())?;
        socket.write_all(&answer)?;
    }
}

impl AskedRequest {
    /// Returns the answer to a request of this type; `None` if it is of another.
    pub(crate) fn to<R: Request>(&self, respond: impl FnOnce(R) -> R::Response) -> Option<Bytes> {
        let mut frame = self.frame.clone();
        let (key, version) = self.kind();
        if key != R::KEY {
            return None;
        }
        let header = RequestHeader::decode(&mut frame, R::header_version(version)).unwrap();
        let request = R::decode(&mut frame, version).unwrap();
        let mut answer = BytesMut::new();
        ResponseHeader::default()
            .with_correlation_id(header.correlation_id)
            .encode(&mut answer, R::Response::header_version(version))
            .unwrap();
        respond(request).encode(&mut answer, version).unwrap();
        Some(answer.freeze())
    }

    fn kind(&self) -> (i16, i16) {
        let mut frame = self.frame.clone();
        (frame.get_i16(), frame.get_i16())
    }

    /// Answers what a client asks first on each connection.
    fn versions(&self) -> Option<Bytes> {
        let (_, version) = self.kind();
        let ranges = (0..KEYS).map(|key| {
            ApiVersion::default()
                .with_api_key(key)
                .with_max_version(i16::MAX)
        });
        let answer = ApiVersionsResponse::default().with_api_keys(ranges.collect());
        let first = |_: ApiVersionsRequest| answer;
        // A question for features is in the newest version.
        (version <= FIRST_VERSION_MAX)
            .then(|| self.to(first))
            .flatten()
    }

    /// Returns the broker that was asked, as metadata names it.
    pub(crate) fn node(&self, id: i32) -> MetadataResponseBroker {
        node(id, self.port)
    }

    /// Answers with metadata of these topics, in a cluster of this broker.
    pub(crate) fn metadata(&self, topics: Vec<MetadataResponseTopic>) -> Option<Bytes> {
        let brokers = vec![self.node(1)];
        let answer = MetadataResponse::default().with_brokers(brokers);
        self.to(|_: MetadataRequest| answer.with_topics(topics))
    }

    /// Answers that this broker coordinates what is asked for.
    pub(crate) fn coordinator(&self) -> Option<Bytes> {
        self.to(|request: FindCoordinatorRequest| {
            let found = request.coordinator_keys.into_iter().map(|key| {
                Coordinator::default()
                    .with_key(key)
                    .with_node_id(1.into())
                    .with_host(text(HOST))
                    .with_port(self.port.into())
            });
            FindCoordinatorResponse::default().with_coordinators(found.collect())
        })
    }
}
