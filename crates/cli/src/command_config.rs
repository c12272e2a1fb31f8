//! A file of properties as Kafka's tools take it (`--command-config`): who the client is, times,
//! bounds.
//!
//! It is read as Java reads it ([`each_property`]); a file that seems to be UTF-8 gets a warning.
//!
//! Invariant: no message shows a value, which may be a password, nor a key that looks like a part
//! of one. Not here: how lines are read and what properties mean (`client`).

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use client::settings::{GivenProperty, each_property, warning_of_utf8};
use client::{ClientError, SettingsBuilder};
use platform::bounded;
use wire::sasl::Secret;

use crate::secrecy::open_to_others;

/// The longest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The longest key that is shown.
const SHOWN_KEY_MAX: usize = 100;
/// The property that names the brokers, in Java and in librdkafka; options and profiles have a say
/// in it.
const BROKERS: [&str; 2] = ["bootstrap.servers", "metadata.broker.list"];

/// The properties of a file; none without a file.
#[derive(Default)]
pub(crate) struct CommandConfig {
    path: PathBuf,
    properties: Vec<GivenProperty>,
    warnings: Vec<String>,
}

impl CommandConfig {
    /// Reads a file.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let named = || path.display().to_string();
        // A pipe, too: shells make one of what another program prints.
        let file = File::open(path).with_context(named)?;
        let metadata = file.metadata().with_context(named)?;
        let bytes = Secret::new(bounded::stream(file, FILE_BYTES_MAX).with_context(named)?);
        let properties = each_property(bytes.expose()).with_context(named)?;
        let mut warnings = Vec::new();
        if let Some(warning) = warning_of_utf8(bytes.expose()) {
            warnings.push(format!("{}: {warning}", path.display()));
        }
        if properties.iter().any(|one| is_secret(&one.key)) {
            warnings.extend(open_to_others(path, &metadata));
        }
        Ok(Self {
            path: path.to_owned(),
            properties,
            warnings,
        })
    }

    /// Returns the brokers that the file names.
    pub(crate) fn brokers(&self) -> Option<&str> {
        let mut all = self.properties.iter();
        let found = all.rfind(|one| BROKERS.contains(&one.key.as_str()));
        found.map(|one| one.value.expose().as_str())
    }

    /// Returns what is to say about the file itself.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the value of a property; the last counts.
    pub(crate) fn value(&self, key: &str) -> Option<&Secret<String>> {
        let found = self.properties.iter().rfind(|one| one.key == key);
        found.map(|one| &one.value)
    }

    /// Gives all other properties to a client; returns the keys that it does not know.
    pub(crate) fn apply(&self, builder: &mut SettingsBuilder) -> anyhow::Result<Vec<&str>> {
        let mut unknown = Vec::new();
        let all = self.properties.iter();
        for one in all.filter(|one| !BROKERS.contains(&one.key.as_str())) {
            let is_known = builder.set_known(&one.key, one.value.expose());
            if !is_known.map_err(|error| self.blamed(error))? {
                unknown.push(one.key.as_str());
            }
        }
        Ok(unknown)
    }

    /// Returns the warning about keys that are unknown.
    pub(crate) fn without_meaning(&self, keys: &[&str]) -> String {
        let keys: Vec<_> = keys.iter().map(|key| self.shown(key)).collect();
        let path = self.path.display();
        format!(
            "{path}: no effect, for this client does not know them: {}",
            keys.join(", ")
        )
    }

    /// Returns a key as messages show it: what is no name of a property, or has no value, may be
    /// half of a password that has a line of its own. Of that the line is named.
    fn shown(&self, key: &str) -> String {
        let Some(one) = self.properties.iter().find(|one| one.key == key) else {
            return "a line without the name of a property".to_owned();
        };
        let is_of_names =
            |byte: u8| byte.is_ascii_lowercase() || matches!(byte, b'.' | b'-' | b'_');
        let is_name =
            key.len() <= SHOWN_KEY_MAX && key.contains('.') && key.bytes().all(is_of_names);
        if is_name && !one.value.expose().is_empty() {
            key.to_owned()
        } else {
            format!("line {}", one.line)
        }
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

/// Returns true for a property whose value is a password or a key.
fn is_secret(key: &str) -> bool {
    let keys = ["sasl.jaas.config", "ssl.keystore.key", "ssl.key.pem"];
    key.ends_with(".password") || keys.contains(&key)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_that_seems_to_be_utf8_is_told_by_its_line() {
        let told = config("a=1\nsasl.password=caf\u{e9}\n").warnings;
        let told = told.iter().find(|told| told.contains("UTF-8")).unwrap();
        assert!(told.contains("line 2") && !told.contains("caf"), "{told}");
    }

    #[test]
    fn a_file_with_a_password_that_others_may_read_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("client.properties");
        let warnings = |text: &str, mode: u32| {
            std::fs::write(&path, text).unwrap();
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&path, permissions).unwrap();
            CommandConfig::read(&path).unwrap().warnings
        };
        let login = "sasl.jaas.config=Module required password=hunter2;\n";
        let told = warnings(login, 0o640);
        assert!(
            told[0].contains("chmod 600") && !told[0].contains("hunter2"),
            "{told:?}"
        );
        assert_eq!(warnings(login, 0o600), [""; 0]);
        assert_eq!(warnings("security.protocol=SSL\n", 0o644), [""; 0]);
    }

    #[test]
    fn no_brokers_of_the_file_come_before_those_of_the_command() {
        let config = config("metadata.broker.list=a:1\n");
        assert_eq!(config.brokers(), Some("a:1"));
        let mut builder = SettingsBuilder::new("c:1").unwrap();
        assert_eq!(config.apply(&mut builder).unwrap(), [""; 0]);
        let settings = builder.finish().unwrap().client;
        assert_eq!(settings.bootstrap, [("c".to_owned(), 1)]);
    }

    #[test]
    fn half_a_password_is_named_by_its_line() {
        let config = config("key.serializer=x\nhorse.battery\nPas5.word=x\n");
        let told = config.without_meaning(&["key.serializer", "horse.battery", "Pas5.word"]);
        assert!(told.ends_with("key.serializer, line 2, line 3"), "{told}");
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
