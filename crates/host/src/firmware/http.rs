//! Requests to the controller's service: HTTP/1.1 by hyper, over TLS whose certificate is known by
//! its digest.
//!
//! Controllers have certificates of their own making, in which no authority and no name can be
//! trusted; the digest of the certificate can. Invariants: an answer is bounded in bytes and time;
//! no redirect is followed, because the login would follow it; errors show nothing that was sent.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, AUTHORIZATION, CONNECTION, CONTENT_TYPE, ETAG, HOST, IF_MATCH};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

use super::place::RedfishPlace;

/// Longest time of a request: controllers are slow.
const TIME: Duration = Duration::from_mins(1);
/// Longest answer: a registry of attributes has some megabytes.
const BODY_BYTES_MAX: usize = 32 << 20;

/// An answer.
#[derive(Debug)]
pub(super) struct RedfishAnswer {
    pub(super) status: u16,
    pub(super) etag: Option<String>,
    pub(super) body: serde_json::Value,
}

/// A request, apart from the place.
#[derive(Debug)]
pub(super) struct RedfishRequest<'a> {
    pub(super) method: Method,
    pub(super) path: &'a str,
    /// The state that the request is for.
    pub(super) etag: Option<&'a str>,
    pub(super) body: Option<String>,
}

/// Asks the service.
pub(super) fn ask(place: &RedfishPlace, asked: &RedfishRequest) -> io::Result<RedfishAnswer> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let late = || io::Error::new(io::ErrorKind::TimedOut, "the controller does not answer");
        let answer = tokio::time::timeout(TIME, exchange(place, asked)).await;
        answer.map_err(|_| late())?
    })
}

async fn exchange(place: &RedfishPlace, asked: &RedfishRequest<'_>) -> io::Result<RedfishAnswer> {
    let stream = tokio::net::TcpStream::connect((place.host.as_str(), place.port)).await?;
    let Some(fingerprint) = place.fingerprint else {
        return over(stream, place, asked).await;
    };
    let name = ServerName::try_from(place.host.clone()).map_err(io::Error::other)?;
    let connector = TlsConnector::from(Arc::new(tls(fingerprint)?));
    over(connector.connect(name, stream).await?, place, asked).await
}

async fn over<S>(
    stream: S,
    place: &RedfishPlace,
    asked: &RedfishRequest<'_>,
) -> io::Result<RedfishAnswer>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(io::Error::other)?;
    // It ends with the sender; its error is that of the request, too.
    tokio::spawn(async move { drop(connection.await) });
    let answer = sender.send_request(request(place, asked)?).await;
    let answer = answer.map_err(io::Error::other)?;
    let status = answer.status().as_u16();
    let etag = answer
        .headers()
        .get(ETAG)
        .and_then(|etag| etag.to_str().ok())
        .map(str::to_owned);
    let body = Limited::new(answer.into_body(), BODY_BYTES_MAX)
        .collect()
        .await;
    let body = body
        .map_err(|error| io::Error::other(error.to_string()))?
        .to_bytes();
    let body = if body.is_empty() {
        serde_json::Value::Null
    } else {
        serde_json::from_slice(&body).map_err(|_| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{}: no JSON", asked.path),
            )
        })?
    };
    Ok(RedfishAnswer { status, etag, body })
}

fn request(place: &RedfishPlace, asked: &RedfishRequest) -> io::Result<Request<Full<Bytes>>> {
    let login = STANDARD.encode(place.login.0.as_bytes());
    let mut request = Request::builder()
        .method(asked.method.clone())
        .uri(asked.path)
        .header(HOST, place.host.as_str())
        .header(ACCEPT, "application/json")
        .header("OData-Version", "4.0")
        .header(AUTHORIZATION, format!("Basic {login}"))
        .header(CONNECTION, "close");
    if let Some(etag) = asked.etag {
        request = request.header(IF_MATCH, etag);
    }
    if asked.body.is_some() {
        request = request.header(CONTENT_TYPE, "application/json");
    }
    let body = Full::new(Bytes::from(asked.body.clone().unwrap_or_default()));
    // The error of a header could show the login.
    request
        .body(body)
        .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
}

fn tls(fingerprint: [u8; 32]) -> io::Result<ClientConfig> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let pinned = Arc::new(Pinned {
        fingerprint,
        provider: Arc::clone(&provider),
    });
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(io::Error::other)?;
    Ok(builder
        .dangerous()
        .with_custom_certificate_verifier(pinned)
        .with_no_client_auth())
}

/// Accepts one certificate, by its digest, if its owner signs the handshake.
#[derive(Debug)]
struct Pinned {
    fingerprint: [u8; 32],
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let digest: [u8; 32] = Sha256::digest(certificate.as_ref()).into();
        if digest == self.fingerprint {
            return Ok(ServerCertVerified::assertion());
        }
        Err(rustls::Error::General(
            "the controller's certificate has another fingerprint".to_owned(),
        ))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
