//! The network of an address: an IPv6 user has all addresses of a network.
//!
//! Everything that is shared by address is shared by this network. This module does not decide
//! which addresses may connect, nor how a client is called ([`crate::handler::Context`]).

use std::net::{IpAddr, Ipv6Addr};

use wire::protocol::StrBytes;

/// Returns the network that belongs to the address's user: an IPv4 address itself, the upper 64
/// bits of an IPv6 address.
pub fn network(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).into(),
        ip @ IpAddr::V4(_) => ip,
    }
}

/// Returns the network of a client's host as groups write it; a host that is no address stays as it
/// is.
pub(crate) fn network_of_host(host: &StrBytes) -> StrBytes {
    if !host.contains(':') {
        return host.clone();
    }
    let ip: Option<IpAddr> = host.strip_prefix('/').and_then(|ip| ip.parse().ok());
    ip.map_or_else(
        || host.clone(),
        |ip| StrBytes::from_string(format!("/{}", network(ip))),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_addresses_of_a_network_are_one_and_those_of_version_4_are_themselves() {
        let of = |host: &str| network_of_host(&StrBytes::from_string(host.to_owned())).to_string();
        assert_eq!(of("/2001:db8:1:2:3:4:5:6"), "/2001:db8:1:2::");
        assert_eq!(of("/2001:db8:1:2::9"), of("/2001:db8:1:2:ffff::1"));
        assert_ne!(of("/2001:db8:1:2::9"), of("/2001:db8:1:3::9"));
        assert_eq!(of("/::ffff:10.0.0.1"), "/10.0.0.1");
        for host in ["/10.0.0.1", "", "/h", "a:b"] {
            assert_eq!(of(host), host);
        }
    }
}
