//! One request of HTTP/1.1, and its answer: what identity providers are asked by.
//!
//! The protocol itself is hyper's. Invariants: an answer has a length that the caller bounds, and
//! comes before a deadline; no redirect is followed; without TLS only this machine is asked; an
//! error shows nothing that was sent and nothing of the body that came.

mod file;
mod url;

use std::fmt;
use std::io;
use std::pin::pin;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1;
use hyper::header::{
    ACCEPT, AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT,
};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use platform::clock::Instant;
use platform::net::{Net as _, TcpNet};
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout_at;
use tokio_rustls::TlsConnector;
use wire::sasl::Secret;
use wire::text::cut;

use crate::settings::Tls;
pub use file::file_of_url;
pub use url::{HttpUrl, UrlProblem};

/// Longest head of an answer.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// Most bytes of the reason why a connection fails.
const REASON_BYTES_MAX: usize = 1024;

/// What is sent with a request, apart from its address.
#[derive(Debug)]
pub enum HttpContent {
    /// Nothing: the answer is JSON.
    Get,
    /// The fields of a form, encoded, from a client that shows who it is: the answer is JSON.
    Form {
        /// The value of the header `Authorization`.
        authorization: Secret<String>,
        /// The fields.
        fields: String,
    },
}

/// How long an answer may be, and until when it is waited for.
#[derive(Clone, Copy, Debug)]
pub struct HttpBounds {
    /// Longest body.
    pub body_bytes_max: usize,
    /// When an answer is too late, the lookup of the name included.
    pub deadline: Instant,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// It takes too long.
    #[error("there is no answer in time")]
    Late,
    /// No connection is there to be had, or it ended.
    #[error("{what}: {reason}")]
    Connection {
        /// What was being done.
        what: &'static str,
        /// The system's words.
        reason: String,
    },
    /// What came is no HTTP.
    #[error("what comes is no answer of HTTP: {0}")]
    Protocol(String),
    /// An answer other than 200.
    #[error("the answer is {0}{hint}", hint = hint(*.0))]
    Status(StatusCode),
    /// A longer answer than any real one.
    #[error("the answer has more than {0} bytes")]
    TooLong(usize),
}

/// Asks by TCP.
pub async fn ask(
    url: &HttpUrl,
    content: &HttpContent,
    tls: Option<&Tls>,
    bounds: HttpBounds,
) -> Result<Vec<u8>, HttpError> {
    let asking = async {
        let stream = TcpNet
            .connect(url.host(), url.port(), bounds.deadline)
            .await;
        let stream = stream.map_err(|error| failed("connecting", &error))?;
        ask_over(stream, url, content, tls, bounds.body_bytes_max).await
    };
    timeout_at(bounds.deadline, asking)
        .await
        .unwrap_or(Err(HttpError::Late))
}

/// Asks over a stream to the host of the address. It has no deadline of its own.
pub(crate) async fn ask_over<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    url: &HttpUrl,
    content: &HttpContent,
    tls: Option<&Tls>,
    body_bytes_max: usize,
) -> Result<Vec<u8>, HttpError> {
    const HANDSHAKE: &str = "the handshake of TLS";
    let request = request(url, content)?;
    let Some(tls) = tls.filter(|_| url.is_tls()) else {
        if url.is_tls() {
            let reason = "no certificates are known that may stand behind it".to_owned();
            let what = HANDSHAKE;
            return Err(HttpError::Connection { what, reason });
        }
        return exchange(stream, request, body_bytes_max).await;
    };
    let name = ServerName::try_from(url.host().to_owned());
    let name = name.map_err(|error| HttpError::Connection {
        what: HANDSHAKE,
        reason: error.to_string(),
    })?;
    let shaken = TlsConnector::from(tls.config()).connect(name, stream).await;
    let stream = shaken.map_err(|error| failed(HANDSHAKE, &error))?;
    exchange(stream, request, body_bytes_max).await
}

fn request(url: &HttpUrl, content: &HttpContent) -> Result<Request<Full<Bytes>>, HttpError> {
    let wrong = |error: &dyn fmt::Display| HttpError::Protocol(error.to_string());
    let builder = Request::builder()
        .uri(url.path())
        .header(HOST, url.authority())
        .header(ACCEPT, "application/json")
        .header(USER_AGENT, concat!("forebay/", env!("CARGO_PKG_VERSION")))
        .header(CONNECTION, "close");
    let built = match content {
        HttpContent::Get => builder.body(Full::default()),
        HttpContent::Form {
            authorization,
            fields,
        } => {
            let value = HeaderValue::from_str(authorization.expose());
            // The error shows the value.
            let mut value = value.map_err(|_| wrong(&"the credentials are no header"))?;
            value.set_sensitive(true);
            let builder = builder.method("POST").header(AUTHORIZATION, value);
            let form = "application/x-www-form-urlencoded";
            let builder = builder.header(CONTENT_TYPE, form);
            builder.body(Full::new(Bytes::copy_from_slice(fields.as_bytes())))
        }
    };
    built.map_err(|error| wrong(&error))
}

async fn exchange<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    request: Request<Full<Bytes>>,
    body_bytes_max: usize,
) -> Result<Vec<u8>, HttpError> {
    let mut builder = http1::Builder::new();
    builder.max_buf_size(HEAD_BYTES_MAX);
    let begun = builder.handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = begun.map_err(|error| broken(&error))?;
    let answering = async {
        let answer = sender.send_request(request).await;
        let answer = answer.map_err(|error| broken(&error))?;
        if answer.status() != StatusCode::OK {
            return Err(HttpError::Status(answer.status()));
        }
        let claimed = answer.body().size_hint().lower();
        if usize::try_from(claimed).is_ok_and(|claimed| claimed > body_bytes_max) {
            return Err(HttpError::TooLong(body_bytes_max));
        }
        whole(answer.into_body(), body_bytes_max).await
    };
    let (mut answering, mut connection) = (pin!(answering), pin!(connection));
    let mut is_open = true;
    loop {
        tokio::select! {
            biased;
            answer = &mut answering => return answer,
            // What it has read is still to be taken.
            _ = &mut connection, if is_open => is_open = false,
        }
    }
}

/// Copies a body, so that one in pieces of a byte takes no more memory than another.
async fn whole(mut body: Incoming, bytes_max: usize) -> Result<Vec<u8>, HttpError> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| broken(&error))?;
        let piece = frame.data_ref().map_or(&[][..], |piece| piece);
        if piece.len() > bytes_max.saturating_sub(bytes.len()) {
            return Err(HttpError::TooLong(bytes_max));
        }
        bytes.extend_from_slice(piece);
    }
    assert!(bytes.len() <= bytes_max, "a body has a bound");
    Ok(bytes)
}

fn failed(what: &'static str, error: &io::Error) -> HttpError {
    // The error of a handshake has all names of the certificate.
    let reason = cut(&error.to_string(), REASON_BYTES_MAX).to_owned();
    HttpError::Connection { what, reason }
}

fn broken(error: &hyper::Error) -> HttpError {
    if error.is_parse() || error.is_parse_status() {
        return HttpError::Protocol(error.to_string());
    }
    HttpError::Connection {
        what: "receiving",
        reason: error.to_string(),
    }
}

fn hint(status: StatusCode) -> &'static str {
    if status.is_redirection() {
        ", and no redirect is followed: the address has to be the last one"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests;
