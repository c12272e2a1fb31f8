//! The text of every key after precedence, checked against the table, and typed access to it.
//!
//! Invariant: every value held here satisfies its key's kind and range, so the typed getters cannot
//! fail for keys of that type that are set. To ask for a key that is not in the table is a
//! programming error.

use std::collections::BTreeMap;

use broker::options::ConfigKind;
use wire::sasl::Secret;

use super::impact;
use super::keys::{self, AllowedValues, Key};
use super::problem::{self, Problem, Warning};
use super::raw::{Entry, Origin, RawSettings};

mod overlay;

pub(super) use overlay::ListenerValues;

/// Settings that name files with secrets.
const SECRET_FILES: [&str; 2] = ["ssl.keystore.location", "admin.bearer.tokens.file"];

/// Effective values of known keys.
pub(super) struct Values {
    // Bounded: `raw::FILE_BYTES_MAX`.
    given: BTreeMap<String, Entry>,
    /// Settings of single listeners that have an effect, by their full name.
    // Bounded: `raw::FILE_BYTES_MAX`.
    of_listeners: BTreeMap<String, Entry>,
    /// Given keys that are in no table: shown, but without effect.
    // Bounded: `raw::FILE_BYTES_MAX`.
    others: BTreeMap<String, Entry>,
}

impl Values {
    /// Applies precedence and checks each value by itself.
    pub(super) fn check(
        raw: &RawSettings,
        warnings: &mut Vec<Warning>,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let (mut given, mut others) = (BTreeMap::new(), BTreeMap::new());
        let mut of_listeners = BTreeMap::new();
        for entry in &raw.entries {
            if let Some((_, key)) = keys::of_listener(&entry.key) {
                if fits(key, entry.text()) {
                    put(&mut of_listeners, entry, warnings);
                } else {
                    let allowed = format!("must be {}", problem::allowed(key));
                    problems.push(wrong(key, entry, allowed));
                }
                continue;
            }
            let is_known = keys::find(&entry.key).is_some();
            let among = if is_known { &mut given } else { &mut others };
            put(among, entry, warnings);
        }
        // What is overridden has neither an effect nor an impact.
        let text = |name: &str| given.get(name).map(Entry::text);
        let spoken = impact::Protocols::of(
            text("listeners"),
            text("listener.security.protocol.map"),
            text("controller.listener.names"),
        );
        for (place, entry) in others.values().enumerate() {
            let may_ask = place < keys::ASKED_MAX;
            unknown(entry, &spoken, may_ask, warnings);
        }
        for (name, entry) in &given {
            let key = keys::find(name).expect("only keys of the table are inserted");
            if !fits(key, entry.text()) {
                problems.push(wrong(
                    key,
                    entry,
                    format!("must be {}", problem::allowed(key)),
                ));
            }
            if let Some(why) = key.without_effect {
                warnings.push(Warning::of(entry, format!("has no effect: {why}")));
            }
            impacts(entry, &spoken, warnings);
        }
        // Wrong values are reported already. The default takes their place, so that the rest can be
        // resolved and all problems be reported together.
        given.retain(|name, entry| keys::find(name).is_some_and(|key| fits(key, entry.text())));
        Self {
            given,
            of_listeners,
            others,
        }
    }

    /// Returns the text of a key; `None` if it is not given and has no default.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        match self.given.get(name) {
            Some(entry) => Some(entry.text()),
            None => key(name).default,
        }
    }

    /// Returns the text of a key with a default.
    pub(super) fn string(&self, name: &str) -> String {
        self.text(name).unwrap_or_default().to_owned()
    }

    /// Returns the number of a key, if set.
    pub(super) fn number(&self, name: &str) -> Option<i64> {
        self.text(name)?.parse().ok()
    }

    /// Returns the number of a key with a default.
    pub(super) fn int(&self, name: &str) -> i64 {
        self.number(name)
            .expect("the table gives this number a default")
    }

    /// Returns the boolean of a key with a default.
    pub(super) fn is(&self, name: &str) -> bool {
        self.text(name)
            .is_some_and(|text| text.eq_ignore_ascii_case("true"))
    }

    /// Returns the items of a list, trimmed and without empty ones.
    pub(super) fn list(&self, name: &str) -> Vec<&str> {
        items(self.text(name).unwrap_or_default()).collect()
    }

    /// Returns true if the key was given.
    pub(super) fn is_given(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }

    /// Returns a key as it was given, if it was.
    pub(super) fn entry(&self, name: &str) -> Option<&Entry> {
        self.given.get(name)
    }

    /// Returns the text of a setting of one listener, by its full name.
    pub(super) fn of_listener(&self, name: &str) -> Option<&str> {
        self.of_listeners.get(name).map(Entry::text)
    }

    /// Returns the settings of single listeners, each with its listener.
    pub(super) fn of_listeners(&self) -> impl Iterator<Item = (&str, &Entry)> {
        let all = self.of_listeners.iter();
        all.filter_map(|(name, entry)| Some((keys::of_listener(name)?.0, entry)))
    }

    /// Returns a problem with a value in combination with others.
    pub(super) fn problem(&self, name: &str, allowed: impl Into<String>) -> Problem {
        let entry = self.given.get(name).cloned().unwrap_or_else(|| Entry {
            key: name.to_owned(),
            value: Secret::new(self.string(name)),
            origin: Origin::Default,
            reference: None,
        });
        wrong(key(name), &entry, allowed.into())
    }

    /// Returns a problem with a setting of one listener, or one that is in no table.
    pub(super) fn problem_of(&self, name: &str, allowed: impl Into<String>) -> Problem {
        let row = keys::find(name).or_else(|| Some(keys::of_listener(name)?.1));
        let Some(entry) = self.any_entry(name).or_else(|| self.others.get(name)) else {
            if keys::find(name).is_some() {
                return self.problem(name, allowed);
            }
            return Problem {
                key: name.to_owned(),
                value: String::new(),
                allowed: allowed.into(),
                origin: Origin::Default,
            };
        };
        match row {
            Some(row) => wrong(row, entry, allowed.into()),
            None => Problem {
                key: keys::shown(name).to_owned(),
                value: "(hidden)".into(),
                allowed: allowed.into(),
                origin: entry.origin.clone(),
            },
        }
    }

    /// Returns a key as it was given, if it was, or that of one listener.
    pub(super) fn any_entry(&self, name: &str) -> Option<&Entry> {
        self.given.get(name).or_else(|| self.of_listeners.get(name))
    }

    /// Returns true if a setting that is given is a secret, or the file of one.
    pub(super) fn has_secrets(&self) -> bool {
        let known = self.given.iter().chain(&self.of_listeners);
        let mut known = known.filter(|(_, entry)| !entry.text().is_empty());
        known.any(|(name, entry)| {
            let row = keys::find(name).or_else(|| Some(keys::of_listener(name)?.1));
            let is_file = |row: &Key| SECRET_FILES.contains(&row.name);
            entry.reference.is_some() || row.is_some_and(|row| row.sensitive || is_file(row))
        })
    }

    /// Returns the keys that were given, known or not, with their texts.
    pub(super) fn given(&self) -> impl Iterator<Item = (&str, &str)> {
        let known = self.given.iter();
        let known = known.map(|(name, entry)| (name.as_str(), entry.text()));
        let of_listeners = self.of_listeners.iter();
        let of_listeners = of_listeners.map(|(name, entry)| (name.as_str(), entry.text()));
        let known = known.chain(of_listeners);
        let others = self.others.iter();
        known.chain(others.map(|(name, entry)| (name.as_str(), entry.text())))
    }
}

fn key(name: &str) -> &'static Key {
    keys::find(name).unwrap_or_else(|| panic!("{name} is not in the table of settings"))
}

fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
}

/// Keeps an entry in the place of an earlier one of the same key; warns if both are in the file.
fn put(entries: &mut BTreeMap<String, Entry>, entry: &Entry, warnings: &mut Vec<Warning>) {
    let replaced = entries.insert(entry.key.clone(), entry.clone());
    if let Some(same_file) = replaced.filter(|old| both_in_file(old, entry)) {
        let why = "is given again further down, which wins";
        warnings.push(Warning::of_mistake(&same_file, why));
    }
}

fn both_in_file(old: &Entry, later: &Entry) -> bool {
    matches!(
        (&old.origin, &later.origin),
        (Origin::File(..), Origin::File(..))
    )
}

/// Warns about what clients notice of a setting; returns true if there is something.
fn impacts(entry: &Entry, spoken: &impact::Protocols, warnings: &mut Vec<Warning>) -> bool {
    let before = warnings.len();
    let impacts = impact::of(&entry.key, entry.text(), spoken);
    warnings.extend(impacts.map(|it| Warning::of(entry, it.why.into()).seen_by_clients(it.advice)));
    warnings.len() > before
}

/// Warns about a key that is not in the table; looks for the one that was meant if it `may_ask`.
fn unknown(entry: &Entry, spoken: &impact::Protocols, may_ask: bool, warnings: &mut Vec<Warning>) {
    if impacts(entry, spoken, warnings) {
        return;
    }
    warnings.push(if let Some(why) = keys::why_without_effect(&entry.key) {
        Warning::of(entry, format!("has no effect: {why}"))
    } else if may_ask && let Some(nearest) = keys::nearest(&entry.key) {
        let advice = format!(
            "write {nearest}, or take it out: as it stands, the default of {nearest} is in force"
        );
        let near = Warning {
            key: entry.key.clone(),
            ..Warning::of(entry, format!("unknown key, is {nearest} meant?"))
        };
        near.seen_by_clients(advice)
    } else if let (keys::NOT_SHOWN, Origin::File(_, line)) =
        (keys::shown(&entry.key), &entry.origin)
    {
        Warning::of_mistake(entry, &format!("line {line} is no setting"))
    } else {
        Warning::of_mistake(entry, "unknown key")
    });
}

fn wrong(key: &Key, entry: &Entry, allowed: String) -> Problem {
    // What a provider has put in may be a secret that was to go elsewhere.
    let value = if key.sensitive || entry.reference.is_some() {
        "(hidden)".into()
    } else {
        entry.text().to_owned()
    };
    Problem {
        key: entry.key.clone(),
        value,
        allowed,
        origin: entry.origin.clone(),
    }
}

/// Returns true if a text is a value of the key.
pub(super) fn fits(key: &Key, text: &str) -> bool {
    let of_kind = match key.kind {
        ConfigKind::Boolean => {
            text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false")
        }
        ConfigKind::Short => text.parse::<i16>().is_ok(),
        ConfigKind::Int => text.parse::<i32>().is_ok(),
        ConfigKind::Long => text.parse::<i64>().is_ok(),
        ConfigKind::Double => text.parse::<f64>().is_ok_and(f64::is_finite),
        ConfigKind::String | ConfigKind::List | ConfigKind::Class | ConfigKind::Password => true,
    };
    of_kind
        && match key.allowed {
            AllowedValues::Any => true,
            AllowedValues::NotEmpty => items(text).next().is_some(),
            AllowedValues::OneOf(values) => values.contains(&text),
            AllowedValues::Several(values) => {
                items(text).next().is_some() && items(text).all(|item| values.contains(&item))
            }
            AllowedValues::Range(least, most) => in_range(text, least, most),
        }
}

#[allow(
    clippy::cast_precision_loss,
    reason = "bounds of fractions are small whole numbers"
)]
fn in_range(text: &str, least: i64, most: i64) -> bool {
    match text.parse::<i64>() {
        Ok(number) => (least..=most).contains(&number),
        Err(_) => text
            .parse::<f64>()
            .is_ok_and(|x| x >= least as f64 && x <= most as f64),
    }
}
