//! Looks at the TLS of a server: shakes hands as a client would, and tells what it saw instead of
//! ending where it does not like something.
//!
//! A certificate that is not trusted does not end this handshake: the verdict of the client's own
//! verifier is kept. After it the server gets one question of Kafka's protocol, without a login,
//! since under TLS 1.3 a server judges the certificate of a client after the client has finished.
//! Nothing else is ever sent over such a connection.
//!
//! Invariants: the proof that the server has the key of its certificate is always verified; all of
//! it is over by the deadline; what is kept of a server is bounded by a handshake of rustls (64 KiB
//! for a message) and one read.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use platform::clock::Instant;
use platform::net::Net;
use platform::task::timeout_at;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, Resumption, verify_server_name};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use wire::messages::ApiVersionsRequest;

use crate::ask;
use crate::error::ClientError;
use crate::settings::Tls;
use crate::transport::{Dial as _, Duplex};

/// How long a server may take to say something after the handshake.
const WORD_WITHIN: Duration = Duration::from_secs(3);
/// Bytes that are read of its answer.
const WORD_BYTES: usize = 4 << 10;
/// The correlation id of the question.
const QUESTION_ID: i32 = 0x0f0e_0b0a;

/// What was seen of a server.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Inspection {
    /// The version of TLS.
    pub protocol: Option<String>,
    /// The cipher suite.
    pub cipher: Option<String>,
    /// The group in which keys were agreed on.
    pub key_exchange: Option<String>,
    /// The certificates of the server, as DER, in their order.
    pub chain: Vec<Vec<u8>>,
    /// Why the chain is not trusted; `None` if it is, or if there is none.
    pub distrust: Option<String>,
    /// Why the certificate is not for the name; `None` if it is, or if there is none.
    pub other_name: Option<String>,
    /// Whether the server asked for a certificate.
    pub is_asked: bool,
    /// The certificates that it was shown, as DER.
    pub own_chain: Vec<Vec<u8>>,
    /// What the server made of them.
    pub acceptance: Acceptance,
    /// Whether the server answered as a Kafka broker.
    pub speaks_kafka: bool,
    /// Why the handshake failed, if it did.
    pub failure: Option<String>,
}

/// What a server made of the certificate of this client, or of its having none.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Acceptance {
    /// The handshake did not come so far.
    #[default]
    None,
    /// It goes on.
    Accepted,
    /// It ended the connection, and said so.
    Refused(String),
    /// It ended the connection or was silent, for a reason that is not known.
    Unknown(String),
}

/// Connects to a server and looks at its TLS. An error means that there is no connection.
pub async fn inspect(
    net: &impl Net,
    host: &str,
    port: u16,
    tls: &Tls,
    deadline: Instant,
) -> Result<Inspection, ClientError> {
    let address = format!("{host}:{port}");
    let stream = timeout_at(deadline, net.dial(host, port, deadline)).await;
    let stream = stream.map_err(|_| ClientError::timed_out(&address, "connecting"))?;
    let stream = stream.map_err(|error| ClientError::io(&address, "connecting", &error))?;
    let name = ServerName::try_from(host.to_owned()).map_err(|_| {
        ClientError::invalid("the host", format!("{host:?} is no name for a certificate"))
    })?;
    let seen = Arc::new(SeenHandshake(Mutex::default()));
    let connector = TlsConnector::from(Arc::new(recording(tls, &seen)));
    let shaken = timeout_at(deadline, connector.connect(name, stream)).await;
    let mut failure = None;
    let stream = match shaken {
        Ok(Ok(stream)) => Some(stream),
        Ok(Err(error)) => {
            failure = Some(reason(&error));
            None
        }
        Err(_) => {
            failure = Some("the server does not finish the handshake in time".to_owned());
            None
        }
    };
    let mut inspection = seen.inspection();
    inspection.failure = failure;
    if let Some(mut stream) = stream {
        take_names(&stream, &mut inspection);
        question(&mut stream, deadline, &mut inspection).await;
    }
    Ok(inspection)
}

fn recording(tls: &Tls, seen: &Arc<SeenHandshake>) -> ClientConfig {
    let mut config = (*tls.config()).clone();
    config.resumption = Resumption::disabled();
    config.client_auth_cert_resolver = Arc::new(RecordingKeys {
        keys: Arc::clone(&config.client_auth_cert_resolver),
        seen: Arc::clone(seen),
    });
    let verifier = RecordingVerifier {
        verifier: tls.verifier(),
        seen: Arc::clone(seen),
    };
    config
        .dangerous()
        .set_certificate_verifier(Arc::new(verifier));
    config
}

fn take_names(stream: &TlsStream<Box<dyn Duplex>>, inspection: &mut Inspection) {
    let connection = stream.get_ref().1;
    inspection.protocol = connection.protocol_version().map(version);
    let suite = connection.negotiated_cipher_suite();
    inspection.cipher = suite.map(|suite| suite_name(&format!("{:?}", suite.suite())));
    let group = connection.negotiated_key_exchange_group();
    inspection.key_exchange = group.map(|group| format!("{:?}", group.name()));
}

fn version(version: rustls::ProtocolVersion) -> String {
    match version {
        rustls::ProtocolVersion::TLSv1_3 => "TLSv1.3".to_owned(),
        rustls::ProtocolVersion::TLSv1_2 => "TLSv1.2".to_owned(),
        other => format!("{other:?}"),
    }
}

/// Returns IANA's name of a suite, which for those of TLS 1.3 has no number in it.
fn suite_name(name: &str) -> String {
    name.replacen("TLS13_", "TLS_", 1)
}

/// Asks the server for its versions, and notes what comes of it.
async fn question(
    stream: &mut TlsStream<Box<dyn Duplex>>,
    deadline: Instant,
    inspection: &mut Inspection,
) {
    let until = (Instant::now() + WORD_WITHIN).min(deadline);
    let frame = ask::frame(&ApiVersionsRequest::default(), 0, QUESTION_ID, "forebay");
    let Ok(frame) = frame else { return };
    let mut word = [0; WORD_BYTES];
    let exchange = async {
        stream.write_all(&frame).await?;
        stream.flush().await?;
        stream.read(&mut word).await
    };
    inspection.acceptance = match timeout_at(until, exchange).await {
        Err(_) => Acceptance::Unknown("it says nothing to a question of Kafka's".to_owned()),
        Ok(Ok(0)) => Acceptance::Unknown("it ends the connection without a reason".to_owned()),
        Ok(Ok(length)) => {
            // The length of the answer, then the id of the question.
            let id = word.get(4..8).filter(|_| length >= 8);
            inspection.speaks_kafka = id == Some(&QUESTION_ID.to_be_bytes());
            Acceptance::Accepted
        }
        Ok(Err(error)) if is_alert(&error) => Acceptance::Refused(reason(&error)),
        Ok(Err(error)) => Acceptance::Unknown(reason(&error)),
    };
}

fn is_alert(error: &io::Error) -> bool {
    let error = error
        .get_ref()
        .and_then(|error| error.downcast_ref::<Error>());
    matches!(error, Some(Error::AlertReceived(_)))
}

/// Returns why something failed, in the words of the client's other errors.
fn reason(error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return "the server has closed the connection, as one does that speaks no TLS there"
            .to_owned();
    }
    match ClientError::io("", "", error) {
        ClientError::Io { reason, .. } | ClientError::Login { reason, .. } => reason,
        other => other.to_string(),
    }
}

fn words(error: &Error) -> String {
    reason(&io::Error::new(io::ErrorKind::InvalidData, error.clone()))
}

/// What verifiers and keys saw of a handshake.
#[derive(Debug)]
struct SeenHandshake(Mutex<Inspection>);

impl SeenHandshake {
    fn inspection(&self) -> Inspection {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn note(&self, note: impl FnOnce(&mut Inspection)) {
        note(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Keeps the verdict on a server, and lets it in.
struct RecordingVerifier {
    verifier: Arc<dyn ServerCertVerifier>,
    seen: Arc<SeenHandshake>,
}

impl fmt::Debug for RecordingVerifier {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("RecordingVerifier").finish_non_exhaustive()
    }
}

impl ServerCertVerifier for RecordingVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.verifier.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        let distrust = match &verified {
            // The name is looked at last: all else is verified.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            ))
            | Ok(_) => None,
            Err(error) => Some(words(error)),
        };
        let parsed = ParsedCertificate::try_from(end_entity);
        let named = parsed.and_then(|parsed| verify_server_name(&parsed, server_name));
        let chain = std::iter::once(end_entity).chain(intermediates);
        self.seen.note(|seen| {
            seen.chain = chain.map(|der| der.to_vec()).collect();
            seen.distrust = distrust;
            seen.other_name = named.err().map(|error| words(&error));
        });
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

/// Notes that a server asks for a certificate, and which it is shown.
struct RecordingKeys {
    keys: Arc<dyn ResolvesClientCert>,
    seen: Arc<SeenHandshake>,
}

impl fmt::Debug for RecordingKeys {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("RecordingKeys").finish_non_exhaustive()
    }
}

impl ResolvesClientCert for RecordingKeys {
    fn resolve(
        &self,
        root_hint_subjects: &[&[u8]],
        sigschemes: &[SignatureScheme],
    ) -> Option<Arc<CertifiedKey>> {
        let key = self.keys.resolve(root_hint_subjects, sigschemes);
        self.seen.note(|seen| {
            seen.is_asked = true;
            let chain = key.iter().flat_map(|key| &key.cert);
            seen.own_chain = chain.map(|der| der.to_vec()).collect();
        });
        key
    }

    fn has_certs(&self) -> bool {
        self.keys.has_certs()
    }
}

#[cfg(test)]
mod tests;
