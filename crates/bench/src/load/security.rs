//! How the generator reaches a broker that asks for TLS or a login.
//!
//! A load names a file of properties as Kafka's tools take it, never a password, because loads are
//! written into results and sent to other hosts: each host has its own file. What the properties
//! mean is `client`'s to say.

use std::collections::BTreeSet;
use std::fs::File;
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
        let bytes = File::open(path).and_then(|file| bounded::stream(file, FILE_BYTES_MAX));
        let bytes = Secret::new(bytes.with_context(named)?);
        let properties = each_property(bytes.expose()).with_context(named)?;
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
}
