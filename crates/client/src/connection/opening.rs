//! Makes a connection: the stream, TLS, the versions, the login, and then the driver takes over.
//!
//! One step after the other, all of them within one deadline. Invariant: before the login is
//! complete, answers have a small bound.

use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use platform::clock::Instant;
use platform::task::{self, timeout_at};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{Semaphore, mpsc};
use wire::StrBytes;
use wire::kafka::frame::next_frame;
use wire::messages::{ApiVersionsRequest, ApiVersionsResponse};
use wire::sasl::Secret;
use wire::text::EscapedText;
use wire::types::ErrorCode;

use super::driver::Driver;
use super::versions::Versions;
use super::{Connection, LostReason, SharedConnection, login};
use crate::ask::{self, Ask};
use crate::error::{ClientError, check};
use crate::settings::{ClientSettings, Login};
use crate::transport::{Dial, Transport};

/// The version of ApiVersions that is tried first. Brokers that do not know it say so in version 0.
const VERSIONS_VERSION: i16 = 3;
/// Longest answer before the login is complete: some hundred times a real one.
const EARLY_BYTES_MAX: usize = 1 << 20;
/// How a broker begins that expects TLS and got something else.
const TLS_ALERT: &[u8] = &[0x15, 0x03];
/// What it may mean if a broker answers what comes before a login, and nothing else.
const NEEDS_LOGIN: &str = "where it wants a login, security.protocol is SASL_PLAINTEXT or SASL_SSL";
/// Bytes that are read at once in this phase.
const READ_BYTES: usize = 4 << 10;

/// A broker by its address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Peer {
    pub(crate) host: Rc<str>,
    pub(crate) port: u16,
    /// Both, for messages.
    pub(crate) address: Rc<str>,
    /// The id of the broker, if it is known.
    pub(crate) node: Option<i32>,
}

impl Peer {
    pub(crate) fn new(host: &str, port: u16, node: Option<i32>) -> Self {
        Self {
            host: host.into(),
            port,
            address: address(host, port).into(),
            node,
        }
    }
}

/// Returns the address of a broker as messages show it, escaped: a broker names most hosts.
pub fn address(host: &str, port: u16) -> String {
    let shown = EscapedText(host);
    if host.contains(':') {
        format!("[{shown}]:{port}")
    } else {
        format!("{shown}:{port}")
    }
}

/// Connects, asks which versions the broker serves, and logs in.
pub(crate) async fn open(
    dial: &dyn Dial,
    peer: &Peer,
    settings: &ClientSettings,
    random: &dyn Fn() -> u64,
    deadline: Instant,
) -> Result<Connection, ClientError> {
    let opening = connect(dial, peer, settings, random, deadline);
    let late = |_| Err(ClientError::timed_out(&peer.address, "connecting"));
    timeout_at(deadline, opening).await.unwrap_or_else(late)
}

async fn connect(
    dial: &dyn Dial,
    peer: &Peer,
    settings: &ClientSettings,
    random: &dyn Fn() -> u64,
    deadline: Instant,
) -> Result<Connection, ClientError> {
    let token = match settings
        .login
        .as_ref()
        .and_then(|login| login.token.as_ref())
    {
        // Before the broker counts the time of a login.
        Some(source) => Some(Box::pin(source.token_by(dial, deadline)).await?),
        None => None,
    };
    let stream = dial.dial(&peer.host, peer.port, deadline).await;
    let stream = stream.map_err(|error| ClientError::io(&peer.address, "connecting", &error))?;
    let stream = match &settings.tls {
        None => Transport::Plain(stream),
        Some(tls) => Transport::secured(stream, &peer.host, &peer.address, tls).await?,
    };
    let mut early = Early {
        stream,
        address: &peer.address,
        client_id: &settings.client_id,
        next_id: 0,
        input: BytesMut::new(),
        ended_means: match &settings.tls {
            None => "where it speaks TLS, security.protocol is SSL or SASL_SSL",
            Some(tls) if tls.has_key() => "it may not take the certificate of this client",
            Some(_) => "it may ask this client for a certificate: ssl.keystore.location",
        },
    };
    let versions = Versions::of(&early.versions().await?);
    let login_ends = match &settings.login {
        None => None,
        Some(login) => log_in(&mut early, &versions, (login, token), random).await?,
    };
    let lost = Rc::new(LostReason::default());
    let (queue, queued) = mpsc::unbounded_channel();
    let room = std::sync::Arc::new(Semaphore::new(settings.in_flight_max.max(1)));
    let next_id = early.next_id;
    let driver = Driver::new(
        early.stream,
        Rc::clone(&peer.address),
        queued,
        settings.answer_bytes_max,
        Rc::clone(&lost),
        settings.login.is_none().then_some(NEEDS_LOGIN),
    );
    task::spawn(driver.drive());
    Ok(Connection(Rc::new(SharedConnection {
        peer: peer.clone(),
        client_id: settings.client_id.as_str().into(),
        versions,
        queue,
        room,
        next_id: next_id.into(),
        lost,
        login_ends,
    })))
}

/// Logs in; a token that is refused is kept no longer.
async fn log_in(
    early: &mut Early<'_>,
    versions: &Versions,
    (login, token): (&Login, Option<Secret<String>>),
    random: &dyn Fn() -> u64,
) -> Result<Option<Instant>, ClientError> {
    let ends = login::log_in(early, versions, (login, token.clone()), random).await;
    let source = login.token.as_ref().zip(token);
    if let (Err(ClientError::Login { .. }), Some((source, token))) = (&ends, source) {
        source.refused(&token);
    }
    ends
}

/// A connection before its driver: one request at a time.
pub(super) struct Early<'a> {
    stream: Transport,
    pub(super) address: &'a str,
    client_id: &'a str,
    next_id: i32,
    input: BytesMut,
    /// What it may mean if the broker ends the connection instead of answering the first request.
    ended_means: &'static str,
}

impl Early<'_> {
    /// Asks for the versions of requests.
    async fn versions(&mut self) -> Result<ApiVersionsResponse, ClientError> {
        let software = |text: &'static str| StrBytes::from_static_str(text);
        let request = ApiVersionsRequest::default()
            .with_client_software_name(software("forebay"))
            .with_client_software_version(software(env!("CARGO_PKG_VERSION")));
        let frame = self.exchange(VERSIONS_VERSION, &request).await;
        let frame = frame.map_err(|error| self.first_failed(error))?;
        let answer = if is_unsupported(&frame) {
            self.ask(0, &ApiVersionsRequest::default()).await?
        } else {
            self.read::<ApiVersionsRequest>(VERSIONS_VERSION, frame)?
        };
        check(answer.error_code, None)?;
        Ok(answer)
    }

    /// Adds what it may mean to the error of a connection that ends at once. With TLS 1.3 a broker
    /// judges the certificate when the client has begun to send, and its alert may not arrive.
    fn first_failed(&self, error: ClientError) -> ClientError {
        with_meaning(error, Some(self.ended_means))
    }

    /// Sends a request and returns the answer.
    pub(super) async fn ask<Q: Ask>(
        &mut self,
        version: i16,
        request: &Q,
    ) -> Result<Q::Answer, ClientError> {
        let frame = self.exchange(version, request).await?;
        self.read::<Q>(version, frame)
    }

    fn read<Q: Ask>(&self, version: i16, frame: Bytes) -> Result<Q::Answer, ClientError> {
        ask::answer::<Q>(frame, version).map_err(|reason| {
            let reason = format!("the answer to {}: {reason}", ask::name_of(Q::API));
            ClientError::malformed(self.address, reason)
        })
    }

    async fn exchange<Q: Ask>(&mut self, version: i16, request: &Q) -> Result<Bytes, ClientError> {
        let id = self.next_id;
        self.next_id = id.wrapping_add(1) & i32::MAX;
        let frame = ask::frame(request, version, id, self.client_id);
        let invalid = |reason| ClientError::invalid(ask::name_of(Q::API), reason);
        let frame = frame.map_err(invalid)?;
        let address = self.address;
        let io = |what| move |error: std::io::Error| ClientError::io(address, what, &error);
        self.stream.write_all(&frame).await.map_err(io("sending"))?;
        self.stream.flush().await.map_err(io("sending"))?;
        loop {
            if self.input.starts_with(TLS_ALERT) {
                let reason = "it speaks TLS here: security.protocol is SSL or SASL_SSL";
                return Err(ClientError::malformed(address, reason));
            }
            let next = next_frame(&mut self.input, EARLY_BYTES_MAX);
            let next = next.map_err(|error| ClientError::malformed(address, error.to_string()))?;
            if let Some(frame) = next {
                if ask::correlation_id(&frame) != Some(id) {
                    return Err(ClientError::malformed(
                        address,
                        "an answer to another request",
                    ));
                }
                if !self.input.is_empty() {
                    // Nothing else was asked for; the driver would begin within it.
                    let reason = "more than the answer to the only request";
                    return Err(ClientError::malformed(address, reason));
                }
                return Ok(frame);
            }
            self.input.reserve(READ_BYTES);
            let read = self.stream.read_buf(&mut self.input).await;
            if read.map_err(io("receiving"))? == 0 {
                return Err(ended(address));
            }
        }
    }
}

/// Returns true for the answer of a broker that does not know the version of ApiVersions, which
/// comes in version 0 and begins with the error.
fn is_unsupported(frame: &Bytes) -> bool {
    let code = frame.get(4..).and_then(|body| body.first_chunk());
    let code = code.map(|code| i16::from_be_bytes(*code));
    code == Some(ErrorCode::UnsupportedVersion.code())
}

/// Adds what it may mean to the error of a stream.
pub(super) fn with_meaning(error: ClientError, means: Option<&str>) -> ClientError {
    match (error, means) {
        (
            ClientError::Io {
                broker,
                what,
                kind,
                reason,
            },
            Some(means),
        ) => ClientError::Io {
            broker,
            what,
            kind,
            reason: format!("{reason} ({means})"),
        },
        (other, _) => other,
    }
}

/// The broker has ended the connection.
pub(super) fn ended(address: &str) -> ClientError {
    let kind = std::io::ErrorKind::UnexpectedEof;
    let error = std::io::Error::new(kind, "the broker has closed the connection");
    ClientError::io(address, "receiving", &error)
}
