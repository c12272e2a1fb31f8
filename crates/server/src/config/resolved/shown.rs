//! The settings as the broker shows them to clients (`DescribeConfigs`).
//!
//! Invariant: no secret leaves here, nor a value of a key that is in no table.

use std::collections::BTreeMap;

use super::super::keys;
use super::super::values::Values;

/// What stands in the place of a secret.
const HIDDEN: &str = "(hidden)";

/// Returns the given settings as text, without secrets.
///
/// The two names of a node's id are one: a client that asks for the older one finds it too.
pub(super) fn static_settings(values: &Values) -> BTreeMap<String, String> {
    let shown = |name: &str, text: &str| {
        let of_listener = || keys::of_listener(name).map(|(_, key)| key);
        let row = keys::find(name).or_else(of_listener);
        // A client learns only whether a secret is set, and whether an unknown key is one is not
        // known.
        let is_secret = row.is_none_or(|row| row.sensitive);
        if is_secret { HIDDEN } else { text }.to_owned()
    };
    let given = values.given();
    let mut given: BTreeMap<_, _> = given
        .map(|(name, text)| (name.to_owned(), shown(name, text)))
        .collect();
    for (name, other) in [("node.id", "broker.id"), ("broker.id", "node.id")] {
        if let Some(id) = given.get(name).cloned() {
            given.entry(other.to_owned()).or_insert(id);
        }
    }
    given
}
