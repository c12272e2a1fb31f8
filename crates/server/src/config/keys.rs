//! The table of settings: each key once, with type, default, allowed values, when it may change,
//! and what it does. A name with `<name>` in it stands for a family of keys.
//!
//! Invariants: names are unique; defaults satisfy their own rule (tested). A key of Kafka without a
//! meaning here is either in the table with a note (its value is still checked and shown) or in
//! `foreign` (it causes a warning). This module does not parse or keep values.

mod admin;
mod audit;
mod authorizer;
mod foreign;
mod groups;
mod journal;
mod log;
mod login;
mod network;
mod node;
mod process;
mod providers;
mod quotas;
mod replication;
mod scope;
mod tiers;
mod tls;
mod transactions;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::sync::LazyLock;

use broker::options::{ConfigKey, ConfigKind};

pub use broker::options::{AllowedValues, Changes};

pub use foreign::why_without_effect;
pub use scope::{Scope, of_listener};

/// Longer names resemble none of the table.
const NAME_BYTES_MAX: usize = 64;
/// Longer parts of a name are no words.
const WORD_BYTES_MAX: usize = 40;
/// Unknown keys of one file for which [`nearest`] is asked; more are no misspellings.
pub const ASKED_MAX: usize = 1000;
/// What stands in the place of a key that is not named.
pub const NOT_SHOWN: &str = "(not shown)";

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Property name.
    pub name: &'static str,
    /// Kind of value.
    pub kind: ConfigKind,
    /// Default as text; `None` if there is none.
    pub default: Option<&'static str>,
    /// Allowed values.
    pub allowed: AllowedValues,
    /// When it may change.
    pub changes: Changes,
    /// Why it has no effect here, for keys that are accepted for compatibility with Kafka.
    pub without_effect: Option<&'static str>,
    /// True if its value is a secret.
    pub sensitive: bool,
    /// True for a key of this project, which neither Kafka nor Pafka has.
    pub ours: bool,
    /// For whom it may have a value of its own.
    pub scope: Scope,
    /// What it does.
    pub doc: &'static str,
}

impl Key {
    /// Returns the member that `name` is for, if this is a family and `name` belongs to it.
    fn member<'n>(&self, name: &'n str) -> Option<&'n str> {
        let (before, after) = self.name.split_once(MEMBER)?;
        let member = name.strip_prefix(before)?.strip_suffix(after)?;
        (!member.is_empty() && !member.contains(['.', '<'])).then_some(member)
    }

    /// Returns `name` with the member replaced by the placeholder if it has the form of this
    /// family, else `name`.
    fn blanked<'n>(&self, name: &'n str) -> Cow<'n, str> {
        let rest = self.name.split_once(MEMBER).and_then(|(before, _)| {
            let (member, rest) = name.strip_prefix(before)?.split_once('.')?;
            (!member.is_empty()).then(|| format!("{before}{MEMBER}.{rest}"))
        });
        rest.map_or(Cow::Borrowed(name), Cow::Owned)
    }

    const fn of(name: &'static str, kind: ConfigKind, default: &'static str) -> Self {
        Self {
            name,
            kind,
            default: Some(default),
            allowed: AllowedValues::Any,
            changes: Changes::AtStart,
            without_effect: None,
            sensitive: false,
            ours: false,
            scope: Scope::Process,
            doc: "",
        }
    }

    const fn boolean(name: &'static str, default: &'static str) -> Self {
        Self::of(name, ConfigKind::Boolean, default)
    }

    const fn int(name: &'static str, default: &'static str) -> Self {
        Self::of(name, ConfigKind::Int, default)
    }

    const fn short(name: &'static str, default: &'static str) -> Self {
        Self::of(name, ConfigKind::Short, default)
    }

    const fn long(name: &'static str, default: &'static str) -> Self {
        Self::of(name, ConfigKind::Long, default)
    }

    const fn string(name: &'static str, default: &'static str) -> Self {
        Self::of(name, ConfigKind::String, default)
    }

    const fn list(name: &'static str, default: &'static str) -> Self {
        Self::of(name, ConfigKind::List, default)
    }

    /// A secret without default.
    const fn secret(name: &'static str) -> Self {
        Self {
            sensitive: true,
            default: None,
            ..Self::of(name, ConfigKind::Password, "")
        }
    }

    const fn unset(mut self) -> Self {
        self.default = None;
        self
    }

    const fn min(self, least: i64) -> Self {
        let most = match self.kind {
            ConfigKind::Short => i16::MAX as i64,
            ConfigKind::Int => i32::MAX as i64,
            _ => i64::MAX,
        };
        self.range(least, most)
    }

    const fn range(mut self, least: i64, most: i64) -> Self {
        self.allowed = AllowedValues::Range(least, most);
        self
    }

    const fn one_of(mut self, values: &'static [&'static str]) -> Self {
        self.allowed = AllowedValues::OneOf(values);
        self
    }

    const fn several(mut self, values: &'static [&'static str]) -> Self {
        self.allowed = AllowedValues::Several(values);
        self
    }

    const fn not_empty(mut self) -> Self {
        self.allowed = AllowedValues::NotEmpty;
        self
    }

    const fn dynamic(mut self) -> Self {
        self.changes = Changes::ClusterWide;
        self
    }

    const fn per_broker(mut self) -> Self {
        self.changes = Changes::PerBroker;
        self
    }

    const fn without_effect(mut self, why: &'static str) -> Self {
        self.without_effect = Some(why);
        self
    }

    const fn ours(mut self) -> Self {
        self.ours = true;
        self
    }

    const fn scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    const fn doc(mut self, doc: &'static str) -> Self {
        self.doc = doc;
        self
    }
}

/// The sections of the table, in the order of the reference page.
pub const SECTIONS: &[(&str, &[Key])] = &[
    ("Node and topics", node::KEYS),
    ("Listeners, connections, requests", network::KEYS),
    ("TLS", tls::KEYS),
    ("Logins", login::KEYS),
    ("Authorization", authorizer::KEYS),
    ("Audit", audit::KEYS),
    ("Logs", log::KEYS),
    ("Journals", journal::KEYS),
    ("Tiers", tiers::KEYS),
    ("Groups and offsets", groups::KEYS),
    ("Producers and transactions", transactions::KEYS),
    ("Quotas of clients", quotas::KEYS),
    ("Replication and metadata", replication::KEYS),
    ("Process", process::KEYS),
    ("Admin endpoint", admin::KEYS),
    ("Values from elsewhere", providers::KEYS),
];

/// Returns every key.
pub fn all() -> impl Iterator<Item = &'static Key> {
    SECTIONS.iter().flat_map(|(_, keys)| keys.iter())
}

/// The placeholder for the member in the name of a family of keys.
const MEMBER: &str = "<name>";

/// Returns the key of that name, or the family that it belongs to.
pub fn find(name: &str) -> Option<&'static Key> {
    all()
        .find(|key| key.name == name)
        .or_else(|| all().find(|key| key.member(name).is_some()))
}

/// Returns true if a setting, of a listener or not, may change while the broker runs: a value in
/// the metadata then stands in the place of the file's.
pub fn may_change(name: &str) -> bool {
    let row = find(name).or_else(|| Some(of_listener(name)?.1));
    row.is_some_and(|key| key.changes != Changes::AtStart)
}

/// Returns the tier that a key is for, if it is of a family that tiers have.
pub fn member_of(name: &str) -> Option<&str> {
    of_tiers().find_map(|key| key.member(name))
}

/// Returns the families of keys that have a member for each tier.
fn of_tiers() -> impl Iterator<Item = &'static Key> {
    all().filter(|key| key.name.starts_with("storage.tier.") && key.name.contains(MEMBER))
}

/// Returns the key with the name nearest to `name`, if it is near enough to be a misspelling.
///
/// Of several that are equally near, the one that begins like `name` for longest: abbreviations end
/// early.
pub fn nearest(name: &str) -> Option<&'static str> {
    // A distance takes steps in proportion to the length of the name.
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let scored = all().map(|key| {
        let distance = strsim::damerau_levenshtein(&key.blanked(name), key.name);
        let both = name.bytes().zip(key.name.bytes());
        let same = both.take_while(|(one, other)| one == other).count();
        let longer = name.len().abs_diff(key.name.len());
        (distance, Reverse(same), longer, key.name)
    });
    let (distance, .., nearest) = scored.min()?;
    (distance <= 2 + name.len() / 4).then_some(nearest)
}

/// Returns the key as messages name it: [`NOT_SHOWN`] for what does not look like a setting.
///
/// A line of a secret that was pasted without continuation is such a key.
pub fn shown(key: &str) -> &str {
    let is_known =
        || find(key).is_some() || of_listener(key).is_some() || why_without_effect(key).is_some();
    if looks_like_setting(key) || is_known() {
        key
    } else {
        NOT_SHOWN
    }
}

/// Returns true for words joined by dots; base64 has no dot.
fn looks_like_setting(key: &str) -> bool {
    let is_of_word = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    let is_word = |word: &str| word.len() <= WORD_BYTES_MAX && word.bytes().all(is_of_word);
    key.contains('.') && key.split('.').all(is_word)
}

/// Returns the table as the broker shows it to `DescribeConfigs`; a family becomes one key for each
/// of `members`, the tiers. How config providers are set is not shown.
pub fn for_broker(members: &[&str]) -> &'static [ConfigKey] {
    static SINGLE: LazyLock<Vec<ConfigKey>> = LazyLock::new(|| {
        let is_shown =
            |key: &&Key| !key.name.contains(MEMBER) && !key.name.starts_with("config.providers");
        let single = all().filter(is_shown);
        single.map(row).collect()
    });
    if members.is_empty() {
        return &SINGLE;
    }
    let each = of_tiers().flat_map(|key| {
        members.iter().map(move |member| ConfigKey {
            // Settings are read once and kept until the process ends, so the leak is bounded.
            name: key.name.replace(MEMBER, member).leak(),
            ..row(key)
        })
    });
    SINGLE
        .iter()
        .cloned()
        .chain(each)
        .collect::<Vec<_>>()
        .leak()
}

fn row(key: &Key) -> ConfigKey {
    ConfigKey {
        name: key.name,
        kind: key.kind,
        default: key.default,
        allowed: key.allowed,
        doc: key.doc,
        changes: key.changes,
        sensitive: key.sensitive,
    }
}

#[cfg(test)]
mod tests;
