//! Which values of settings are shown: one rule for every answer and tool that prints settings.
//!
//! A value is shown only if its setting has a row in a table and the row does not call it
//! sensitive. The name decides nothing: clients may set keys that no table has, and metadata may
//! come from Kafka or from another release. Such a value may be a password, a private key or a line
//! of JAAS. Not here: the tables.

use crate::image::ResourceType;
use crate::options::ConfigKey;
use crate::topic_config::{definition, row_of};
use crate::{client_metrics, group_config};

/// Returns true if the value of a broker's setting with this row is never shown.
pub(crate) fn is_hidden(row: Option<&ConfigKey>) -> bool {
    row.is_none_or(|row| row.sensitive)
}

/// Returns true if the value of the setting `name` of a resource of this kind is never shown.
/// `keys` is the configuration table of brokers.
pub(crate) fn is_secret(keys: &[ConfigKey], kind: ResourceType, name: &str) -> bool {
    match kind {
        ResourceType::BROKER => is_hidden(row_of(keys, name)),
        ResourceType::TOPIC => definition(name).is_none(),
        ResourceType::GROUP => group_config::kind_of(name).is_none(),
        ResourceType::CLIENT_METRICS => client_metrics::kind_of(name).is_none(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topic_config::tests::options;

    #[track_caller]
    fn check(kind: ResourceType, name: &str, expected: bool) {
        let keys = options().config_keys;
        assert_eq!(is_secret(keys, kind, name), expected, "{kind:?} {name}");
    }

    #[test]
    fn a_value_is_shown_if_a_table_says_that_it_is_no_secret() {
        for name in [
            "log.retention.ms",
            "listener.name.outside.log.retention.ms",
            "leader.replication.throttled.rate",
        ] {
            check(ResourceType::BROKER, name, false);
        }
        check(ResourceType::TOPIC, "retention.ms", false);
        check(ResourceType::GROUP, "consumer.session.timeout.ms", false);
        check(ResourceType::CLIENT_METRICS, "interval.ms", false);
    }

    #[test]
    fn a_value_is_hidden_whatever_the_name_of_its_setting_is() {
        for name in [
            "",
            "listener.name.outside.",
            "listener.name.outside.plain.sasl.jaas.config",
            "listener.name.outside.ssl.key.password",
            "listener.name.outside.ssl.keystore.key",
            "log.retention.ms ",
            "plugin.token",
            "retention.ms",
            "ssl.key.password",
        ] {
            check(ResourceType::BROKER, name, true);
        }
        for kind in [
            ResourceType::TOPIC,
            ResourceType::GROUP,
            ResourceType::CLIENT_METRICS,
            ResourceType::BROKER_LOGGER,
            ResourceType(99),
        ] {
            check(kind, "plugin.token", true);
        }
        check(ResourceType(99), "retention.ms", true);
    }
}
