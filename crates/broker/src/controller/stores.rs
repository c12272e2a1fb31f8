//! Changes of key and trust stores of listeners: which ones a request makes, and that each of them
//! was checked.
//!
//! Whether a listener could serve with other values depends on files, so a check waits, and no turn
//! waits for it: it comes before the turn, and the turn takes only what was checked. Invariant:
//! values that no check has permitted never get into the metadata. Not here: which settings are
//! stores (`listener_stores`), and where checks are begun (`service/stores.rs`).

use std::collections::BTreeMap;

use wire::records::metadata::{ConfigRecord, MetadataRecord};
use wire::sasl::Secret;
use wire::types::ErrorCode;

use super::{Refusal, Rules};
use crate::image::ResourceType;
use crate::listener_stores::{ListenerStores, StoreValues, set_by_clients, store_setting_of};

/// What a change makes of the stores of one listener.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ChangedStores {
    listener: String,
    values: StoreValues,
}

/// Returns the listeners whose values are others after `records`, with those after them.
pub(crate) fn changed_by(rules: Rules<'_>, records: &[MetadataRecord]) -> Vec<ChangedStores> {
    let node = rules.options.node_id;
    let own_name = node.0.to_string();
    let of_stores = records.iter().filter_map(|record| {
        let MetadataRecord::Config(ConfigRecord {
            resource_type,
            resource_name,
            name,
            value,
        }) = record
        else {
            return None;
        };
        let is_of_node =
            ResourceType(*resource_type) == ResourceType::BROKER && *resource_name == own_name;
        let (listener, setting) = store_setting_of(name).filter(|_| is_of_node)?;
        Some((listener, setting, value))
    });
    let mut of_stores = of_stores.peekable();
    if of_stores.peek().is_none() {
        // Each resource of a request is judged, and hardly any has stores: the values that are set
        // are not copied for it.
        return Vec::new();
    }
    let before = set_by_clients(rules.image, node);
    let mut after = before.clone();
    for (listener, setting, value) in of_stores {
        let of_listener = after.entry(listener.to_owned()).or_default();
        match value {
            Some(value) => of_listener.insert(setting, Secret::new(value.clone())),
            None => of_listener.remove(setting),
        };
    }
    assert!(
        after.len() >= before.len(),
        "a listener without values stays as one"
    );
    let none = StoreValues::new();
    let changed = after.into_iter();
    changed
        .filter(|(listener, values)| before.get(listener).unwrap_or(&none) != values)
        .map(|(listener, values)| ChangedStores { listener, values })
        .collect()
}

/// What checks have said of the stores that a request would change.
#[derive(Default, Debug)]
pub(crate) struct CheckedStores {
    /// The values that were checked for a listener, and why it could not serve with them.
    // Bounded: lives with one request, whose settings are bounded (`bounds::check_settings`).
    checked: BTreeMap<String, (StoreValues, Result<(), String>)>,
}

impl CheckedStores {
    /// Has each of the changes checked.
    pub(crate) async fn of(stores: &dyn ListenerStores, changes: Vec<ChangedStores>) -> Self {
        let asked = changes.len();
        let mut checked = BTreeMap::new();
        for ChangedStores { listener, values } in changes {
            let verdict = stores.check(&listener, values.clone()).await;
            checked.insert(listener, (values, verdict));
        }
        assert_eq!(checked.len(), asked, "each change has a verdict");
        Self { checked }
    }

    /// Refuses records that change stores to what was refused, or was not checked because another
    /// client has changed them meanwhile.
    pub(crate) fn judge(
        &self,
        rules: Rules<'_>,
        records: &[MetadataRecord],
    ) -> Result<(), Refusal> {
        if rules.options.stores.is_none() {
            return Ok(());
        }
        for change in changed_by(rules, records) {
            let checked = self.checked.get(&change.listener);
            let verdict = checked.filter(|(values, _)| *values == change.values);
            let why = match verdict {
                Some((_, Ok(()))) => continue,
                // Kafka's words around the reason.
                Some((_, Err(why))) => format!(
                    "Invalid value org.apache.kafka.common.config.ConfigException: Validation of \
                     dynamic config update of SSLFactory failed: {why} for configuration Invalid \
                     dynamic configuration"
                ),
                None => format!(
                    "the stores of the listener {} have changed meanwhile: send the request again",
                    change.listener
                ),
            };
            return Err(Refusal::new(ErrorCode::InvalidRequest, why));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
