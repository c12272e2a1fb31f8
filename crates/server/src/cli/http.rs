//! One request to the admin endpoint, and its response.
//!
//! It speaks as much HTTP/1.1 as a peer needs that is this program.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use anyhow::Context as _;
use platform::bounded;

/// Far more than the metrics of 20,000 partitions.
const ANSWER_BYTES_MAX: u64 = 1 << 30;

/// The peer is on this machine or near it.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// Requests `path` from `address`, with `POST` for an order.
///
/// Returns the body of the response, or the error in it.
pub(super) fn ask(address: &str, path: &str, order: bool) -> anyhow::Result<String> {
    let unreachable = || {
        format!(
            "cannot reach the admin endpoint at {address} (--admin, or the broker's admin.listener)"
        )
    };
    let mut found = address.to_socket_addrs().with_context(unreachable)?;
    let peer = found.next().with_context(unreachable)?;
    let mut socket = TcpStream::connect_timeout(&peer, CONNECT_MAX).with_context(unreachable)?;
    let method = if order { "POST" } else { "GET" };
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Content-Length: 0\r\nConnection: close\r\n\r\n"
    );
    socket
        .write_all(request.as_bytes())
        .with_context(unreachable)?;
    // There is no read timeout: verifying reads whole disks.
    let answer = bounded::stream(socket, ANSWER_BYTES_MAX).context("reading the answer")?;
    let answer = String::from_utf8(answer).context("reading the answer")?;
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .context("the answer is not HTTP")?;
    let code = head.split(' ').nth(1).unwrap_or_default();
    if code == "200" {
        return Ok(body.to_owned());
    }
    let said: Option<serde_json::Value> = serde_json::from_str(body).ok();
    let error = said.as_ref().and_then(|said| said.get("error")?.as_str());
    anyhow::bail!("{}", error.unwrap_or(body).trim())
}

/// Percent-encodes the characters of a value that have a meaning in a query.
pub(super) fn encode(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}
