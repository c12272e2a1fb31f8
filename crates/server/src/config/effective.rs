//! Every setting with the value that is in force, and where it comes from.
//!
//! Invariants: a secret is never shown; a setting without effect is listed only if it was given,
//! with the reason. Not here: what is wrong with settings (`resolved`), and values that changed
//! while a broker ran, which are metadata: [`EffectiveSetting::overlay`] takes them from a caller
//! that has read the metadata.

use std::collections::{BTreeMap, BTreeSet};

use super::keys;
use super::problem::Problem;
use super::raw::{Entry, Origin, RawSettings};
use super::resolved::{ResolvedSettings, Settings, needs_authorizer};
use super::values::Values;
use crate::machine::Machine;

/// What is shown in the place of a secret.
const HIDDEN: &str = "(hidden)";

/// Settings that others replace when those are set, the strongest first.
const REPLACED: &[(&str, &[&str])] = &[
    ("log.dir", &["storage.tiers", "log.dirs"]),
    ("log.dirs", &["storage.tiers"]),
    (
        "log.retention.hours",
        &["log.retention.ms", "log.retention.minutes"],
    ),
    ("log.retention.minutes", &["log.retention.ms"]),
    ("log.roll.hours", &["log.roll.ms"]),
    ("log.roll.jitter.hours", &["log.roll.jitter.ms"]),
];

/// One setting with the value that is in force.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EffectiveSetting {
    /// Its name.
    pub key: String,
    /// Its value; `None` if it has none.
    pub value: Option<String>,
    /// Where the value comes from.
    pub origin: String,
    /// True if it was set; false if the value is the default.
    pub is_given: bool,
    /// What else there is to know: what it comes to on this machine, or why it has no effect; empty
    /// for nothing.
    pub note: String,
    is_secret: bool,
}

impl EffectiveSetting {
    /// Lists the settings by name, or returns why a broker would not start with them.
    pub fn list(raw: &RawSettings, machine: &Machine) -> Result<Vec<Self>, Vec<Problem>> {
        let ResolvedSettings { settings, .. } = Settings::resolve(raw, machine)?;
        // Everything there is to say has been said.
        let values = Values::check(raw, &mut Vec::new(), &mut Vec::new());
        let mut all: BTreeMap<String, Self> = BTreeMap::new();
        for row in keys::for_broker(&values.list("storage.tiers")) {
            let why = keys::find(row.name).and_then(|key| key.without_effect);
            let entry = values.entry(row.name);
            if why.is_some() && entry.is_none() {
                continue;
            }
            let one = Self {
                key: row.name.to_owned(),
                value: values.text(row.name).map(str::to_owned),
                origin: origin(entry),
                is_given: entry.is_some(),
                note: why.map_or_else(
                    || note(row.name, &values, &settings),
                    |why| format!("no effect: {why}"),
                ),
                is_secret: row.sensitive,
            };
            all.insert(one.key.clone(), one.without_secret());
        }
        let rows: BTreeSet<String> = all.keys().cloned().collect();
        for entry in raw
            .entries
            .iter()
            .filter(|entry| !rows.contains(&entry.key))
        {
            let known = keys::find(&entry.key);
            let why = keys::why_without_effect(&entry.key).unwrap_or("unknown key");
            let of_listener = keys::of_listener(&entry.key).map(|(_, key)| key);
            let row = known.or(of_listener);
            let is_known = row.is_some();
            let one = Self {
                key: keys::shown(&entry.key).to_owned(),
                value: Some(entry.text().to_owned()),
                origin: origin(Some(entry)),
                is_given: true,
                note: if is_known {
                    String::new()
                } else {
                    format!("no effect: {why}")
                },
                // Whether an unknown key is a secret is not known either.
                is_secret: row.is_none_or(|row| row.sensitive),
            };
            all.insert(entry.key.clone(), one.without_secret());
        }
        Ok(all.into_values().collect())
    }

    /// Puts the values that changed while a broker ran in the place of those of the files.
    ///
    /// `changed` returns the value of a setting, and where it comes from.
    pub fn overlay(all: &mut [Self], changed: impl Fn(&str) -> Option<(String, String)>) {
        for one in all.iter_mut().filter(|one| keys::may_change(&one.key)) {
            if let Some((value, origin)) = changed(&one.key) {
                if one.is_given {
                    one.note = format!("in the place of the value of {}", one.origin);
                }
                one.value = Some(value);
                one.origin = origin;
                one.is_given = true;
                *one = one.clone().without_secret();
            }
        }
    }

    fn without_secret(self) -> Self {
        let hide = self.is_secret && self.value.is_some();
        Self {
            value: if hide {
                Some(HIDDEN.to_owned())
            } else {
                self.value
            },
            ..self
        }
    }
}

/// Returns where a value comes from: a place, and the reference there if a config provider has it.
fn origin(entry: Option<&Entry>) -> String {
    let Some(entry) = entry else {
        return Origin::Default.to_string();
    };
    match &entry.reference {
        // What stands around it may be a secret itself.
        Some(_) => format!("{}, by config.providers", entry.origin),
        None => entry.origin.to_string(),
    }
}

/// Returns what a setting comes to here, if its text does not say it.
fn note(key: &str, values: &Values, settings: &Settings) -> String {
    let here = |number: u64| format!("{number} on this machine");
    let size = |number: usize| here(u64::try_from(number).unwrap_or(u64::MAX));
    let is_open = values.text(key).is_none_or(|text| text == "-1");
    let row = REPLACED.iter().find(|(replaced, _)| *replaced == key);
    let by = row.and_then(|(_, by)| by.iter().find(|by| values.is_given(by)));
    if let Some(by) = by {
        return format!("not used: {by} is set");
    }
    match key {
        "num.shards" if is_open => size(settings.shards),
        "log.cache.bytes" if is_open => here(settings.log_cache_bytes),
        "queued.max.request.bytes" if is_open => size(settings.network.queued_bytes_max),
        "queued.max.response.bytes" if is_open => size(settings.network.answers_bytes_max),
        "advertised.listeners" if is_open => {
            let each = settings.advertised.iter().map(ToString::to_string);
            each.collect::<Vec<_>>().join(",")
        }
        key if needs_authorizer(key) && values.is_given(key) && !settings.has_authorizer() => {
            "not used: authorizer.class.name is not set".into()
        }
        key if key.starts_with("ssl.")
            && values.is_given(key)
            && settings.tls_sets().is_empty() =>
        {
            "not used: no listener maps to SSL or SASL_SSL".into()
        }
        "node.id" if is_open && settings.node_id.is_none() => {
            "that of meta.properties, else 1".into()
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn listed(text: &str) -> Vec<EffectiveSetting> {
        let mut raw = RawSettings::default();
        raw.add_bytes(Path::new("f"), text.as_bytes()).unwrap();
        raw.add_arguments(&["num.partitions=3".into()]).unwrap();
        let machine = Machine {
            host_name: "here".into(),
            cores: 2,
            memory_bytes: 8 << 30,
        };
        EffectiveSetting::list(&raw, &machine).unwrap()
    }

    /// Checks value, origin and note of a setting.
    #[track_caller]
    fn check(text: &str, key: &str, expect: (Option<&str>, &str, &str)) {
        let all = listed(text);
        let one = all.iter().find(|one| one.key == key).unwrap();
        assert_eq!((one.value.as_deref(), &*one.origin, &*one.note), expect);
    }

    #[test]
    fn a_value_is_shown_with_its_origin_and_what_it_comes_to() {
        check(
            "num.partitions=7",
            "num.partitions",
            (Some("3"), "command line", ""),
        );
        check("log.dirs=/d", "log.dirs", (Some("/d"), "f:1", ""));
        check("", "num.shards", (None, "default", "2 on this machine"));
        let cache = (Some("-1"), "default", "2147483648 on this machine");
        check("", "log.cache.bytes", cache);
        let advertised = (None, "default", "PLAINTEXT://here:9092");
        check(
            "listeners=PLAINTEXT://:9092",
            "advertised.listeners",
            advertised,
        );
        let hours = (Some("168"), "default", "not used: log.retention.ms is set");
        check("log.retention.ms=5", "log.retention.hours", hours);
        let tiers = "storage.tiers=a\nstorage.tier.a.paths=/a";
        check(tiers, "storage.tier.a.paths", (Some("/a"), "f:2", ""));
        check(
            tiers,
            "storage.tier.a.medium",
            (Some("file"), "default", ""),
        );
    }

    #[test]
    fn what_has_no_effect_is_shown_only_where_it_was_given_and_secrets_never() {
        assert!(!listed("").iter().any(|one| one.key == "num.io.threads"));
        let unused = "not used: authorizer.class.name is not set";
        let users = "super.users=User:a";
        check(users, "super.users", (Some("User:a"), "f:1", unused));
        let why = "no effect: threads are shards, see num.shards";
        check(
            "num.io.threads=8",
            "num.io.threads",
            (Some("8"), "f:1", why),
        );
        let unused = "not used: no listener maps to SSL or SASL_SSL";
        let tls = (Some(HIDDEN), "f:1", unused);
        check("ssl.key.password=x", "ssl.key.password", tls);
        let unknown = (Some(HIDDEN), "f:1", "no effect: unknown key");
        check("my.plugin.password=x", "my.plugin.password", unknown);
        // A line of a key that was pasted without continuation is no name to print.
        let line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";
        let pasted = listed(&format!("ssl.keystore.key=-----BEGIN\n{line}\n{line}A\n"));
        let lines: Vec<_> = pasted
            .iter()
            .filter(|one| one.key == keys::NOT_SHOWN)
            .map(|one| &*one.origin)
            .collect();
        assert_eq!(lines, ["f:2", "f:3"], "one row for each, by its line");
        assert!(!pasted.iter().any(|one| format!("{one:?}").contains(line)));
        let bound = "listener.name.plaintext.max.connections";
        check(&format!("{bound}=5"), bound, (Some("5"), "f:1", ""));
    }

    #[test]
    fn what_changed_while_it_ran_stands_in_the_place_of_the_file() {
        let mut all = listed("log.cleaner.threads=1\nnum.partitions=1");
        let changed = |key: &str| {
            let is_it = ["log.cleaner.threads", "num.partitions"].contains(&key);
            is_it.then(|| ("4".to_owned(), "metadata".to_owned()))
        };
        EffectiveSetting::overlay(&mut all, changed);
        let one = |key: &str| all.iter().find(|one| one.key == key).unwrap();
        let threads = one("log.cleaner.threads");
        assert_eq!(
            (threads.value.as_deref(), &*threads.origin),
            (Some("4"), "metadata")
        );
        assert_eq!(threads.note, "in the place of the value of f:1");
        // It changes at a start only.
        assert_eq!(one("num.partitions").value.as_deref(), Some("3"));
    }
}
