//! How the generator reaches a broker that asks for TLS or a login.
//!
//! A load names a file of properties as Kafka's tools take it, never a password, because loads are
//! written into results and sent to other hosts: each host has its own file. What the properties
//! mean is `client`'s to say.

use std::collections::BTreeSet;
use std::fs::{File, Metadata};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::Context as _;
use client::settings::{GivenProperty, Login, Tls, each_property, warning_of_utf8};
use client::{ClientError, SettingsBuilder};
use platform::bounded;
use wire::sasl::Secret;

/// The longest file of properties.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The properties that name the brokers, in Java and in librdkafka; a load has them elsewhere.
const BROKERS: [&str; 2] = ["bootstrap.servers", "metadata.broker.list"];

/// Properties that are or have a password or a key, beside those that end so.
const SECRETS: [&str; 3] = ["sasl.jaas.config", "ssl.keystore.key", "ssl.key.pem"];
/// Bits of a file's mode that let others than its owner read it.
const READ_BY_OTHERS: u32 = 0o044;

/// What connections are made with; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Security {
    pub(super) tls: Option<Tls>,
    pub(super) login: Option<Login>,
}

impl Security {
    /// Opens the file that a load names; without one there is neither TLS nor a login. Blocks.
    pub fn open(file: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = file else {
            return Ok(Self::default());
        };
        let named = || path.display().to_string();
        let file = File::open(path).with_context(named)?;
        let metadata = file.metadata().with_context(named)?;
        let bytes = bounded::stream(file, FILE_BYTES_MAX).with_context(named)?;
        let bytes = Secret::new(bytes);
        let properties = each_property(bytes.expose()).with_context(named)?;
        if let Some(warning) = open_to_others(&metadata, &properties) {
            say_once(&format!("{}: {warning}", path.display()));
        }
        if let Some(warning) = warning_of_utf8(bytes.expose()) {
            say_once(&format!("{}: {warning}", path.display()));
        }
        Self::of(&properties).with_context(named)
    }

    fn of(properties: &[GivenProperty]) -> Result<Self, ClientError> {
        // The load names the brokers.
        let mut builder = SettingsBuilder::new("none:1")?;
        for one in properties
            .iter()
            .filter(|one| !BROKERS.contains(&one.key.as_str()))
        {
            // What is about other things than TLS and logins is in such files, too.
            builder.set_known(&one.key, one.value.expose())?;
        }
        let settings = builder.finish()?;
        for warning in &settings.warnings {
            say_once(warning);
        }
        Ok(Self {
            tls: settings.client.tls,
            login: settings.client.login,
        })
    }

    /// Returns true if connections are encrypted.
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }
}

/// Returns the warning about a file with a password that others than its owner may read; a pipe has
/// no readers but one.
fn open_to_others(metadata: &Metadata, properties: &[GivenProperty]) -> Option<String> {
    let mode = metadata.permissions().mode() & 0o777;
    let is_secret =
        |one: &GivenProperty| one.key.ends_with(".password") || SECRETS.contains(&one.key.as_str());
    if !metadata.is_file() || mode & READ_BY_OTHERS == 0 || !properties.iter().any(is_secret) {
        return None;
    }
    Some(format!(
        "others than its owner may read this password (mode {mode:04o}): chmod 600"
    ))
}

/// Shows a warning once: a load opens its file for its topics, for itself and for a check.
fn say_once(warning: &str) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if said.insert(warning.to_owned()) {
        eprintln!("forebay: {}", wire::text::EscapedText(warning));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_how_to_connect_and_no_error_shows_a_password() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("client.properties");
        let open = |text: &str| {
            std::fs::write(&path, text).unwrap();
            Security::open(Some(&path))
        };
        let login = open(
            "bootstrap.servers=a:1\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n\
             sasl.username=ada\nsasl.password=hunter2\nkey.serializer=x\n",
        );
        let login = login.unwrap();
        assert!(login.tls.is_none() && login.login.is_some());
        assert!(!format!("{login:?}").contains("hunter2"));
        let wrong = open("security.protocol=SASL_PLAINTEXT\nsasl.password=hunter2\n").unwrap_err();
        let wrong = format!("{wrong:#}");
        assert!(
            wrong.contains("client.properties: sasl.mechanism"),
            "{wrong}"
        );
        assert!(!wrong.contains("hunter2"));
        assert!(Security::open(Some(Path::new("/nowhere"))).is_err());
        assert!(Security::open(None).unwrap().login.is_none());
    }

    #[test]
    fn a_file_with_a_password_that_others_may_read_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("client.properties");
        let told = |text: &str, mode: u32| {
            std::fs::write(&path, text).unwrap();
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&path, permissions).unwrap();
            let properties = each_property(text.as_bytes()).unwrap();
            open_to_others(&std::fs::metadata(&path).unwrap(), &properties)
        };
        for login in [
            "sasl.password=hunter2\n",
            "sasl.jaas.config=M required p=hunter2;\n",
        ] {
            let warning = told(login, 0o640).unwrap();
            assert!(
                warning.contains("chmod 600") && !warning.contains("hunter2"),
                "{warning}"
            );
            assert_eq!(told(login, 0o600), None);
        }
        assert_eq!(told("security.protocol=SSL\n", 0o644), None);
    }
}
