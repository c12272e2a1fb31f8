//! Settings as they hold for one listener: what is given for it stands before what is given for
//! all.
//!
//! Only this module knows the rule of names, which is Kafka's: `listener.name.<listener>.<setting>`
//! with the name of the listener in lower case, and a mechanism between the two where a setting is
//! of one.

use super::Values;
use crate::config::problem::Problem;
use crate::config::raw::Entry;

/// The settings of one listener.
#[derive(Clone)]
pub(in crate::config) struct ListenerValues<'a> {
    values: &'a Values,
    /// Its name, in lower case.
    lower: String,
}

impl<'a> ListenerValues<'a> {
    /// The settings of the listener of that name, in whatever case.
    pub(in crate::config) fn of(values: &'a Values, listener: &str) -> Self {
        Self {
            values,
            lower: listener.to_ascii_lowercase(),
        }
    }

    /// Returns the name of the listener, in lower case.
    pub(in crate::config) fn listener(&self) -> &str {
        &self.lower
    }

    /// Returns what stands before the settings of this listener alone.
    pub(in crate::config) fn prefix(&self) -> String {
        format!("listener.name.{}.", self.lower)
    }

    /// Returns the full name of a setting of this listener alone.
    pub(in crate::config) fn own_name(&self, setting: &str) -> String {
        format!("{}{setting}", self.prefix())
    }

    /// Returns the text of a setting that is given for this listener alone.
    pub(in crate::config) fn own(&self, setting: &str) -> Option<&'a str> {
        self.values.of_listener(&self.own_name(setting))
    }

    /// Returns the full name under which a setting holds: that of this listener if it is given.
    pub(in crate::config) fn full_name(&self, setting: &str) -> String {
        if self.own(setting).is_some() {
            self.own_name(setting)
        } else {
            setting.to_owned()
        }
    }

    /// Returns the text that holds for this listener; `None` if there is none.
    pub(in crate::config) fn text(&self, setting: &str) -> Option<&'a str> {
        self.own(setting).or_else(|| self.values.text(setting))
    }

    /// Returns the number that holds for this listener, of a setting with a default.
    pub(in crate::config) fn number(&self, setting: &str) -> i64 {
        let text = self.text(setting);
        text.and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    /// Returns the boolean that holds for this listener.
    pub(in crate::config) fn is(&self, setting: &str) -> bool {
        self.text(setting)
            .is_some_and(|text| text.eq_ignore_ascii_case("true"))
    }

    /// Returns the items of the list that holds for this listener.
    pub(in crate::config) fn list(&self, setting: &str) -> Vec<&'a str> {
        super::items(self.text(setting).unwrap_or_default()).collect()
    }

    /// Returns the full name of a setting of one mechanism, in lower case.
    pub(in crate::config) fn mechanism_name(&self, mechanism: &str, setting: &str) -> String {
        self.own_name(&format!("{mechanism}.{setting}"))
    }

    /// Returns the text of a setting that is given for one mechanism of this listener.
    pub(in crate::config) fn of_mechanism(
        &self,
        mechanism: &str,
        setting: &str,
    ) -> Option<&'a str> {
        self.values
            .of_listener(&self.mechanism_name(mechanism, setting))
    }

    /// Returns the full name under which a setting of one mechanism holds: that of the mechanism,
    /// of this listener, or of all, whichever is given first.
    pub(in crate::config) fn nearest_name(&self, mechanism: &str, setting: &str) -> String {
        if self.of_mechanism(mechanism, setting).is_some() {
            self.mechanism_name(mechanism, setting)
        } else {
            self.full_name(setting)
        }
    }

    /// Returns the text that holds for one mechanism of this listener; `None` if there is none.
    pub(in crate::config) fn nearest(&self, mechanism: &str, setting: &str) -> Option<&'a str> {
        let own = self.of_mechanism(mechanism, setting);
        own.or_else(|| self.text(setting))
    }

    /// Returns a setting as it is given, under the name under which it holds; `None` if it is not.
    pub(in crate::config) fn entry(&self, setting: &str) -> Option<&'a Entry> {
        self.values.any_entry(&self.full_name(setting))
    }

    /// Returns the settings that are given for this listener alone.
    pub(in crate::config) fn own_entries(&self) -> impl Iterator<Item = &'a Entry> {
        let all = self.values.of_listeners();
        all.filter(move |(listener, _)| *listener == self.lower)
            .map(|(_, entry)| entry)
    }

    /// Returns a problem with a setting, under the name under which it holds.
    pub(in crate::config) fn problem(&self, setting: &str, allowed: impl Into<String>) -> Problem {
        self.values.problem_of(&self.full_name(setting), allowed)
    }
}
