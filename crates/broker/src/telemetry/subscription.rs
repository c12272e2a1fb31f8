//! Which clients are to send which metrics: every subscription in the metadata that matches a
//! client counts.
//!
//! A client sends the metrics of all subscriptions that match it, at the shortest of their
//! intervals. The id of the result shows whether a push was made for it: it depends on the metrics,
//! the interval and the client. Expressions are compiled once for each state of the subscriptions,
//! not for each request; `client_metrics.rs` bounds their number.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use regex::Regex;
use wire::crc;
use wire::types::{Offset, Uuid};

use super::Holder;
use crate::client_metrics::{self, DEFAULT_INTERVAL_MS, INTERVAL, MATCH, METRICS};
use crate::image::{Image, ResourceType};

/// The entry that means all metrics.
const ALL: &str = "*";

/// The attributes by which subscriptions select clients.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Client {
    /// Its instance id.
    pub id: Uuid,
    /// Its client id.
    pub called: String,
    /// Name of its client library.
    pub software_name: String,
    /// Version of its client library.
    pub software_version: String,
    /// Its address.
    pub address: IpAddr,
    /// Its port.
    pub port: u16,
}

/// What a client is to send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Subscription {
    /// Differs from the ids of other contents.
    pub id: i32,
    /// Prefixes of metric names, sorted.
    pub metrics: Vec<String>,
    /// Time between two pushes.
    pub interval_ms: i32,
    /// Changes when any subscription does.
    pub version: u64,
}

impl Subscription {
    /// Returns the time between two pushes.
    pub(crate) fn interval(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.interval_ms).unwrap_or(0))
    }

    /// Returns true if the metric was requested.
    pub(crate) fn wants(&self, metric: &str) -> bool {
        let mut wanted = self.metrics.iter();
        wanted.any(|beginning| beginning == ALL || metric.starts_with(beginning.as_str()))
    }
}

/// The cluster's subscriptions, as this shard last saw them.
#[derive(Default)]
pub(crate) struct Subscriptions {
    seen: RefCell<Option<(Offset, Rc<CompiledSubscriptions>)>>,
}

/// The subscriptions of one state of the metadata.
struct CompiledSubscriptions {
    version: u64,
    each: Vec<CompiledSubscription>,
}

/// One subscription.
struct CompiledSubscription {
    metrics: Vec<String>,
    interval_ms: i32,
    /// All must match; `None` if a pattern is invalid, so that no client matches.
    of: Option<Vec<(String, Regex)>>,
}

impl Subscriptions {
    /// Returns what the cluster's subscriptions request from a client.
    pub(crate) fn of(&self, image: &Image, client: &Client) -> Subscription {
        let compiled = self.compiled(image);
        let mut metrics = BTreeSet::new();
        let mut interval_ms = DEFAULT_INTERVAL_MS;
        for asked in compiled.each.iter().filter(|asked| asked.is_of(client)) {
            metrics.extend(asked.metrics.iter().map(String::as_str));
            interval_ms = interval_ms.min(asked.interval_ms);
        }
        if metrics.contains(ALL) {
            metrics = [ALL].into();
        }
        let metrics: Vec<_> = metrics.into_iter().map(str::to_owned).collect();
        let what = format!("{metrics:?}{interval_ms}{}", client.id);
        Subscription {
            id: crc::crc32c(what.as_bytes()).cast_signed(),
            metrics,
            interval_ms,
            version: compiled.version,
        }
    }

    fn compiled(&self, image: &Image) -> Rc<CompiledSubscriptions> {
        let offset = image.last_applied_offset();
        let mut seen = self.seen.borrow_mut();
        if let Some((at, compiled)) = &mut *seen {
            if *at == offset {
                return Rc::clone(compiled);
            }
            if compiled.version == version(image) {
                *at = offset;
                return Rc::clone(compiled);
            }
        }
        let compiled = Rc::new(CompiledSubscriptions {
            version: version(image),
            each: client_metrics::in_force(image)
                .map(|name| CompiledSubscription::of(image, name))
                .collect(),
        });
        *seen = Some((offset, Rc::clone(&compiled)));
        compiled
    }
}

fn version(image: &Image) -> u64 {
    let mut version = DefaultHasher::new();
    for name in client_metrics::in_force(image) {
        let setting = |key| image.setting(ResourceType::CLIENT_METRICS, name, key);
        (name, setting(INTERVAL), setting(MATCH), setting(METRICS)).hash(&mut version);
    }
    version.finish()
}

impl CompiledSubscription {
    fn of(image: &Image, name: &str) -> Self {
        let setting = |key| image.setting(ResourceType::CLIENT_METRICS, name, key);
        let interval = setting(INTERVAL).and_then(|text| text.trim().parse().ok());
        let patterns = client_metrics::patterns(setting(MATCH).unwrap_or_default());
        if let Err(pattern) = &patterns {
            tracing::warn!(subscription = ?name, ?pattern, "no client matches: the pattern is not understood");
        }
        let whole = |(name, expression): (&str, &str)| {
            let whole = client_metrics::expression(&format!("^(?:{expression})$"));
            whole.map(|whole| (name.to_owned(), whole))
        };
        let of = patterns.ok();
        Self {
            metrics: client_metrics::parts(setting(METRICS).unwrap_or_default())
                .map(str::to_owned)
                .collect(),
            interval_ms: interval.unwrap_or(DEFAULT_INTERVAL_MS),
            of: of.and_then(|patterns| patterns.into_iter().map(whole).collect()),
        }
    }

    /// Returns true if each pattern matches the whole value of its attribute.
    fn is_of(&self, client: &Client) -> bool {
        let all = |patterns: &Vec<(String, Regex)>| {
            let mut patterns = patterns.iter();
            patterns.all(|(name, whole)| {
                let known = client.known_as(name);
                known.is_some_and(|known| whole.is_match(&known))
            })
        };
        self.of.as_ref().is_some_and(all)
    }
}

impl Client {
    /// Returns the address that is charged for it.
    pub(super) fn holder(&self) -> Holder {
        Holder::of(self.address)
    }

    fn known_as(&self, selector: &str) -> Option<String> {
        Some(match selector {
            "client_instance_id" => wire::types::uuid_to_base64(self.id),
            "client_id" => self.called.clone(),
            "client_software_name" => self.software_name.clone(),
            "client_software_version" => self.software_version.clone(),
            "client_source_address" => self.address.to_string(),
            "client_source_port" => self.port.to_string(),
            _ => return None,
        })
    }
}
