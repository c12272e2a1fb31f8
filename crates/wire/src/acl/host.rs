//! The host of an ACL: the address of the clients that it is for, or `*` for all.
//!
//! The text stays as it was given, because requests to describe and delete ACLs compare texts, and
//! clients are shown what they wrote. Clients are compared by address. Kafka compares its own text
//! of the client's address, where IPv6 is always long (`0:0:0:0:0:0:0:1`); here `::1` means the
//! same.
//! A text that is no address (a name, a network) is for no client, as in Kafka. The interface of a
//! link-local address (`fe80::1%eth0`) cannot be compared: such an ACL forbids to that address on
//! every interface, and permits on none. Where an ACL that permits means other clients here than in
//! Kafka, [`Host::unlike_kafka`] says so.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use super::codes::PermissionType;

/// The host of an ACL, with what its text stands for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Host {
    text: Arc<str>,
    meaning: Meaning,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Meaning {
    Any,
    Address(IpAddr),
    OnOneInterface(IpAddr),
    NoAddress,
}

/// The clients that an ACL is for, by their addresses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Clients {
    /// All.
    All,
    /// Those at one address.
    At(IpAddr),
    /// None.
    Nobody,
}

/// How the clients to which an ACL permits something differ from those in Kafka.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KafkaDifference {
    /// Here it permits something to clients to which Kafka does not.
    Wider,
    /// Kafka permits something to clients to which it does not here.
    Narrower,
}

impl Host {
    /// The text for all clients.
    pub const ANY: &str = "*";

    /// Reads a host; every text is one.
    pub fn new(text: &str) -> Self {
        let address = |text: &str| text.parse().map(|address: IpAddr| address.to_canonical());
        let meaning = if text == Self::ANY {
            Meaning::Any
        } else if let Some((before, _)) = text.split_once('%') {
            address(before).map_or(Meaning::NoAddress, Meaning::OnOneInterface)
        } else {
            address(text).map_or(Meaning::NoAddress, Meaning::Address)
        };
        Self {
            text: text.into(),
            meaning,
        }
    }

    /// Returns the host of one address, in the text that Kafka would compare: an ACL made of it
    /// means the same there, unless the address is link-local.
    pub fn of(address: IpAddr) -> Self {
        let address = address.to_canonical();
        let host = Self::new(&kafkas_text(address));
        assert!(
            host.meaning == Meaning::Address(address),
            "an address is read back as it was written"
        );
        host
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the clients that an ACL with this host is for, if it permits or forbids.
    pub(super) const fn clients(&self, effect: PermissionType) -> Clients {
        match (self.meaning, effect) {
            (Meaning::Any, _) => Clients::All,
            (Meaning::Address(own), _) | (Meaning::OnOneInterface(own), PermissionType::Deny) => {
                Clients::At(own)
            }
            (Meaning::OnOneInterface(_), PermissionType::Allow) | (Meaning::NoAddress, _) => {
                Clients::Nobody
            }
        }
    }

    /// Returns true when an ACL with this host and permission is for a client at `address`, which
    /// is not an IPv4 address in IPv6 form ([`super::Client`] takes care of that).
    pub fn is_for(&self, address: IpAddr, permission: PermissionType) -> bool {
        match self.clients(permission) {
            Clients::All => true,
            Clients::At(own) => own == address,
            Clients::Nobody => false,
        }
    }

    /// Returns how an ACL with this host, if it permits something, differs from the same one in
    /// Kafka; `None` where both mean the same clients.
    ///
    /// Kafka compares texts, so only the text that it makes of a client's address is for that
    /// client; and where the address is link-local, that text ends with an interface.
    pub fn unlike_kafka(&self) -> Option<KafkaDifference> {
        let is_kafkas = |address, text: &str| *text == kafkas_text(address);
        match self.meaning {
            Meaning::Address(own) => {
                let is_same = is_kafkas(own, self.as_str()) && !is_link_local(own);
                (!is_same).then_some(KafkaDifference::Wider)
            }
            Meaning::OnOneInterface(own) => {
                let before = self.text.split('%').next();
                let is_read = before.is_some_and(|text| is_kafkas(own, text));
                (is_read && is_link_local(own)).then_some(KafkaDifference::Narrower)
            }
            Meaning::Any | Meaning::NoAddress => None,
        }
    }
}

/// Returns the text that Kafka compares with hosts, without an interface.
fn kafkas_text(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => address.segments().map(|part| format!("{part:x}")).join(":"),
    }
}

/// Returns true for an address that only one link knows, so that Java names the interface too.
const fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => false,
        IpAddr::V6(address) => address.is_unicast_link_local(),
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
    fn hosts_that_permit_more_or_less_than_in_kafka_are_told() {
        for (unlike, hosts) in [
            (
                None,
                &[
                    "*",
                    "10.0.0.1",
                    "169.254.0.1",
                    "0:0:0:0:0:0:0:1",
                    "2001:db8:0:0:0:0:0:a",
                    "localhost",
                    "",
                    // For no client here, and no text that Kafka would make.
                    "fe80::1%eth0",
                    "10.0.0.1%eth0",
                    "0:0:0:0:0:0:0:1%lo",
                ][..],
            ),
            (
                Some(KafkaDifference::Wider),
                &[
                    "::1",
                    "0:0:0:0:0:0:0:01",
                    "2001:DB8::A",
                    "2001:DB8:0:0:0:0:0:A",
                    "::ffff:10.0.0.1",
                    // Kafka's text of this client names the interface.
                    "fe80:0:0:0:0:0:0:1",
                ],
            ),
            (
                Some(KafkaDifference::Narrower),
                &["fe80:0:0:0:0:0:0:1%eth0"],
            ),
        ] {
            for host in hosts {
                assert_eq!(Host::new(host).unlike_kafka(), unlike, "{host}");
            }
        }
    }

    #[test]
    fn the_text_stays_as_it_was_given() {
        assert_eq!(Host::new("::1").to_string(), "::1");
        assert_ne!(Host::new("::1"), Host::new("0:0:0:0:0:0:0:1"));
    }
}
