//! Which clients are asked for which metrics: every subscription in the metadata that matches a client counts.
//!
//! A client gets the metrics of all that match it, and the shortest of their intervals. The id of what it is asked
//! tells whether a push was made for it: it depends on the metrics, the interval and the client.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use regex::Regex;
use wire::crc;
use wire::types::Uuid;

use crate::client_metrics::{DEFAULT_INTERVAL_MS, INTERVAL, MATCH, METRICS};
use crate::image::{Image, ResourceType};

/// Stands for all metrics.
const ALL: &str = "*";

/// What clients can be told apart by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Client {
    pub(crate) id: Uuid,
    pub(crate) called: String,
    pub(crate) software_name: String,
    pub(crate) software_version: String,
    pub(crate) address: String,
    pub(crate) port: u16,
}

/// What a client is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Subscription {
    pub(crate) id: i32,
    /// Beginnings of names, sorted.
    pub(crate) metrics: Vec<String>,
    pub(crate) interval_ms: i32,
    /// Differs when any subscription does.
    pub(crate) version: u64,
}

impl Subscription {
    /// What the cluster's subscriptions ask of a client.
    pub(crate) fn of(image: &Image, client: &Client) -> Self {
        let mut version = DefaultHasher::new();
        let mut metrics = BTreeSet::new();
        let mut interval_ms = DEFAULT_INTERVAL_MS;
        for name in image.configured(ResourceType::CLIENT_METRICS) {
            let setting = |key| image.setting(ResourceType::CLIENT_METRICS, name, key);
            (name, setting(INTERVAL), setting(MATCH), setting(METRICS)).hash(&mut version);
            if !client.matches(setting(MATCH).unwrap_or_default()) {
                continue;
            }
            metrics.extend(parts(setting(METRICS).unwrap_or_default()).map(str::to_owned));
            let interval = setting(INTERVAL).and_then(|text| text.trim().parse().ok());
            interval_ms = interval_ms.min(interval.unwrap_or(DEFAULT_INTERVAL_MS));
        }
        if metrics.contains(ALL) {
            metrics = [ALL.to_owned()].into();
        }
        let metrics: Vec<_> = metrics.into_iter().collect();
        let what = format!("{metrics:?}{interval_ms}{}", client.id);
        Self {
            id: crc::crc32c(what.as_bytes()).cast_signed(),
            metrics,
            interval_ms,
            version: version.finish(),
        }
    }
}

impl Client {
    /// True when each of `patterns` (a list of name=expression) matches the whole of what it names.
    fn matches(&self, patterns: &str) -> bool {
        parts(patterns).all(|pattern| {
            let Some((name, expression)) = pattern.split_once('=') else {
                return false;
            };
            let (id, port) = (wire::types::uuid_to_base64(self.id), self.port.to_string());
            let known = match name.trim() {
                "client_instance_id" => &id,
                "client_id" => &self.called,
                "client_software_name" => &self.software_name,
                "client_software_version" => &self.software_version,
                "client_source_address" => &self.address,
                "client_source_port" => &port,
                _ => return false,
            };
            let whole = Regex::new(&format!("^(?:{})$", expression.trim()));
            whole.is_ok_and(|whole| whole.is_match(known))
        })
    }
}

fn parts(list: &str) -> impl Iterator<Item = &str> {
    list.split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
}
