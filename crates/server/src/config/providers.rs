//! Config providers (KIP-297, KIP-421): settings whose values are in files or in the environment.
//!
//! ```text
//! config.providers=file
//! config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
//! ssl.key.password=${file:/run/secrets/tls.properties:password}
//! ```
//!
//! As in Kafka: a value may have several references, the rest of it stays as it is, and what is put
//! in is not looked at again. Unlike Kafka, which leaves a reference that it cannot follow in the
//! value, so that it becomes the password: such a reference refuses the start.
//!
//! Invariants: no message shows what a provider has, nor what stands around a reference. Values
//! that change while a broker runs are metadata and never come here, so a client cannot make the
//! broker read a file. Not here: where files are read (`source`).

mod reference;
mod source;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;

use wire::sasl::Secret;
use wire::text::cut;

use super::entry::Entry;
use super::permissions::{SecretFile, is_sensitive};
use super::problem::{Effect, Problem, Warning};
use reference::{Piece, Reference, pieces};
use source::{CLASSES, ProvidedValue, Source};

/// The setting that names the providers.
pub(super) const PROVIDERS: &str = "config.providers";
/// Longest value with all that was put in.
const VALUE_BYTES_MAX: usize = 16 << 20;
/// How much of a reference a message repeats, in bytes.
const SHOWN_BYTES_MAX: usize = 300;
/// Names that providers usually have.
const USUAL: [&str; 3] = ["file", "env", "directory"];

/// What came of replacing references.
#[derive(Default)]
pub(super) struct SettledReferences {
    pub(super) problems: Vec<Problem>,
    pub(super) warnings: Vec<Warning>,
    /// Files that were read, each with the setting it was read for.
    // Bounded: the references in the settings, `raw::FILE_BYTES_MAX`.
    pub(super) files: Vec<SecretFile>,
}

/// Replaces the references in those settings that are in force: the last of each key.
pub(super) fn replace(
    entries: &mut [Entry],
    environment: &dyn Fn(&str) -> Option<String>,
) -> SettledReferences {
    let mut settled = SettledReferences::default();
    let each = entries.iter().enumerate();
    let last: BTreeMap<String, usize> = each.map(|(at, entry)| (entry.key.clone(), at)).collect();
    let sources = sources(entries, &last, &mut settled.problems);
    for (at, entry) in entries.iter_mut().enumerate() {
        let is_in_force = last.get(&entry.key) == Some(&at);
        let is_of_providers = entry.key.starts_with(PROVIDERS);
        if !is_in_force || is_of_providers || !entry.text().contains("${") {
            continue;
        }
        if sources.is_empty() {
            settled.warnings.extend(warning_of_none(entry, &last));
            continue;
        }
        let providers = Providers {
            sources: &sources,
            environment,
        };
        match providers.replaced(entry, &mut settled.files) {
            Ok(None) => {}
            Ok(Some(value)) => {
                let ReplacedValue { text, put_in } = value;
                // Kafka trims values of all kinds when it has put them together.
                entry.value = Secret::new(text.expose().trim().to_owned());
                entry.reference = Some(put_in);
            }
            Err(problem) => {
                // The file of settings has the reference and no secret.
                entry.reference = Some(Vec::new());
                settled.problems.push(problem);
            }
        }
    }
    settled
}

/// The providers by name, as the settings describe them.
fn sources(
    entries: &[Entry],
    last: &BTreeMap<String, usize>,
    problems: &mut Vec<Problem>,
) -> BTreeMap<String, Source> {
    let given = |key: &str| entries.get(*last.get(key)?);
    let Some(all) = given(PROVIDERS) else {
        return BTreeMap::new();
    };
    let names = all.text().split(',').map(str::trim);
    let mut sources = BTreeMap::new();
    for name in names.filter(|name| !name.is_empty()) {
        let key = |rest: &str| format!("{PROVIDERS}.{name}.{rest}");
        let Some(class) = given(&key("class")) else {
            let why = format!("{} must name its class: {CLASSES}", key("class"));
            problems.push(problem(all, all.text(), why));
            continue;
        };
        let paths = given(&key("param.allowed.paths"));
        let pattern = given(&key("param.allowlist.pattern"));
        match Source::new(class, paths, pattern) {
            Ok(source) => {
                sources.insert(name.to_owned(), source);
            }
            Err((entry, why)) => problems.push(problem(entry, entry.text(), why)),
        }
    }
    sources
}

/// A value in which references were replaced.
struct ReplacedValue {
    text: Secret<String>,
    /// What was put in.
    // Bounded: the references in the value, `raw::FILE_BYTES_MAX`.
    put_in: Vec<Secret<String>>,
}

struct Providers<'a> {
    sources: &'a BTreeMap<String, Source>,
    environment: &'a dyn Fn(&str) -> Option<String>,
}

impl Providers<'_> {
    /// Returns a value with what its references stand for; `None` if it has none.
    fn replaced(
        &self,
        entry: &Entry,
        files: &mut Vec<SecretFile>,
    ) -> Result<Option<ReplacedValue>, Problem> {
        let text = entry.text();
        let mut value = zeroize::Zeroizing::new(String::new());
        let mut put_in = Vec::new();
        let mut named = None;
        for piece in pieces(text) {
            let reference = match piece {
                Piece::Text(text) => {
                    append(&mut value, text);
                    continue;
                }
                Piece::Reference(reference) => reference,
            };
            let found = self.found(entry, &reference)?;
            append(&mut value, found.value.expose());
            put_in.push(found.value);
            files.extend(found.file.map(|(path, mode)| SecretFile {
                // One for all files of a value, which may have very many references.
                entry: Rc::clone(named.get_or_insert_with(|| Rc::new(entry.clone()))),
                path: PathBuf::from(path),
                mode,
            }));
            if value.len() > VALUE_BYTES_MAX {
                let why = format!("stands for more than {VALUE_BYTES_MAX} bytes");
                return Err(problem(entry, reference.text, why));
            }
        }
        Ok((!put_in.is_empty()).then(|| ReplacedValue {
            text: Secret::new(std::mem::take(&mut *value)),
            put_in,
        }))
    }

    fn found(&self, entry: &Entry, reference: &Reference<'_>) -> Result<ProvidedValue, Problem> {
        let Some(source) = self.sources.get(reference.provider) else {
            let names: Vec<_> = self.sources.keys().map(String::as_str).collect();
            let why = format!(
                "has a reference to a config provider that is none of {PROVIDERS}={}: name it \
                 there, or, if this is no reference, put the value into a file and refer to that",
                names.join(",")
            );
            // What looks like a reference may be a part of a password.
            return Err(problem(entry, "(hidden)", why));
        };
        let found = source.find(reference, self.environment);
        found.map_err(|why| problem(entry, reference.text, why))
    }
}

/// Adds to a text, and leaves nothing behind where it was when it grows.
fn append(text: &mut zeroize::Zeroizing<String>, more: &str) {
    if text.capacity() - text.len() < more.len() {
        let room = text.len().saturating_add(more.len()).saturating_mul(2);
        let mut grown = zeroize::Zeroizing::new(String::with_capacity(room));
        grown.push_str(text);
        *text = grown;
    }
    text.push_str(more);
}

/// Warns of what looks like a reference where no provider is set.
fn warning_of_none(entry: &Entry, last: &BTreeMap<String, usize>) -> Option<Warning> {
    // A list of providers that are all wrong has been refused.
    let is_usual = |piece: Piece<'_>| match piece {
        Piece::Reference(reference) => USUAL.contains(&reference.provider),
        Piece::Text(_) => false,
    };
    let looks_like_one = pieces(entry.text()).any(is_usual);
    (looks_like_one && !last.contains_key(PROVIDERS)).then(|| Warning {
        effect: Effect::Mistake,
        advice: format!("set {PROVIDERS} (docs/security-now.md), or write the value itself"),
        ..Warning::of(
            entry,
            format!("has what looks like a reference, and {PROVIDERS} is not set: it is taken as it is written"),
        )
    })
}

/// What stands in the place of a message that would show what a provider has.
const UNSAID: &str = "the value that its reference stands for is not allowed, or what it leads to";

/// Least bytes of a text that is looked for in messages: shorter ones are in many by chance.
const TELLING_BYTES: usize = 4;
/// Bytes in a row that a message and a secret do not have in common by chance.
const ROW_BYTES: usize = 8;

/// Takes what providers have put into settings out of the messages about them: a reference in a
/// setting that is no secret may be a mistake for one that is.
///
/// Messages about a setting that is no secret repeat parts of its value (one name of a list, the
/// beginning of a long text), so those about one with a reference must not have a part either.
pub(super) fn hide(entries: &[Entry], problems: &mut [Problem], warnings: &mut [Warning]) {
    let whole: Vec<_> = entries.iter().flat_map(put_in).collect();
    // Bounded: `entries`.
    let mut by_key: BTreeMap<&str, Vec<Secret<String>>> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| !is_sensitive(&entry.key)) {
        by_key.entry(&entry.key).or_default().extend(put_in(entry));
    }
    let shows = |key: &str, message: &str| {
        let message = message.to_lowercase();
        let is_whole = |text: &Secret<String>| message.contains(text.expose());
        let is_part = |text: &Secret<String>| has_part(&message, text.expose());
        whole.iter().any(is_whole) || by_key.get(key).is_some_and(|own| own.iter().any(is_part))
    };
    for problem in problems.iter_mut() {
        if shows(&problem.key, &problem.value) {
            problem.value = "(hidden)".into();
        }
        if shows(&problem.key, &problem.allowed) {
            problem.allowed = UNSAID.into();
        }
    }
    for warning in warnings.iter_mut() {
        if shows(&warning.key, &warning.why) {
            warning.why = UNSAID.into();
        }
        if shows(&warning.key, &warning.advice) {
            warning.advice = String::new();
        }
    }
}

/// Returns what was put into a setting and is long enough to tell something, in small letters.
fn put_in(entry: &Entry) -> Vec<Secret<String>> {
    let all = entry.reference.iter().flatten();
    all.map(|text| Secret::new(text.expose().trim().to_lowercase()))
        .filter(|text| text.expose().len() >= TELLING_BYTES)
        .collect()
}

/// Returns true if a message has a word of a text, or some letters in a row of a longer one.
fn has_part(message: &str, text: &str) -> bool {
    let is_between = |letter: char| !letter.is_alphanumeric();
    let words = text.split(is_between);
    let mut words = words.filter(|word| (TELLING_BYTES..ROW_BYTES).contains(&word.len()));
    let letters = message.char_indices().map(|(at, _)| at);
    let mut rows = letters.filter_map(|at| message.get(at..at.checked_add(ROW_BYTES)?));
    words.any(|word| message.contains(word)) || rows.any(|row| text.contains(row))
}

fn problem(entry: &Entry, reference: &str, allowed: String) -> Problem {
    Problem {
        key: entry.key.clone(),
        value: wire::text::escaped(cut(reference, SHOWN_BYTES_MAX)).into_owned(),
        allowed,
        origin: entry.origin.clone(),
    }
}

#[cfg(test)]
mod tests;
