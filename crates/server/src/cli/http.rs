//! One request to the admin endpoint, and its response.
//!
//! It speaks as much HTTP/1.1 as a peer needs that is this program.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use anyhow::Context as _;
use cli::AdminTarget;
use platform::bounded;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use wire::sasl::Secret;

/// Far more than the metrics of 20,000 partitions.
const ANSWER_BYTES_MAX: u64 = 1 << 30;

/// The peer is on this machine or near it.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// Requests `path` from an endpoint, with `POST` for an order.
///
/// Returns the body of the response, or the error in it.
pub(super) fn ask(target: &AdminTarget, path: &str, order: bool) -> anyhow::Result<String> {
    let address = &target.address;
    let unreachable = || {
        format!(
            "cannot reach the admin endpoint at {address} (--admin, or the broker's admin.listener)"
        )
    };
    let found = address.to_socket_addrs().with_context(unreachable)?;
    let socket = connected(found).with_context(unreachable)?;
    let request = Secret::new(request(target, path, order));
    let answer = match &target.tls {
        None => exchange(socket, &request).with_context(unreachable)?,
        Some(tls) => {
            let name = ServerName::try_from(target.host.clone());
            let name = name.with_context(|| format!("{:?} is no name of a host", target.host))?;
            let connection = ClientConnection::new(tls.config(), name)?;
            // A peer without TLS may wait for more than it gets.
            socket.set_read_timeout(Some(CONNECT_MAX))?;
            let mut stream = StreamOwned::new(connection, socket);
            let shaken = shake(&mut stream);
            shaken.with_context(|| format!("TLS with the admin endpoint at {address}"))?;
            stream.sock.set_read_timeout(None)?;
            exchange(stream, &request).with_context(unreachable)?
        }
    };
    let answer = String::from_utf8(answer).context("reading the answer")?;
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .context("the answer is not HTTP")?;
    let code = head.split(' ').nth(1).unwrap_or_default();
    if code == "200" {
        return Ok(body.to_owned());
    }
    if code == "401" {
        anyhow::bail!(
            "{}: --admin-config FILE says who this client is",
            body.trim()
        );
    }
    let said: Option<serde_json::Value> = serde_json::from_str(body).ok();
    let error = said.as_ref().and_then(|said| said.get("error")?.as_str());
    anyhow::bail!("{}", error.unwrap_or(body).trim())
}

/// Connects to the first of these addresses that takes it: `localhost` has one of IPv6, too, where
/// the endpoint may not listen.
fn connected(addresses: impl Iterator<Item = SocketAddr>) -> io::Result<TcpStream> {
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for peer in addresses {
        match TcpStream::connect_timeout(&peer, CONNECT_MAX) {
            Ok(socket) => return Ok(socket),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn request(target: &AdminTarget, path: &str, order: bool) -> String {
    let method = if order { "POST" } else { "GET" };
    let address = &target.address;
    let mut request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Content-Length: 0\r\nConnection: close\r\n"
    );
    if let Some(authorization) = &target.authorization {
        // Writing to a String cannot fail.
        let _ = write!(request, "Authorization: {}\r\n", authorization.expose());
    }
    request.push_str("\r\n");
    request
}

/// Completes the handshake, so that what fails in it is said as that.
fn shake(stream: &mut StreamOwned<ClientConnection, TcpStream>) -> io::Result<()> {
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock)?;
    }
    Ok(())
}

/// Sends a request and reads the answer to its end.
fn exchange<S: Read + Write>(mut stream: S, request: &Secret<String>) -> io::Result<Vec<u8>> {
    stream.write_all(request.expose().as_bytes())?;
    stream.flush()?;
    // There is no read timeout: verifying reads whole disks.
    bounded::stream(stream, ANSWER_BYTES_MAX)
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

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn every_address_of_a_name_is_tried() {
        let listening = TcpListener::bind("127.0.0.1:0").unwrap();
        let there = listening.local_addr().unwrap();
        // Nothing listens there: the port is another's on another address.
        let not_there = SocketAddr::from(([127, 0, 0, 2], there.port()));
        let socket = connected([not_there, there].into_iter()).unwrap();
        assert_eq!(socket.peer_addr().unwrap(), there);
        assert!(connected([not_there].into_iter()).is_err());
        let none = connected(std::iter::empty()).unwrap_err();
        assert!(none.to_string().contains("no address"), "{none}");
    }
}
