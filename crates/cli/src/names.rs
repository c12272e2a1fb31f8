//! Names on a command line: whole names, or patterns that select among the names there are.
//!
//! `cars*` has any characters in place of a star, `/cars-[0-9]+/` is a regular expression. Both
//! have to match a whole name. Group ids may have stars: a pattern also selects the name that is
//! written like it.
//!
//! Invariant: a selection has each name once, in the order of the command line.

use std::collections::BTreeSet;
use std::str::FromStr;

use anyhow::bail;
use regex::Regex;

/// A name, or a pattern of names.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    text: String,
    pattern: Option<Regex>,
}

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let inside = text
            .strip_prefix('/')
            .and_then(|rest| rest.strip_suffix('/'));
        let pattern = match inside {
            Some(expression) if !expression.is_empty() => Some(whole(expression)),
            None if text.contains('*') => {
                let parts: Vec<_> = text.split('*').map(regex::escape).collect();
                Some(whole(&parts.join(".*")))
            }
            _ => None,
        };
        Ok(Self {
            text: text.to_owned(),
            pattern: pattern.transpose().map_err(|error| error.to_string())?,
        })
    }
}

/// Returns an expression that matches whole names only.
fn whole(expression: &str) -> Result<Regex, regex::Error> {
    // Alone it has to be an expression, too: `a)(b` is none.
    Regex::new(expression)?;
    Regex::new(&format!(r"(?s)\A(?:{expression})\z"))
}

impl Name {
    /// Returns true if this is no pattern, and the name.
    pub(crate) fn is_exactly(&self, name: &str) -> bool {
        self.pattern.is_none() && self.text == name
    }

    /// Returns true for the name itself and for names that match the pattern.
    pub(crate) fn matches(&self, name: &str) -> bool {
        let is_match = |pattern: &Regex| pattern.is_match(name);
        self.text == name || self.pattern.as_ref().is_some_and(is_match)
    }
}

/// The names that a command line selects.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Selection {
    pub(crate) names: Vec<String>,
    /// Whether a pattern selected one of them.
    pub(crate) by_pattern: bool,
    /// Patterns that match nothing.
    unmatched: Vec<String>,
}

impl Selection {
    /// Selects among the names that `known` returns, which is called only if there is a pattern.
    pub(crate) fn of(
        arguments: &[Name],
        known: impl FnOnce() -> anyhow::Result<Vec<String>>,
    ) -> anyhow::Result<Self> {
        let is_pattern = |argument: &Name| argument.pattern.is_some();
        let known = if arguments.iter().any(is_pattern) {
            known()?
        } else {
            Vec::new()
        };
        let mut selection = Self {
            names: Vec::new(),
            by_pattern: false,
            unmatched: Vec::new(),
        };
        let mut seen = BTreeSet::new();
        for argument in arguments {
            let found = match &argument.pattern {
                Some(_) => {
                    // The name that is written like the pattern may not match it: `/a/`.
                    let found = known.iter().filter(|name| argument.matches(name));
                    let found: Vec<_> = found.collect();
                    if found.is_empty() {
                        selection.unmatched.push(argument.text.clone());
                    }
                    selection.by_pattern |= !found.is_empty();
                    found
                }
                None => vec![&argument.text],
            };
            let new = found.into_iter().filter(|name| seen.insert(*name));
            selection.names.extend(new.cloned());
        }
        Ok(selection)
    }

    /// Fails if a pattern matches nothing.
    pub(crate) fn complete(self, what: &str) -> anyhow::Result<Self> {
        if let Some(pattern) = self.unmatched.first() {
            bail!("no {what} matches {pattern}");
        }
        Ok(self)
    }
}

/// Returns true for a name that one of the arguments selects; without any, all are selected.
pub(crate) fn wanted(arguments: &[Name], name: &str) -> bool {
    arguments.is_empty() || arguments.iter().any(|argument| argument.matches(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn select(arguments: &[&str]) -> Selection {
        let there = [
            "cars", "cars-1", "cars-12", "trucks", "my.cars", "a*b", "aXb", "/x/", "x",
        ];
        let arguments: Vec<Name> = arguments.iter().map(|one| one.parse().unwrap()).collect();
        Selection::of(&arguments, || Ok(there.map(str::to_owned).to_vec())).unwrap()
    }

    #[test]
    fn stars_and_expressions_match_whole_names() {
        for (pattern, names) in [
            ("cars*", &["cars", "cars-1", "cars-12"][..]),
            ("*cars", &["cars", "my.cars"]),
            ("c*1*", &["cars-1", "cars-12"]),
            ("my.*", &["my.cars"]),
            ("m?*", &[]),
            ("/cars-[0-9]/", &["cars-1"]),
            ("/cars|trucks/", &["cars", "trucks"]),
            ("/(?i)MY.CARS/", &["my.cars"]),
        ] {
            let selection = select(&[pattern]);
            assert_eq!(selection.names, names, "{pattern}");
            assert_eq!(selection.by_pattern, !names.is_empty());
            assert_eq!(selection.complete("topic").is_err(), names.is_empty());
        }
    }

    #[test]
    fn a_name_is_selected_once_and_in_order_also_if_it_is_not_there() {
        let selection = select(&["trucks", "not-there", "/t.*/", "cars-1*", "trucks"]);
        assert_eq!(
            selection.names,
            ["trucks", "not-there", "cars-1", "cars-12"]
        );
        assert!(selection.complete("topic").is_ok());
    }

    #[test]
    fn names_that_are_no_patterns_are_not_looked_up() {
        let names = ["cars", "/", "//", "/cars", "cars?"];
        let names: [Name; 5] = names.map(|name| name.parse().unwrap());
        let selection = Selection::of(&names, || bail!("asked")).unwrap();
        assert_eq!(selection.names, ["cars", "/", "//", "/cars", "cars?"]);
        assert!(!selection.by_pattern);
    }

    #[test]
    fn a_pattern_that_matches_nothing_leaves_names_as_they_are() {
        let selection = select(&["cars", "bikes*"]);
        assert_eq!(selection.names, ["cars"]);
        assert!(!selection.by_pattern, "a name is confirmed by itself");
    }

    #[test]
    fn without_arguments_every_name_is_wanted() {
        let arguments = ["cars", "tr*"].map(|one| one.parse::<Name>().unwrap());
        assert!(wanted(&arguments, "cars") && wanted(&arguments, "trucks"));
        assert!(!wanted(&arguments, "bikes") && wanted(&[], "bikes"));
    }

    #[test]
    fn a_name_that_is_written_like_a_pattern_is_selected_with_those_that_match() {
        let selection = select(&["a*b"]);
        assert_eq!(selection.names, ["a*b", "aXb"]);
        assert!(selection.by_pattern);
        let selection = select(&["/x/"]);
        assert_eq!(selection.names, ["/x/", "x"]);
        assert!(selection.by_pattern);
    }

    #[test]
    fn an_expression_that_is_none_is_refused() {
        for text in ["/(/", "/a)(b/", "/[z-a]/"] {
            assert!(text.parse::<Name>().is_err(), "{text}");
        }
    }
}
