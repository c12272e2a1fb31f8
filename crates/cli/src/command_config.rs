//! A file of properties as Kafka's tools take it (`--command-config`): who the client is, times,
//! bounds.
//!
//! As Java reads it: `key=value`, `key: value` or `key value`, comments after `#` or `!`, a
//! backslash at the end of a line goes on in the next one and otherwise escapes. The text is UTF-8.
//!
//! Invariant: no message shows a value, which may be a password, nor a key that looks like a part
//! of one. Not here: what properties mean (`client`).

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::str::Chars;

use anyhow::Context as _;
use client::{ClientError, SettingsBuilder};
use platform::bounded;
use wire::sasl::Secret;

/// The longest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The longest key that is shown.
const SHOWN_KEY_MAX: usize = 100;
/// The property that names the brokers; options and profiles have a say in it.
const BROKERS: &str = "bootstrap.servers";

/// The properties of a file; none without a file.
#[derive(Default)]
pub(crate) struct CommandConfig {
    path: PathBuf,
    properties: Vec<(String, Secret<String>)>,
}

impl CommandConfig {
    /// Reads a file.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let named = || path.display().to_string();
        // A pipe, too: shells make one of what another program prints.
        let bytes = File::open(path).and_then(|file| bounded::stream(file, FILE_BYTES_MAX));
        let text = String::from_utf8(bytes.with_context(named)?);
        let text = text
            .map_err(|_| anyhow::anyhow!("it is not UTF-8"))
            .with_context(named)?;
        let properties = properties(&text)
            .map_err(|line| {
                anyhow::anyhow!("line {line}: \\u has no four hex digits that make a character")
            })
            .with_context(named)?
            .into_iter();
        Ok(Self {
            path: path.to_owned(),
            properties: properties
                .map(|(key, value)| (key, Secret::new(value)))
                .collect(),
        })
    }

    /// Returns the brokers that the file names.
    pub(crate) fn brokers(&self) -> Option<&str> {
        let found = self.properties.iter().rfind(|(key, _)| key == BROKERS);
        found.map(|(_, brokers)| brokers.expose().as_str())
    }

    /// Returns the value of a property; the last counts.
    pub(crate) fn value(&self, key: &str) -> Option<&Secret<String>> {
        let found = self.properties.iter().rfind(|(known, _)| known == key);
        found.map(|(_, value)| value)
    }

    /// Gives all other properties to a client; returns the keys that it does not know.
    pub(crate) fn apply(&self, builder: &mut SettingsBuilder) -> anyhow::Result<Vec<&str>> {
        let mut unknown = Vec::new();
        for (key, value) in self.properties.iter().filter(|(key, _)| key != BROKERS) {
            let is_known = builder.set_known(key, value.expose());
            if !is_known.map_err(|error| self.blamed(error))? {
                unknown.push(key.as_str());
            }
        }
        Ok(unknown)
    }

    /// Returns the warning about keys that are unknown.
    pub(crate) fn without_meaning(&self, keys: &[&str]) -> String {
        let keys = keys.iter().map(|key| shown(key));
        let keys: Vec<_> = keys.collect();
        let path = self.path.display();
        format!(
            "{path}: no effect, for this client does not know them: {}",
            keys.join(", ")
        )
    }

    /// Adds the file to the error of a property that it may have.
    pub(crate) fn blamed(&self, error: ClientError) -> anyhow::Error {
        let is_property = matches!(error, ClientError::Invalid { .. });
        if self.properties.is_empty() || !is_property {
            return error.into();
        }
        anyhow::Error::new(error).context(self.path.display().to_string())
    }
}

impl fmt::Debug for CommandConfig {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = to.debug_struct("CommandConfig");
        shown.field("path", &self.path).finish_non_exhaustive()
    }
}

/// Returns a key as messages show it: what is no name of a property may be half of a password that
/// has a line of its own.
fn shown(key: &str) -> &str {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    if key.len() <= SHOWN_KEY_MAX && key.contains('.') && key.bytes().all(is_name) {
        key
    } else {
        "a line without the name of a property"
    }
}

/// Returns keys and values; fails with the number of the line, from 1, whose escapes are none.
fn properties(text: &str) -> Result<Vec<(String, String)>, usize> {
    let mut found = Vec::new();
    let mut lines = text.lines().zip(1_usize..);
    while let Some((line, number)) = lines.next() {
        let line = line.trim_start();
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        let mut whole = line.to_owned();
        while goes_on(&whole) {
            whole.pop();
            let next = lines.next().map_or("", |(next, _)| next);
            whole.push_str(next.trim_start());
        }
        let (key, value) = divided(&whole);
        let pair = unescaped(key).zip(unescaped(value));
        found.push(pair.ok_or(number)?);
    }
    Ok(found)
}

/// Returns true if a line ends with a backslash that is not itself escaped.
fn goes_on(line: &str) -> bool {
    let bare = line.trim_end_matches('\\');
    (line.len() - bare.len()) % 2 == 1
}

/// Divides a line at the first sign or space that is not escaped.
fn divided(line: &str) -> (&str, &str) {
    let mut is_escaped = false;
    let end = line.find(|letter: char| {
        let ends = !is_escaped && (matches!(letter, '=' | ':') || letter.is_ascii_whitespace());
        is_escaped = letter == '\\' && !is_escaped;
        ends
    });
    let (key, rest) = line.split_at(end.unwrap_or(line.len()));
    let rest = rest.trim_start();
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (key, value.trim_start())
}

/// Returns a text without its escapes; `None` if one is no character. Escapes are UTF-16: two
/// surrogates make one character.
fn unescaped(text: &str) -> Option<String> {
    let mut units = Vec::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        let plain = match letter {
            '\\' => match letters.next() {
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('f') => '\u{c}',
                Some('u') => {
                    units.push(unit(&mut letters)?);
                    continue;
                }
                Some(other) => other,
                None => break,
            },
            plain => plain,
        };
        units.extend(plain.encode_utf16(&mut [0; 2]).iter());
    }
    String::from_utf16(&units).ok()
}

fn unit(letters: &mut Chars<'_>) -> Option<u16> {
    (0..4).try_fold(0, |unit, _| {
        let digit = u16::try_from(letters.next()?.to_digit(16)?).ok()?;
        Some(unit << 4 | digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(key: &str, value: &str) -> (String, String) {
        (key.to_owned(), value.to_owned())
    }

    #[test]
    fn lines_are_read_as_java_reads_them() {
        let text = "# a comment\n! another\n\n  a=b \nc : d\ne f g\nlonely\n\\=x\\:y = z\n";
        let wanted = [
            pair("a", "b "),
            pair("c", "d"),
            pair("e", "f g"),
            pair("lonely", ""),
            pair("=x:y", "z"),
        ];
        assert_eq!(properties(text).unwrap(), wanted);
    }

    #[test]
    fn a_line_goes_on_and_signs_are_escaped() {
        let text = "jaas=Module required \\\n    username=\"ada\" \\\n  password=\"a\\\\b\";\nb=\\u0041\\t";
        let wanted = [
            pair(
                "jaas",
                "Module required username=\"ada\" password=\"a\\b\";",
            ),
            pair("b", "A\t"),
        ];
        assert_eq!(properties(text).unwrap(), wanted);
        assert_eq!(properties("a=b\\").unwrap(), [pair("a", "b")]);
        assert_eq!(
            properties("a=b\\\\\nc=d").unwrap(),
            [pair("a", "b\\"), pair("c", "d")]
        );
    }

    #[test]
    fn an_escape_that_is_no_character_is_no_other_password() {
        assert_eq!(
            properties("a=\\uD83D\\uDE00").unwrap(),
            [pair("a", "\u{1f600}")]
        );
        for wrong in ["\\uD83D", "\\u00", "\\u00zz", "\\u+041"] {
            assert_eq!(properties(&format!("#\na={wrong}")), Err(2), "{wrong}");
        }
    }

    fn config(text: &str) -> CommandConfig {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("client.properties");
        std::fs::write(&path, text).unwrap();
        CommandConfig::read(&path).unwrap()
    }

    #[test]
    fn what_is_unknown_is_named_and_no_secret() {
        let config = config(
            "bootstrap.servers=a:1\nbootstrap.servers=b:1\nkey.serializer=x\nrequest.timeout.ms=5\n\
             hunter2\npassword=\"hunter2\"\n",
        );
        assert_eq!(config.brokers(), Some("b:1"));
        let mut builder = SettingsBuilder::new("c:1").unwrap();
        let unknown = config.apply(&mut builder).unwrap();
        assert_eq!(unknown, ["key.serializer", "hunter2", "password"]);
        let told = config.without_meaning(&unknown);
        assert!(told.contains("client.properties: "), "{told}");
        assert!(
            told.contains("key.serializer") && !told.contains("hunter2"),
            "{told}"
        );
        let settings = builder.finish().unwrap().client;
        assert_eq!(settings.bootstrap, [("c".to_owned(), 1)]);
        assert_eq!(settings.request_timeout.as_millis(), 5);
        assert!(!format!("{config:?}").contains("hunter2"));
    }

    #[test]
    fn an_error_names_the_file_and_the_property() {
        let mut builder = SettingsBuilder::new("c:1").unwrap();
        let config = config("request.timeout.ms=soon\n");
        let error = config.apply(&mut builder);
        let error = format!("{:#}", error.unwrap_err());
        assert!(
            error.contains("client.properties: request.timeout.ms: "),
            "{error}"
        );
        let missing = CommandConfig::read(Path::new("/nowhere/c")).unwrap_err();
        assert!(missing.to_string().contains("/nowhere/c"), "{missing}");
    }
}
