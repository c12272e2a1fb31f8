//! Listening sockets: one per shard and listener, on the same address, among which the kernel
//! spreads connections.
//!
//! An address is bound when the process starts, so that a conflict is reported immediately; clients
//! that connect before the shards are ready wait in the backlog. Invariant: no other process
//! listens on the address, not even one that would share it.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;

use socket2::{Domain, Protocol, Socket, Type};

use crate::config::{Address, NetworkSettings};

/// A bound address, with a socket for each shard.
#[derive(Debug)]
pub struct Bound {
    /// Name of the listener.
    pub name: Arc<str>,
    /// The port, also if the setting asks for any port.
    pub port: u16,
    sockets: Vec<TcpListener>,
}

/// An address cannot be bound.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {listener}://{host}:{port}: {source}{hint}")]
pub struct BindError {
    listener: String,
    host: String,
    port: u16,
    source: io::Error,
    hint: &'static str,
}

impl Bound {
    /// Binds `shards` sockets to an address.
    pub fn bind(
        address: &Address,
        shards: usize,
        settings: &NetworkSettings,
    ) -> Result<Self, BindError> {
        let error = |source: io::Error| BindError {
            listener: address.listener.clone(),
            host: address.host.clone(),
            port: address.port,
            hint: match source.kind() {
                io::ErrorKind::AddrInUse => " (another process listens there; set listeners)",
                _ => "",
            },
            source,
        };
        let wanted = resolve(&address.host, address.port).map_err(error)?;
        let at = claim(&wanted).map_err(error)?;
        let socket = || socket(at, settings);
        let sockets = (0..shards)
            .map(|_| socket())
            .collect::<Result<_, _>>()
            .map_err(error)?;
        let name = Arc::from(address.listener.as_str());
        Ok(Self {
            name,
            port: at.port(),
            sockets,
        })
    }

    /// Returns the socket of each shard.
    pub fn into_sockets(self) -> Vec<ShardListener> {
        let Self { name, sockets, .. } = self;
        sockets
            .into_iter()
            .map(|socket| ShardListener {
                name: Arc::clone(&name),
                socket,
            })
            .collect()
    }
}

/// A shard's share of a listener.
#[derive(Debug)]
pub struct ShardListener {
    /// Name of the listener.
    pub name: Arc<str>,
    /// The socket, non-blocking.
    pub socket: TcpListener,
}

/// Returns the addresses for a host, in the order in which they are tried.
fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if host.is_empty() {
        // The first accepts IPv4 too; the second is for machines without IPv6.
        return Ok(vec![
            (Ipv6Addr::UNSPECIFIED, port).into(),
            (Ipv4Addr::UNSPECIFIED, port).into(),
        ]);
    }
    let mut found: Vec<SocketAddr> = (host, port).to_socket_addrs()?.collect();
    found.sort_by_key(SocketAddr::is_ipv6);
    found.truncate(1);
    Ok(found)
}

/// Checks that no other process listens there, and determines the port.
///
/// This socket does not share its address, so the bind fails even if the other process would share
/// it. The bind of the shards' sockets, which share, would succeed.
fn claim(wanted: &[SocketAddr]) -> io::Result<SocketAddr> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in wanted {
        let claimed = Socket::new(
            Domain::for_address(*address),
            Type::STREAM,
            Some(Protocol::TCP),
        )
        .and_then(|socket| {
            prepare(&socket, *address)?;
            socket.bind(&(*address).into())?;
            socket.local_addr()
        });
        match claimed {
            Ok(at) => return at.as_socket().ok_or(last),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Err(error),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn prepare(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(!address.ip().is_unspecified())
    } else {
        Ok(())
    }
}

fn socket(at: SocketAddr, settings: &NetworkSettings) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(at), Type::STREAM, Some(Protocol::TCP))?;
    prepare(&socket, at)?;
    socket.set_reuse_port(true)?;
    // Accepted sockets inherit the sizes; if set later, they no longer affect the TCP window.
    if let Some(bytes) = settings.send_buffer_bytes {
        socket.set_send_buffer_size(bytes)?;
    }
    if let Some(bytes) = settings.receive_buffer_bytes {
        socket.set_recv_buffer_size(bytes)?;
    }
    socket.bind(&at.into())?;
    socket.listen(settings.backlog)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;

    fn bind(text: &str) -> Result<Bound, BindError> {
        Bound::bind(
            &Address::parse(text).unwrap(),
            2,
            &Settings::defaults().network,
        )
    }

    #[test]
    fn all_shards_listen_on_one_free_port() {
        for host in ["127.0.0.1", "", "localhost"] {
            let bound = bind(&format!("A://{host}:0")).unwrap();
            let port = bound.port;
            let sockets = bound.into_sockets();
            assert_eq!(sockets.len(), 2);
            for socket in sockets {
                assert_eq!(socket.socket.local_addr().unwrap().port(), port);
            }
        }
    }

    #[test]
    fn an_address_that_is_taken_is_refused_even_if_its_holder_would_share() {
        let bound = bind("A://127.0.0.1:0").unwrap();
        let again = bind(&format!("B://127.0.0.1:{}", bound.port))
            .unwrap_err()
            .to_string();
        assert!(
            again.starts_with("cannot listen on B://127.0.0.1:"),
            "{again}"
        );
        assert!(
            again.ends_with("(another process listens there; set listeners)"),
            "{again}"
        );
    }
}
