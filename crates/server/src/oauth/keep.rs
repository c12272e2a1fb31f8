//! The set of keys that is in force for one listener, and how it follows its file or its URL.
//!
//! A file is looked at every `ssl.reload.interval.ms` and read when it changed; a URL is asked
//! every `sasl.oauthbearer.jwks.endpoint.refresh.ms`, and after a failure at growing pauses. Both
//! are read at once at SIGHUP, and when a token names a key that the set does not have: once a
//! minute for each such name (as in Kafka), and for all names together once in ten seconds, so that
//! strangers cannot send this broker to the provider as often as they like.
//!
//! Invariants: a set that could not be read leaves the one before in force, which is logged and
//! counted. Nothing here runs on a shard but [`KeySource::current`] and
//! [`KeySource::note_missing`], which do not wait.

mod missing;
mod place;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use client::Tls;
use client::http::{self, HttpBounds, HttpContent, HttpUrl};
use platform::bounded;
use tls::watch::{FileStamp, StoreWatch};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep};
use wire::sasl::Secret;

use super::keys::{KeySet, SET_BYTES_MAX};
use crate::metrics::OauthMetrics;
use crate::wall::{milliseconds, wall_ms};
use missing::MissingKeys;
pub use place::KeyPlace;

/// How long a provider may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Least time between two questions to it, whatever the settings say.
const PAUSE_MIN: Duration = Duration::from_millis(10);

/// Where the keys are, and how often they are read.
#[derive(Clone, Debug)]
pub(crate) struct SourceSettings {
    /// The listener whose clients have the tokens.
    pub(crate) listener: Arc<str>,
    /// The full name of the setting that names the place.
    pub(crate) setting: String,
    /// The place.
    pub(crate) place: KeyPlace,
    /// Time between two questions to a URL.
    pub(crate) refresh: Duration,
    /// The pause after a first failure, and the longest after more of them.
    pub(crate) retry: (Duration, Duration),
    /// Time between two looks at a file; zero for never.
    pub(crate) look: Duration,
    /// Properties of TLS for a URL (`ssl.*` of the JAAS line).
    // Bounded: `wire::sasl::jaas::TEXT_BYTES_MAX`.
    pub(crate) tls: Vec<(String, Secret<String>)>,
}

/// The keys of one listener.
#[derive(Debug)]
pub(crate) struct KeySource {
    settings: SourceSettings,
    current: RwLock<Option<InForce>>,
    missing: Mutex<MissingKeys>,
    /// A token has named a key that may be in a newer set.
    wanted: Notify,
    metrics: OauthMetrics,
}

/// A set in force, with the digest of its text.
#[derive(Debug)]
struct InForce {
    digest: Vec<u8>,
    set: Arc<KeySet>,
}

/// Why there is a reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cause {
    /// The time has come.
    Due,
    /// A token has named another key.
    Wanted,
    /// The operator asks.
    Asked,
}

impl KeySource {
    pub(crate) fn new(settings: SourceSettings, metrics: OauthMetrics) -> Self {
        Self {
            settings,
            current: RwLock::default(),
            missing: Mutex::default(),
            wanted: Notify::new(),
            metrics,
        }
    }

    pub(crate) fn listener(&self) -> &Arc<str> {
        &self.settings.listener
    }

    /// Returns the set in force; `None` if there is none yet.
    pub(super) fn current(&self) -> Option<Arc<KeySet>> {
        let current = self.current.read();
        let current = current.unwrap_or_else(PoisonError::into_inner);
        current.as_ref().map(|current| Arc::clone(&current.set))
    }

    /// Returns true if there is a set.
    pub(crate) fn has_keys(&self) -> bool {
        self.current().is_some()
    }

    /// Notes that a token names a key which the set does not have.
    pub(super) fn note_missing(&self, id: &str) {
        let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        if missing.is_worth_asking(id, std::time::Instant::now()) {
            self.wanted.notify_one();
        }
    }

    /// Reads a file and opens what TLS needs, so that what is wrong with them refuses the start. A
    /// provider is asked later: it may be down while this broker starts. Blocks.
    pub(crate) fn open(&self) -> anyhow::Result<()> {
        let (setting, place) = (&self.settings.setting, &self.settings.place);
        let wrong = |why: String| anyhow::anyhow!("{setting}={place}: {why}");
        match place {
            KeyPlace::File(_) => {
                let bytes = self.settings.read_file().map_err(wrong)?;
                self.take(&bytes).map(|_| ()).map_err(wrong)
            }
            KeyPlace::Url(_) => self.settings.open_tls().map(|_| ()).map_err(wrong),
        }
    }

    /// Reads what [`Self::open`] reads, and puts nothing in force; returns the setting and what is
    /// wrong. Blocks.
    pub(crate) fn look(&self) -> Result<(), (&str, String)> {
        let looked = match &self.settings.place {
            KeyPlace::File(_) => self.settings.read_file().and_then(|bytes| {
                let set = KeySet::parse(&bytes);
                set.map(|_| ()).map_err(|problem| problem.to_string())
            }),
            KeyPlace::Url(_) => self.settings.open_tls().map(|_| ()),
        };
        looked.map_err(|why| {
            (
                &*self.settings.setting,
                format!("{}: {why}", self.settings.place),
            )
        })
    }

    /// Returns the file of the keys, if they are in one.
    pub(crate) fn file(&self) -> Option<&Path> {
        match &self.settings.place {
            KeyPlace::File(path) => Some(path),
            KeyPlace::Url(_) => None,
        }
    }

    /// Keeps the set as it is at its place, until all senders of `asked` are gone.
    pub(crate) async fn keep(self: Arc<Self>, asked: mpsc::Receiver<()>) {
        match self.settings.place.clone() {
            KeyPlace::File(path) => self.keep_file(&path, asked).await,
            KeyPlace::Url(url) => self.keep_url(&url, asked).await,
        }
    }

    async fn keep_file(&self, path: &Path, mut asked: mpsc::Receiver<()>) {
        let since = Instant::now();
        let now = || milliseconds(since.elapsed());
        let every = Some(self.settings.look).filter(|every| !every.is_zero());
        // What changed before this look is read once more.
        let every_ms = every.map_or(0, milliseconds);
        let mut watch = StoreWatch::new(every_ms, Vec::new(), now(), wall_ms());
        let mut failed = None;
        while let Some(cause) = self.wait(every, &mut asked).await {
            let path = path.to_owned();
            let stamp = tokio::task::spawn_blocking(move || FileStamp::of(&path)).await;
            let Ok(stamp) = stamp else { return };
            if !watch.look(vec![stamp], now(), wall_ms()) && cause == Cause::Due {
                continue;
            }
            let settings = self.settings.clone();
            let bytes = tokio::task::spawn_blocking(move || settings.read_file()).await;
            let Ok(bytes) = bytes else { return };
            if !self.follow(&mut failed, bytes, cause) {
                watch.note_failure();
            }
        }
    }

    async fn keep_url(&self, url: &HttpUrl, mut asked: mpsc::Receiver<()>) {
        let (first, longest) = self.settings.retry;
        let (mut failed, mut retry) = (None, first);
        let mut pause = Duration::ZERO;
        while let Some(cause) = self.wait(Some(pause), &mut asked).await {
            let bytes = self.settings.ask(url).await;
            pause = if self.follow(&mut failed, bytes, cause) {
                retry = first;
                self.settings.refresh
            } else {
                let pause = retry.min(longest);
                retry = pause.saturating_mul(2);
                pause
            };
            pause = pause.max(PAUSE_MIN);
        }
    }

    /// Waits for a cause to read; `None` when there will be none any more.
    async fn wait(&self, pause: Option<Duration>, asked: &mut mpsc::Receiver<()>) -> Option<Cause> {
        let due = async {
            match pause {
                Some(pause) => sleep(pause).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            asked = asked.recv() => asked.map(|()| Cause::Asked),
            () = self.wanted.notified() => Some(Cause::Wanted),
            () = due => Some(Cause::Due),
        }
    }

    /// Takes what was read, or says why it is not taken; returns true if it was. `failed` has why
    /// the attempt before failed.
    fn follow(
        &self,
        failed: &mut Option<String>,
        bytes: Result<Vec<u8>, String>,
        cause: Cause,
    ) -> bool {
        let taken = bytes.and_then(|bytes| self.take(&bytes));
        let listener = &*self.settings.listener;
        match taken {
            Ok(is_new) => {
                if failed.take().is_some() {
                    tracing::info!(listener, place = %self.settings.place,
                        "the keys of the identity provider can be read again");
                } else if cause == Cause::Asked && !is_new {
                    tracing::info!(listener, place = %self.settings.place,
                        "the keys of the identity provider are those in force already");
                }
                true
            }
            Err(why) => {
                self.metrics.read_failed(&self.settings.listener);
                if cause == Cause::Asked || failed.as_ref() != Some(&why) {
                    let kept = if self.current().is_some() {
                        "those before stay in force"
                    } else {
                        "until they are, no client of OAUTHBEARER logs in"
                    };
                    tracing::error!(listener, place = %self.settings.place, reason = %why,
                        "the keys of the identity provider are not read: {kept}");
                }
                *failed = Some(why);
                false
            }
        }
    }

    /// Puts a set in force; returns false if it is already.
    fn take(&self, bytes: &[u8]) -> Result<bool, String> {
        let set = KeySet::parse(bytes).map_err(|problem| problem.to_string())?;
        let listener = &self.settings.listener;
        self.metrics.read(listener, set.len(), wall_ms() / 1000);
        assert!(!set.is_empty(), "a set has keys");
        let digest = digest(&SHA256, bytes).as_ref().to_vec();
        let (keys, left_out) = (set.len(), set.left_out());
        let left_out_names = set.left_out_names();
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if current
            .as_ref()
            .is_some_and(|current| current.digest == digest)
        {
            return Ok(false);
        }
        let set = Arc::new(set);
        *current = Some(InForce { digest, set });
        drop(current);
        tracing::info!(%listener, place = %self.settings.place, keys, left_out,
            left_out_names, "keys of an identity provider are in force");
        Ok(true)
    }
}

impl SourceSettings {
    fn read_file(&self) -> Result<Vec<u8>, String> {
        let KeyPlace::File(path) = &self.place else {
            return Err("it is no file".to_owned());
        };
        let bytes = bounded::file(path, SET_BYTES_MAX as u64);
        bytes.map_err(|error| format!("it cannot be read: {error}"))
    }

    fn open_tls(&self) -> Result<Option<Tls>, String> {
        let is_tls = matches!(&self.place, KeyPlace::Url(url) if url.is_tls());
        if !is_tls {
            return Ok(None);
        }
        let properties = self.tls.iter();
        let properties = properties.map(|(name, value)| (name.as_str(), value.expose().as_str()));
        let tls = Tls::of_properties(properties);
        tls.map(Some).map_err(|error| error.to_string())
    }

    async fn ask(&self, url: &HttpUrl) -> Result<Vec<u8>, String> {
        // Its files may have changed.
        let settings = self.clone();
        let tls = tokio::task::spawn_blocking(move || settings.open_tls()).await;
        let tls = tls.map_err(|error| error.to_string())??;
        let bounds = HttpBounds {
            body_bytes_max: SET_BYTES_MAX,
            deadline: Instant::now() + ANSWER_MAX,
        };
        let answer = http::ask(url, &HttpContent::Get, tls.as_ref(), bounds).await;
        answer.map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests;
