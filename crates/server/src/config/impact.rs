//! What clients notice of a setting that this broker does not heed, or heeds otherwise than Kafka
//! does; and what an operator does about it.
//!
//! Invariant: one line of consequence and one of advice, both true whatever else the settings say.
//! A setting that is in no row here changes nothing for clients, nor does one about SASL where no
//! listener for clients is to speak it. Not here: whether a value is allowed (`keys`), and
//! settings whose meaning depends on others (`resolved`).

use super::address::Address;
use super::keys;

/// What follows from a setting.
#[derive(Clone, Copy, Debug)]
pub(super) struct Impact {
    /// What clients notice.
    pub(super) why: &'static str,
    /// What to do.
    pub(super) advice: &'static str,
}

/// Which values of a setting have the impact.
enum ImpactCondition {
    /// Any but an empty one.
    Given,
    /// A number above one.
    Several,
    /// `true`.
    True,
    /// A list with this item.
    Lists(&'static str),
}

const POLICY: &str = "the policy is not asked: clients may do what it refuses";

const CLOSED: &str = "let nobody else reach the port (docs/security-now.md), and take it out";
const TAKE_OUT: &str = "take it out when no client depends on it";

/// Names, separated by white space; which of their values; what follows; what to do.
const ROWS: &[(&str, ImpactCondition, &str, &str)] = &[
    (
        "default.replication.factor",
        ImpactCondition::Several,
        "topics whose creator gives no number of replicas, and topics that are created by use, are \
         refused (INVALID_REPLICATION_FACTOR): one node holds one replica",
        "set it to 1, or take it out",
    ),
    (
        "min.insync.replicas",
        ImpactCondition::Several,
        "a partition has one replica, so this node alone confirms acks=all",
        "set it to 1; keep backups for the loss of this node (docs/backup.md)",
    ),
    (
        "group.coordinator.rebalance.protocols",
        ImpactCondition::Lists("share"),
        "share groups are not served: their consumers are refused",
        "move their consumers to consumer groups, and take share out",
    ),
    (
        "group.coordinator.rebalance.protocols",
        ImpactCondition::Lists("streams"),
        "streams groups are not served: their members are refused",
        "let Kafka Streams use classic groups (group.protocol=classic), and take streams out",
    ),
    (
        "delegation.token.secret.key delegation.token.master.key",
        ImpactCondition::Given,
        "delegation tokens are not served: they are neither given out nor taken",
        CLOSED,
    ),
    (
        "create.topic.policy.class.name alter.config.policy.class.name",
        ImpactCondition::Given,
        POLICY,
        TAKE_OUT,
    ),
    (
        "client.quota.callback.class",
        ImpactCondition::Given,
        "the class is not asked: quotas are those of the metadata (`kafka-configs.sh`)",
        "set the quotas that are needed, and take it out",
    ),
    (
        "remote.log.storage.system.enable",
        ImpactCondition::True,
        "there is no remote storage yet: records that are only there are not served",
        "read what is still needed of them while Kafka serves it, and take it out",
    ),
    (
        "transaction.two.phase.commit.enable",
        ImpactCondition::True,
        "transactions in two phases are refused",
        TAKE_OUT,
    ),
    (
        "zookeeper.connect",
        ImpactCondition::Given,
        "a broker with ZooKeeper keeps its topics there and not in log.dirs: a start here knows none \
         of them",
        "migrate to KRaft with Kafka 3.9 first, then move (docs/moving-from-kafka.md)",
    ),
];

/// The security protocols that clients are to speak, each with its listener, in upper case.
#[derive(Debug)]
pub(super) struct Protocols(Vec<(String, String)>);

impl Protocols {
    /// Reads them from the settings that name listeners, protocols, and listeners of controllers.
    /// Where one is not given, its default holds.
    pub(super) fn of(
        listeners: Option<&str>,
        protocols: Option<&str>,
        controllers: Option<&str>,
    ) -> Self {
        let or_default = |given: Option<&str>, name: &str| {
            let default = || keys::find(name).and_then(|key| key.default);
            let text = given.or_else(default).unwrap_or_default();
            text.to_ascii_uppercase()
        };
        let protocols = or_default(protocols, "listener.security.protocol.map");
        let protocols: Vec<(&str, &str)> = protocols
            .split(',')
            .filter_map(|pair| pair.split_once(':'))
            .map(|(listener, protocol)| (listener.trim(), protocol.trim()))
            .collect();
        let controllers = or_default(controllers, "controller.listener.names");
        let is_controllers = |name: &str| controllers.split(',').any(|one| one.trim() == name);
        let listeners = or_default(listeners, "listeners");
        let names = listeners.split(',').filter_map(Address::parse);
        let names = names.map(|address| address.listener);
        let each = names.filter(|name| !is_controllers(name)).map(|name| {
            let of_it = protocols.iter().find(|(listener, _)| *listener == name);
            let protocol = of_it.map_or(name.as_str(), |(_, protocol)| protocol);
            (name.clone(), protocol.to_owned())
        });
        Self(each.collect())
    }

    /// Returns true if clients were to speak what `setting` is about, at the listener `only`, or at
    /// any.
    fn are_of(&self, setting: &str, only: Option<&str>) -> bool {
        if !setting.starts_with("sasl.") && !setting.starts_with("delegation.token.") {
            return true;
        }
        let is_meant = |name: &str| only.is_none_or(|only| only.eq_ignore_ascii_case(name));
        let mut all = self.0.iter();
        all.any(|(name, protocol)| is_meant(name) && protocol.contains("SASL"))
    }
}

/// Returns what clients notice of `key=value`, where the listeners are to speak `spoken`.
pub(super) fn of<'a>(
    key: &'a str,
    value: &'a str,
    spoken: &Protocols,
) -> impl Iterator<Item = Impact> + use<'a> {
    let (listener, setting) = of_any_listener(key);
    let is_spoken = spoken.are_of(setting, listener);
    let is_of = move |names: &str| names.split_whitespace().any(|name| name == setting);
    let rows = ROWS.iter();
    rows.filter(move |(names, when, ..)| is_spoken && is_of(names) && when.holds(value))
        .map(|&(_, _, why, advice)| Impact { why, advice })
}

/// Returns what to do about a value that refuses the start, if there is something to say.
pub fn remedy(key: &str) -> Option<&'static str> {
    Some(match key {
        "authorizer.class.name" => {
            "write org.apache.kafka.metadata.authorizer.StandardAuthorizer, which decides by the ACLs \
             in the metadata; other classes cannot be loaded (docs/security-now.md)"
        }
        "listener.security.protocol.map" => {
            "map each listener to PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL (docs/security-now.md)"
        }
        "process.roles" | "controller.quorum.voters" | "controller.quorum.bootstrap.servers" => {
            "move a broker that is its own only controller (docs/moving-from-kafka.md)"
        }
        "advertised.listeners" => "name the host and port that clients connect to",
        _ => return None,
    })
}

/// Splits a key into the listener that it is for, if it is for one, and the setting without
/// listener and mechanism.
fn of_any_listener(key: &str) -> (Option<&str>, &str) {
    let of_listener = key.strip_prefix("listener.name.");
    let Some((listener, setting)) = of_listener.and_then(|rest| rest.split_once('.')) else {
        return (None, key);
    };
    let setting = match setting.find(".sasl.") {
        Some(mechanism) => setting
            .get(mechanism.saturating_add(1)..)
            .unwrap_or(setting),
        None => setting,
    };
    (Some(listener), setting)
}

impl ImpactCondition {
    fn holds(&self, value: &str) -> bool {
        match self {
            Self::Given => !value.is_empty(),
            Self::Several => value.parse::<i64>().is_ok_and(|number| number > 1),
            Self::True => value.eq_ignore_ascii_case("true"),
            Self::Lists(item) => value.split(',').any(|one| one.trim() == *item),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_is_about_a_setting_of_kafka() {
        for (names, _, why, advice) in ROWS {
            assert!(!why.is_empty() && !advice.is_empty(), "{names}");
            for name in names.split_whitespace() {
                let known = keys::find(name).is_some() || keys::why_without_effect(name).is_some();
                assert!(known, "{name}");
            }
        }
    }

    #[test]
    fn a_setting_of_one_listener_counts_as_the_setting() {
        let spoken = Protocols::of(Some("SASL_SSL://:1"), None, None);
        let notices = |key: &str, value: &str| {
            let mut all = of(key, value, &spoken);
            all.next().map(|impact| impact.why)
        };
        let tokens = "delegation.token.secret.key";
        let of_all = notices(tokens, "x");
        assert!(of_all.is_some());
        let own = format!("listener.name.sasl_ssl.{tokens}");
        assert_eq!(notices(&own, "x"), of_all);
        assert_eq!(notices("ssl.client.auth", "required"), None);
        assert_eq!(notices("default.replication.factor", "1"), None);
        assert_eq!(notices("listener.name.", "x"), None);
    }

    #[test]
    fn nobody_misses_a_protocol_that_no_listener_for_clients_speaks() {
        let count = |listeners: &str, protocols: Option<&str>, key: &str| {
            let spoken = Protocols::of(Some(listeners), protocols, Some("CTL"));
            of(key, "x", &spoken).count()
        };
        let sasl = "delegation.token.secret.key";
        let map = Some("IN:SSL, CTL:SASL_SSL,OUT:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT");
        assert_eq!(count("PLAINTEXT://:1,CTL://:2", map, sasl), 0);
        assert_eq!(count("IN://:1,CTL://:2", map, sasl), 0);
        assert_eq!(count("OUT://:1", map, sasl), 1);
        let of_in = format!("listener.name.in.{sasl}");
        assert_eq!(count("IN://:1,OUT://:2", map, &of_in), 0);
        let of_out = format!("listener.name.out.{sasl}");
        assert_eq!(count("IN://:1,OUT://:2", map, &of_out), 1);
        // Without a map, a listener has the name of its protocol.
        assert_eq!(count("SASL_SSL://:1", None, sasl), 1);
        assert_eq!(count("PLAINTEXT://:1", None, "zookeeper.connect"), 1);
    }
}
