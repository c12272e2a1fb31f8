//! A TOML file as text: where a value in it is wrong, and what is allowed there.
//!
//! Invariant: for any text, reading ends with a value or with one [`Problem`] that names file, line
//! and key.

use std::fmt;

use serde::de::DeserializeOwned;
use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

/// More than any catalogue or plan; a longer file is something else.
const TEXT_BYTES_MAX: usize = 1 << 20;

/// Maximum steps of a key that is set; each step is a nested call. A plan has at most six.
const STEPS_MAX: usize = 16;

/// Maximum bytes that all changes together may add; a change of every element of a list adds to
/// each.
const SET_BYTES_MAX: usize = 4 << 20;

/// Maximum length of a change, or of a key, in an error message.
const SHOWN_MAX: usize = 100;

/// Maximum length of a message about a value; the longest list of allowed keys is shorter.
const MESSAGE_MAX: usize = 2000;

/// Maximum bytes of an unknown key that is compared with known ones: the time is the product of
/// both lengths, and a key may contain what looks like a list of known ones.
const COMPARED_MAX: usize = 100;

/// What is wrong, and where.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct Problem {
    /// The file, or another origin.
    pub origin: String,
    /// The line, counted from 1, if the file has the key.
    pub line: Option<usize>,
    /// The key, such as `load[0].peak`.
    pub key: String,
    /// What is wrong, and what is allowed.
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.origin)?;
        if let Some(line) = self.line {
            write!(formatter, ":{line}")?;
        }
        if !self.key.is_empty() {
            write!(formatter, ": {}", self.key)?;
        }
        write!(formatter, ": {}", self.text)
    }
}

/// A TOML file.
#[derive(Clone, Debug)]
pub struct Document {
    origin: String,
    text: String,
    table: Table,
    /// Bytes that changes have added.
    added: usize,
}

impl Document {
    /// Parses TOML; `origin` is the file's name.
    pub fn parse(origin: &str, text: &str) -> Result<Self, Problem> {
        let problem = |line, text: String| Problem {
            origin: origin.to_owned(),
            line,
            key: String::new(),
            text,
        };
        if text.len() > TEXT_BYTES_MAX {
            return Err(problem(
                None,
                format!("allowed: at most {TEXT_BYTES_MAX} bytes"),
            ));
        }
        let table = text.parse::<Table>().map_err(|error| {
            let line = error.span().map(|span| line_of(text, span.start));
            problem(line, error.message().to_owned())
        })?;
        Ok(Self {
            origin: origin.to_owned(),
            text: text.to_owned(),
            table,
            added: 0,
        })
    }

    /// Sets a key: `goals.fill=0.6`, `load.cars.peak=2 GB/s` (by name), `load.peak=2 GB/s` (of
    /// all).
    pub fn set(&mut self, pair: &str) -> Result<(), Problem> {
        let said = |text: &str| Problem {
            origin: format!("--set {}", shortened(pair)),
            line: None,
            key: String::new(),
            text: text.to_owned(),
        };
        let (key, text) = pair
            .split_once('=')
            .ok_or_else(|| said("write KEY=VALUE"))?;
        if key.split('.').take(STEPS_MAX + 1).count() > STEPS_MAX {
            return Err(said(&format!(
                "the key goes too deep: at most {STEPS_MAX} steps"
            )));
        }
        let parsed: Result<Table, _> = format!("value = {text}").parse();
        let value = parsed.ok().and_then(|mut table| table.remove("value"));
        let value = value.unwrap_or_else(|| Value::String(text.trim().to_owned()));
        let steps: Vec<&str> = key.trim().split('.').collect();
        let mut root = Value::Table(std::mem::take(&mut self.table));
        let bytes = pair.len().saturating_add(STEPS_MAX * size_of::<Value>());
        let mut put_in = Put {
            value: &value,
            bytes,
            added: &mut self.added,
        };
        let done = put_in.at(&mut root, &steps);
        if let Value::Table(table) = root {
            self.table = table;
        }
        done.map_err(|text| said(&text))
    }

    /// Deserializes the whole document.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        let read = serde_path_to_error::deserialize(Value::Table(self.table.clone()));
        read.map_err(|error| {
            let key = error.path().to_string();
            let text = better(error.inner().message());
            let mut problem = self.problem(if key == "." { "" } else { &key }, text);
            problem.key = shortened(&problem.key);
            problem
        })
    }

    /// Returns a problem with the value of a key.
    pub fn problem(&self, key: &str, text: impl Into<String>) -> Problem {
        Problem {
            origin: self.origin.clone(),
            line: self.line(key),
            key: key.to_owned(),
            text: text.into(),
        }
    }

    /// Returns the line of a key, or of the innermost table that contains it.
    fn line(&self, key: &str) -> Option<usize> {
        let spans = DeTable::parse(&self.text).ok()?;
        let mut table = Some(spans.get_ref());
        let mut value: Option<&DeValue<'_>> = None;
        let mut found = None;
        for step in key.split(['.', '[']) {
            if let Some(index) = step.strip_suffix(']') {
                let index: usize = index.parse().ok()?;
                let Some(DeValue::Array(elements)) = value else {
                    break;
                };
                let Some(element) = elements.get(index) else {
                    break;
                };
                found = Some(element.span().start);
                value = Some(element.get_ref());
            } else {
                let Some((name, inside)) =
                    table.and_then(|table| table.iter().find(|(name, _)| name.get_ref() == step))
                else {
                    break;
                };
                found = Some(name.span().start);
                value = Some(inside.get_ref());
            }
            table = match value {
                Some(DeValue::Table(inside)) => Some(inside),
                _ => None,
            };
        }
        found.map(|at| line_of(&self.text, at))
    }
}

/// Returns the beginning of a text that an error message shows.
fn shortened(text: &str) -> String {
    at_most(text, SHOWN_MAX)
}

/// Returns the first `letters` of a text, with a mark where it was cut.
fn at_most(text: &str, letters: usize) -> String {
    match text.char_indices().nth(letters) {
        Some((at, _)) => format!("{}..", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// A value on its way along the steps of a key.
struct Put<'a> {
    value: &'a Value,
    /// Bytes that each copy of it adds.
    bytes: usize,
    added: &'a mut usize,
}

impl Put<'_> {
    /// Returns a copy of the value, and counts its bytes.
    fn copy(&mut self) -> Result<Value, String> {
        *self.added = self.added.saturating_add(self.bytes);
        if *self.added > SET_BYTES_MAX {
            return Err(format!(
                "allowed: at most {SET_BYTES_MAX} bytes in all places that are set"
            ));
        }
        Ok(self.value.clone())
    }

    fn at(&mut self, place: &mut Value, steps: &[&str]) -> Result<(), String> {
        let Some((step, rest)) = steps.split_first() else {
            *place = self.copy()?;
            return Ok(());
        };
        match place {
            Value::Table(table) => {
                if rest.is_empty() {
                    for rival in rivals(step) {
                        table.remove(*rival);
                    }
                    table.insert((*step).to_owned(), self.copy()?);
                    return Ok(());
                }
                let inside = table
                    .entry((*step).to_owned())
                    .or_insert_with(|| Value::Table(Table::new()));
                self.at(inside, rest)
            }
            Value::Array(elements) => self.within(elements, step, steps, rest),
            _ => Err(format!(
                "{}: there is a plain value before it",
                shortened(step)
            )),
        }
    }

    /// Sets the value in the element of this number or name, or in all elements.
    fn within(
        &mut self,
        elements: &mut [Value],
        step: &str,
        steps: &[&str],
        rest: &[&str],
    ) -> Result<(), String> {
        let named: Vec<usize> = (0..elements.len())
            .filter(|at| {
                elements
                    .get(*at)
                    .is_some_and(|element| is_called(element, step))
            })
            .collect();
        let (chosen, rest) = match step.parse::<usize>() {
            Ok(at) if at < elements.len() => (vec![at], rest),
            _ if !named.is_empty() => (named, rest),
            _ if elements.iter().all(Value::is_table) && rest.is_empty() => {
                ((0..elements.len()).collect(), steps)
            }
            _ if elements.iter().any(|element| element.get(step).is_some()) => {
                ((0..elements.len()).collect(), steps)
            }
            // A table that a load may lack.
            _ if TABLES.contains(&step) && elements.iter().all(Value::is_table) => {
                ((0..elements.len()).collect(), steps)
            }
            _ => return Err(format!("there is no {} there", shortened(step))),
        };
        for at in chosen {
            if let Some(element) = elements.get_mut(at) {
                self.at(element, rest)?;
            }
        }
        Ok(())
    }
}

/// Tables of a load that a change creates: no load of a plan needs to have them before.
const TABLES: [&str; 3] = ["burst", "catch_up", "keyed"];

/// Returns the keys that exclude `key`: to set one removes the other.
fn rivals(key: &str) -> &'static [&'static str] {
    match key {
        "peak" => &["messages"],
        "messages" => &["peak"],
        _ => &[],
    }
}

fn is_called(element: &Value, name: &str) -> bool {
    let by = |key| element.get(key).and_then(Value::as_str) == Some(name);
    by("name") || by("id")
}

/// Rewrites serde's message about an unknown key, with the nearest known one first.
fn better(message: &str) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    let is_unknown = message.starts_with("unknown field") || message.starts_with("unknown variant");
    let (true, Some(unknown)) = (is_unknown, quoted.next()) else {
        return at_most(message.trim_end(), MESSAGE_MAX);
    };
    if message.len() > MESSAGE_MAX || unknown.len() > COMPARED_MAX {
        return format!("{:?} is not known here", shortened(unknown));
    }
    let known: Vec<&str> = quoted.collect();
    let all = format!(
        "{unknown:?} is not known here; allowed: {}",
        known.join(", ")
    );
    let near = known
        .iter()
        .map(|known| (strsim::damerau_levenshtein(unknown, known), known))
        .min();
    match near {
        Some((distance, near)) if distance <= unknown.len().div_ceil(2) => {
            format!(
                "{unknown:?} is not known here; do you mean {near}? Allowed: {}",
                known.join(", ")
            )
        }
        _ => all,
    }
}

fn line_of(text: &str, at: usize) -> usize {
    text.get(..at)
        .map_or(1, |before| before.matches('\n').count() + 1)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::quantity::Rate;

    #[derive(Deserialize, Debug)]
    #[serde(deny_unknown_fields)]
    struct OuterTable {
        #[serde(default)]
        inner: Vec<InnerTable>,
    }

    #[derive(Deserialize, Debug)]
    #[serde(deny_unknown_fields)]
    struct InnerTable {
        name: String,
        peak: Rate,
    }

    #[track_caller]
    fn said(text: &str) -> String {
        let read =
            Document::parse("a.toml", text).and_then(|document| document.read::<OuterTable>());
        read.unwrap_err().to_string()
    }

    #[test]
    fn a_problem_names_file_line_key_and_what_is_allowed() {
        assert_eq!(
            said("# why\n[[inner]]\nname = \"x\"\npeek = \"1 GB/s\"\n"),
            "a.toml:4: inner[0].peek: \"peek\" is not known here; do you mean peak? Allowed: name, peak"
        );
        assert_eq!(
            said("[[inner]]\nname = \"x\"\npeak = 240\n"),
            "a.toml:3: inner[0].peak: \"240\": 240 of what? write a unit, as in \"2.5 GB/s\""
        );
        assert!(said("[[inner]]\nname = \"x\"\n").starts_with("a.toml:1: inner[0]: missing field"));
        assert!(said("[[inner]\n").starts_with("a.toml:1:"));
    }

    #[test]
    fn a_key_is_set_by_name_or_of_all() {
        let text = "[[inner]]\nname = \"x\"\npeak = \"1 GB/s\"\n[[inner]]\nname = \"y\"\npeak = \"1 GB/s\"\n";
        let mut document = Document::parse("a.toml", text).unwrap();
        document.set("inner.y.peak=3 GB/s").unwrap();
        let peaks = |document: &Document| -> Vec<f64> {
            let outer: OuterTable = document.read().unwrap();
            outer.inner.iter().map(|inner| inner.peak.0).collect()
        };
        assert_eq!(peaks(&document), [1e9, 3e9]);
        document.set("inner.peak=2 GB/s").unwrap();
        assert_eq!(peaks(&document), [2e9, 2e9]);
        assert_eq!(document.read::<OuterTable>().unwrap().inner[0].name, "x");
        assert!(document.set("inner.z.peak=2 GB/s").is_err());
        document.set("iner.peak=2").unwrap();
        let said = document.read::<OuterTable>().unwrap_err().to_string();
        assert!(said.contains("do you mean inner?"), "{said}");
    }
}
