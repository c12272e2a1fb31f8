//! Subscriptions to client metrics (KIP-714): their settings, and what is allowed.
//!
//! A subscription names the metrics that clients send, how often they send them, and which clients
//! do. Every request of a client is matched against all subscriptions, so their number, the bytes
//! of their settings and the size of an expression are bounded. Not here: asking clients for
//! metrics (`telemetry`).

use std::collections::BTreeMap;

use regex::{Regex, RegexBuilder};
use wire::types::ErrorCode;

use crate::controller::Refusal;
use crate::image::{Image, ResourceType};
use crate::options::ConfigKind;
use crate::topic_config::{Source, SourcedValue, canonical, parse_whole};

pub(crate) const INTERVAL: &str = "interval.ms";
pub(crate) const MATCH: &str = "match";
pub(crate) const METRICS: &str = "metrics";
/// Push interval of clients that no subscription asks for metrics.
pub(crate) const DEFAULT_INTERVAL_MS: i32 = 300_000;
const INTERVAL_MS_MIN: i64 = 100;
const INTERVAL_MS_MAX: i64 = 3_600_000;

const _: () = assert!(
    INTERVAL_MS_MIN <= DEFAULT_INTERVAL_MS as i64,
    "the default may be set"
);
const _: () = assert!(
    DEFAULT_INTERVAL_MS as i64 <= INTERVAL_MS_MAX,
    "the default may be set"
);

/// Largest number of subscriptions.
const SUBSCRIPTIONS_MAX: usize = 100;
/// Largest sum of the bytes of the names and settings of all subscriptions.
const SETTINGS_BYTES_MAX: usize = 256 << 10;
/// Largest size of a compiled expression, and of its cache while it is matched.
const EXPRESSION_BYTES_MAX: usize = 256 << 10;

/// The properties by which clients are selected.
const SELECTORS: [&str; 6] = [
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
];

/// One setting of subscriptions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SubscriptionSetting {
    /// Kafka's name.
    pub(crate) name: &'static str,
    /// Kind of value.
    pub(crate) kind: ConfigKind,
    pub(crate) default: &'static str,
    /// What it does.
    pub(crate) doc: &'static str,
}

/// All settings of subscriptions.
pub(crate) const SUBSCRIPTION_SETTINGS: [SubscriptionSetting; 3] = [
    SubscriptionSetting {
        name: INTERVAL,
        kind: ConfigKind::Int,
        default: "300000",
        doc: "How often clients are to send.",
    },
    SubscriptionSetting {
        name: MATCH,
        kind: ConfigKind::List,
        default: "",
        doc: "Which clients: a list of name=expression, all of which have to match.",
    },
    SubscriptionSetting {
        name: METRICS,
        kind: ConfigKind::List,
        default: "",
        doc: "Beginnings of the names of the metrics that are wanted; * for all.",
    },
];

/// Returns the kind of a setting of subscriptions.
pub(crate) fn kind_of(name: &str) -> Option<ConfigKind> {
    let mut rows = SUBSCRIPTION_SETTINGS.iter();
    rows.find(|row| row.name == name).map(|row| row.kind)
}

/// Validates all settings that a subscription would have.
pub(crate) fn validate(name: &str, settings: &BTreeMap<String, String>) -> Result<(), Refusal> {
    let invalid = |message: String| Err(Refusal::new(ErrorCode::InvalidRequest, message));
    if name.is_empty() {
        return invalid("Subscription name can't be empty".into());
    }
    if let Some(unknown) = settings.keys().find(|key| kind_of(key).is_none()) {
        return invalid(format!("Unknown client metrics configuration: {unknown}"));
    }
    let config = |message: String| Refusal::new(ErrorCode::InvalidConfig, message);
    if let Some(text) = settings.get(INTERVAL) {
        let interval = parse_whole(INTERVAL, ConfigKind::Int, text);
        let interval = interval.map_err(|error| config(error.0))?;
        if !(INTERVAL_MS_MIN..=INTERVAL_MS_MAX).contains(&interval) {
            return invalid(format!(
                "Invalid value {interval} for {INTERVAL}, interval must be between 100 and \
                 3600000 (1 hour)"
            ));
        }
    }
    let text = settings.get(MATCH).map_or("", String::as_str);
    if let Err(pattern) = patterns(text) {
        return Err(config(format!(
            "Illegal client matching pattern: {pattern}"
        )));
    }
    Ok(())
}

/// Checks that a subscription fits beside the others.
pub(crate) fn check_room(
    image: &Image,
    name: &str,
    settings: &BTreeMap<String, String>,
) -> Result<(), Refusal> {
    let others = || image.configured(ResourceType::CLIENT_METRICS);
    let others = || others().filter(|other| *other != name);
    let bytes = others().map(|other| bytes_of(image, other));
    let bytes = bytes.fold(bytes_in(name, settings), usize::saturating_add);
    if others().count() < SUBSCRIPTIONS_MAX && bytes <= SETTINGS_BYTES_MAX {
        return Ok(());
    }
    let message = format!(
        "There may be {SUBSCRIPTIONS_MAX} subscriptions to client metrics, and {SETTINGS_BYTES_MAX} \
         bytes of their settings"
    );
    Err(Refusal::new(ErrorCode::PolicyViolation, message))
}

/// Returns the subscriptions in force: all, unless the metadata log has more than are allowed.
pub(crate) fn in_force(image: &Image) -> impl Iterator<Item = &str> {
    let mut bytes = 0_usize;
    let names = image.configured(ResourceType::CLIENT_METRICS);
    names.take(SUBSCRIPTIONS_MAX).take_while(move |name| {
        bytes = bytes.saturating_add(bytes_of(image, name));
        bytes <= SETTINGS_BYTES_MAX
    })
}

fn bytes_of(image: &Image, name: &str) -> usize {
    let settings = image.settings(ResourceType::CLIENT_METRICS, name);
    settings.map_or(0, |settings| bytes_in(name, settings))
}

fn bytes_in(name: &str, settings: &BTreeMap<String, String>) -> usize {
    let texts = settings.iter().flat_map(|(key, value)| [key, value]);
    texts
        .map(String::len)
        .fold(name.len(), usize::saturating_add)
}

/// Returns the patterns of `match` by their selectors.
///
/// The last of two patterns with one selector is in force. The error is the first invalid pattern.
pub(crate) fn patterns(list: &str) -> Result<BTreeMap<&str, &str>, &str> {
    let mut found = BTreeMap::new();
    for pattern in parts(list) {
        let mut sides = pattern.split('=').map(str::trim);
        let (Some(name), Some(text), None) = (sides.next(), sides.next(), sides.next()) else {
            return Err(pattern);
        };
        if !SELECTORS.contains(&name) || expression(text).is_none() {
            return Err(pattern);
        }
        found.insert(name, text);
    }
    Ok(found)
}

/// Compiles an expression; `None` if it is invalid, or too large when compiled.
pub(crate) fn expression(text: &str) -> Option<Regex> {
    let mut expression = RegexBuilder::new(text);
    expression.size_limit(EXPRESSION_BYTES_MAX);
    expression.dfa_size_limit(EXPRESSION_BYTES_MAX);
    expression.build().ok()
}

/// Returns the parts of a comma-separated list.
pub(crate) fn parts(list: &str) -> impl Iterator<Item = &str> {
    list.split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
}

/// Returns every place that has a value for a setting of a subscription, the strongest first.
pub(crate) fn sources(image: &Image, name: &str, row: &SubscriptionSetting) -> Vec<SourcedValue> {
    let own = image.setting(ResourceType::CLIENT_METRICS, name, row.name);
    let own = own.and_then(|text| canonical(row.kind, text));
    let own = own.map(|value| SourcedValue {
        name: row.name.to_owned(),
        value,
        source: Source::ClientMetrics,
    });
    own.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(settings: &[(&str, &str)]) -> Result<(), (ErrorCode, String)> {
        let settings = settings.iter();
        let settings = settings.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let judged = validate("s", &settings.collect());
        judged.map_err(|refusal| (refusal.code, refusal.message.unwrap_or_default()))
    }

    #[test]
    fn what_no_client_could_follow_is_refused() {
        assert_eq!(
            check(&[
                (INTERVAL, "100"),
                ("metrics", "*"),
                (
                    MATCH,
                    "client_id=a.*, client_software_name = java, client_id=\\w+-\\w+"
                )
            ]),
            Ok(())
        );
        assert_eq!(check(&[(MATCH, "")]), Ok(()));
        for (name, value, code, says) in [
            (
                "speed",
                "1",
                ErrorCode::InvalidRequest,
                "Unknown client metrics configuration: speed",
            ),
            (
                INTERVAL,
                "99",
                ErrorCode::InvalidRequest,
                "interval must be between 100 and 3600000",
            ),
            (INTERVAL, "soon", ErrorCode::InvalidConfig, "soon"),
            (
                MATCH,
                "client_id",
                ErrorCode::InvalidConfig,
                "Illegal client matching pattern: client_id",
            ),
            (
                MATCH,
                "client_age=3",
                ErrorCode::InvalidConfig,
                "Illegal client matching pattern",
            ),
            (
                MATCH,
                "client_id=(a{1000}){1000}",
                ErrorCode::InvalidConfig,
                "Illegal client matching pattern",
            ),
            (
                MATCH,
                "client_id=(",
                ErrorCode::InvalidConfig,
                "Illegal client matching pattern",
            ),
        ] {
            let (found, message) = check(&[(name, value)]).unwrap_err();
            assert_eq!(found, code, "{message}");
            assert!(message.contains(says), "{message}");
        }
        assert!(validate("", &BTreeMap::new()).is_err());
    }
}
