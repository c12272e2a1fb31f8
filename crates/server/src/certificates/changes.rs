//! Stores of listeners that clients change while the broker runs: which settings follow, and
//! whether a listener could go on serving with them.
//!
//! A value that a client has set for a listener stands before all values of the start. Files are
//! read on a thread of their own, one check at a time and with a deadline, so a disk that hangs
//! holds one thread and no client. Not here: what the metadata say, and taking a set in force.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use broker::listener_stores::{ListenerStores, PendingStoreCheck, StoreValues};
use platform::task::elsewhere;
use tls::reload::{self, ReloadVerdict};
use tls::{Opened, Password, ServerTls, ServerTlsSettings, Setting};
use tokio::sync::{Semaphore, mpsc, watch};

/// How long a client waits for the check of its values.
const CHECK_MAX: Duration = Duration::from_secs(10);

/// Checks values for the stores of listeners.
#[derive(Clone, Debug)]
pub(crate) struct StoreChanges {
    // Bounded: one for each of `listeners`.
    listeners: Arc<[CheckedListener]>,
    /// Asks for all files to be read again. One that waits stands for all that come meanwhile.
    again: mpsc::Sender<()>,
    /// Held while files are read.
    reading: Arc<Semaphore>,
}

/// What a listener of TLS was started with, and what it serves with.
#[derive(Clone, Debug)]
pub(super) struct CheckedListener {
    /// Its name, as names of settings have it.
    pub(super) lower: String,
    pub(super) given: ServerTlsSettings,
    pub(super) in_force: watch::Receiver<Arc<ServerTls>>,
}

impl StoreChanges {
    /// Returns the checks of `listeners`, and what receives the wish that files be read again.
    pub(super) fn of(listeners: Vec<CheckedListener>) -> (Self, mpsc::Receiver<()>) {
        let (again, asked) = mpsc::channel(1);
        let changes = Self {
            listeners: listeners.into(),
            again,
            reading: Arc::new(Semaphore::new(1)),
        };
        (changes, asked)
    }
}

impl ListenerStores for StoreChanges {
    fn check(&self, listener: &str, values: StoreValues) -> PendingStoreCheck {
        let mut listeners = self.listeners.iter();
        let Some(one) = listeners.find(|one| one.lower == listener) else {
            return Box::pin(std::future::ready(Ok(())));
        };
        let (one, reading) = (one.clone(), Arc::clone(&self.reading));
        Box::pin(async move {
            let checked = tokio::time::timeout(CHECK_MAX, async {
                let turn = reading.acquire_owned().await.ok()?;
                elsewhere(move || {
                    let _turn = turn;
                    one.check(&values)
                })
                .await
            });
            match checked.await {
                Ok(Some(verdict)) => verdict,
                Ok(None) => Err("the broker is stopping".into()),
                Err(_) => Err("the files were not read in time: their disk may hang".into()),
            }
        })
    }

    fn read_again(&self) {
        // One that waits already stands for this one, too.
        let _ = self.again.try_send(());
    }
}

impl CheckedListener {
    /// Says why the listener could not go on serving with these values. Reads files, so it blocks.
    fn check(&self, values: &StoreValues) -> Result<(), String> {
        let settings = with_values(&self.given, &self.lower, values);
        if !has_trust(&self.given) && has_trust(&settings) {
            return Err(
                "Cannot add SSL truststore to an existing listener for which no truststore was \
                 configured."
                    .into(),
            );
        }
        let Opened { tls, .. } = ServerTls::open(&settings).map_err(|it| it.to_string())?;
        let before = self.in_force.borrow().clone();
        match reload::decide(&before, &tls, settings.allowed_changes) {
            ReloadVerdict::Same | ReloadVerdict::Take => Ok(()),
            ReloadVerdict::Keep(why) => Err(why),
        }
    }
}

fn has_trust(settings: &ServerTlsSettings) -> bool {
    let stores = &settings.stores;
    stores.truststore_location.is_some() || stores.truststore_certificates.is_some()
}

/// Returns the settings of a listener with the values that clients have set for it.
///
/// An empty value is none, and hides that of the start.
pub(super) fn with_values(
    given: &ServerTlsSettings,
    lower: &str,
    values: &StoreValues,
) -> ServerTlsSettings {
    let mut settings = given.clone();
    if values.is_empty() {
        return settings;
    }
    let stores = &mut settings.stores;
    stores.prefix = format!("listener.name.{lower}.");
    for (setting, value) in values {
        let name = format!("{}{setting}", stores.prefix);
        let text = value.expose().trim();
        let is_given = !text.is_empty();
        let plain = || Setting::new(name.clone(), text.to_owned());
        let path = || Setting::new(name.clone(), PathBuf::from(text));
        let secret = || Setting::new(name.clone(), Password::new(text));
        match *setting {
            "ssl.keystore.type" => stores.keystore_type = is_given.then(plain),
            "ssl.keystore.location" => stores.keystore_location = is_given.then(path),
            // A store may have an empty password.
            "ssl.keystore.password" => stores.keystore_password = Some(secret()),
            "ssl.key.password" => stores.key_password = is_given.then(secret),
            "ssl.keystore.key" => stores.keystore_key = is_given.then(secret),
            "ssl.keystore.certificate.chain" => {
                stores.keystore_certificate_chain = is_given.then(secret);
            }
            "ssl.truststore.type" => stores.truststore_type = is_given.then(plain),
            "ssl.truststore.location" => stores.truststore_location = is_given.then(path),
            "ssl.truststore.password" => stores.truststore_password = Some(secret()),
            "ssl.truststore.certificates" => {
                stores.truststore_certificates = is_given.then(secret);
            }
            other => unreachable!("{other} is none of STORE_SETTINGS"),
        }
    }
    settings
}

#[cfg(test)]
mod tests;
