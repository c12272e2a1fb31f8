//! For whom a setting may have a value of its own: single listeners, and their mechanisms.
//!
//! The name of such a value is `listener.name.<listener>.<setting>`, or
//! `listener.name.<listener>.<mechanism>.<setting>`, all in lower case. The name of a listener may
//! have dots. Not here: which value holds (`values::ListenerValues`).

use super::{Key, all};

/// For whom a setting may have a value of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// For the whole process: it has one value.
    Process,
    /// For each listener.
    Listener,
    /// For each listener, and each of its mechanisms.
    ListenerOrMechanism,
    /// For each mechanism of a listener; a value for all has no effect.
    Mechanism,
}

/// What stands before all names of values of single listeners.
pub(super) const PREFIX: &str = "listener.name.";

/// The mechanisms that have settings of their own, as they stand in names.
const MECHANISMS: [&str; 4] = ["plain", "scram-sha-256", "scram-sha-512", "oauthbearer"];

/// Splits the name of a value of a single listener into the listener and the row of the setting.
///
/// Returns `None` for a setting that single listeners cannot have.
pub fn of_listener(name: &str) -> Option<(&str, &'static Key)> {
    let rest = name.strip_prefix(PREFIX)?;
    all().find_map(|key| {
        if key.scope == Scope::Process {
            return None;
        }
        let before = before_setting(rest, key.name)?;
        let mut mechanisms = MECHANISMS.iter();
        let without = mechanisms.find_map(|it| before.strip_suffix(it)?.strip_suffix('.'));
        let listener = match key.scope {
            Scope::Process => return None,
            Scope::Listener => before,
            Scope::ListenerOrMechanism => without.unwrap_or(before),
            Scope::Mechanism => without?,
        };
        (!listener.is_empty()).then_some((listener, key))
    })
}

/// Returns what stands before a setting and its dot, in a name without [`PREFIX`].
pub(super) fn before_setting<'n>(rest: &'n str, setting: &str) -> Option<&'n str> {
    let before = rest.strip_suffix(setting)?.strip_suffix('.')?;
    (!before.is_empty()).then_some(before)
}
