//! The host of an ACL: the address of the clients that it is for, or `*` for all.
//!
//! The text stays as it was given, because requests to describe and delete ACLs compare texts, and
//! clients are shown what they wrote. Clients are compared by address. Kafka compares its own text
//! of the client's address, where IPv6 is always long (`0:0:0:0:0:0:0:1`); here `::1` means the
//! same.
//! A text that is no address (a name, a network) is for no client, as in Kafka. The interface of a
//! link-local address (`fe80::1%eth0`) cannot be compared: such an ACL forbids to that address on
//! every interface, and permits on none.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use super::codes::PermissionType;

/// The host of an ACL, with what its text stands for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Host {
    text: Arc<str>,
    clients: Clients,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Clients {
    All,
    At(IpAddr),
    OnOneInterface(IpAddr),
    None,
}

impl Host {
    /// The text for all clients.
    pub const ANY: &str = "*";

    /// Reads a host; every text is one.
    pub fn new(text: &str) -> Self {
        let address = |text: &str| text.parse().map(|address: IpAddr| address.to_canonical());
        let clients = if text == Self::ANY {
            Clients::All
        } else if let Some((before, _)) = text.split_once('%') {
            address(before).map_or(Clients::None, Clients::OnOneInterface)
        } else {
            address(text).map_or(Clients::None, Clients::At)
        };
        Self {
            text: text.into(),
            clients,
        }
    }

    /// Returns the host of one address, in the text that Kafka would compare: an ACL made of it
    /// means the same there.
    pub fn of(address: IpAddr) -> Self {
        let address = address.to_canonical();
        let text = match address {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => address.segments().map(|part| format!("{part:x}")).join(":"),
        };
        let host = Self::new(&text);
        assert!(
            host.clients == Clients::At(address),
            "an address is read back as it was written"
        );
        host
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns true when an ACL with this host and permission is for a client at `address`, which
    /// is not an IPv4 address in IPv6 form ([`super::Client`] takes care of that).
    pub fn is_for(&self, address: IpAddr, permission: PermissionType) -> bool {
        match self.clients {
            Clients::All => true,
            Clients::At(own) => own == address,
            Clients::OnOneInterface(own) => permission == PermissionType::Deny && own == address,
            Clients::None => false,
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.pad(&self.text)
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(host: &str, address: &str, allows: bool, denies: bool) {
        let address = address.parse().unwrap();
        let host = Host::new(host);
        let answer = [PermissionType::Allow, PermissionType::Deny]
            .map(|permission| host.is_for(address, permission));
        assert_eq!(answer, [allows, denies]);
    }

    #[test]
    fn clients_are_compared_by_address() {
        check("*", "10.0.0.1", true, true);
        check("10.0.0.1", "10.0.0.1", true, true);
        check("10.0.0.1", "10.0.0.2", false, false);
        for text in ["::1", "0:0:0:0:0:0:0:1", "0:0::0001"] {
            check(text, "::1", true, true);
        }
        check("2001:DB8::a", "2001:db8::a", true, true);
        check("::ffff:10.0.0.1", "10.0.0.1", true, true);
    }

    #[test]
    fn what_is_no_address_is_for_nobody() {
        for text in [
            "",
            "localhost",
            "10.0.0.0/8",
            "10.0.0.01",
            " 10.0.0.1",
            "**",
            "%",
        ] {
            check(text, "10.0.0.1", false, false);
        }
    }

    #[test]
    fn an_interface_is_not_compared_and_so_permits_nothing() {
        check("fe80:0:0:0:0:0:0:1%eth0", "fe80::1", false, true);
        check("fe80:0:0:0:0:0:0:1%eth0", "fe80::2", false, false);
    }

    #[test]
    fn addresses_are_written_as_java_writes_them() {
        for (address, text) in [
            ("::1", "0:0:0:0:0:0:0:1"),
            ("2001:db8::A0", "2001:db8:0:0:0:0:0:a0"),
            ("::ffff:10.0.0.1", "10.0.0.1"),
        ] {
            let host = Host::of(address.parse().unwrap());
            assert_eq!(host.as_str(), text);
            assert_eq!(host, Host::new(text));
        }
    }

    #[test]
    fn the_text_stays_as_it_was_given() {
        assert_eq!(Host::new("::1").to_string(), "::1");
        assert_ne!(Host::new("::1"), Host::new("0:0:0:0:0:0:0:1"));
    }
}
