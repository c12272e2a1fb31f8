//! Names and passwords (RFC 7617): users of SCRAM in the metadata, and of PLAIN in the settings.
//!
//! A password of SCRAM takes thousands of keyed hashes to verify, so one thread beside the shards
//! does that, one login at a time, and a password that was right is known for a minute by a keyed
//! hash of it. It is forgotten at once when the user's credential changes. A name of PLAIN stands
//! before the same name of SCRAM. Invariants: a login takes one derivation for each mechanism of
//! SCRAM, whether the user has it, both, or does not exist; no password is kept.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use broker::image::ScramTable;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use wire::acl::Principal;
use wire::sasl::Secret;
use wire::sasl::plain::{self, MESSAGE_BYTES_MAX};
use wire::sasl::scram::{CLIENT_ITERATIONS_MAX, ITERATIONS_MIN, Keys, ScramHash, salted_password};

use super::Failure;
use crate::rights::RightsImage;

/// How long a password that was right is known.
const KNOWN_FOR: Duration = Duration::from_mins(1);

/// Most passwords that are known.
const KNOWN_MAX: usize = 256;

/// A keyed hash.
type Tag = [u8; 32];

/// The users, and what is known of their passwords.
pub(super) struct BasicLogins {
    key: hmac::Key,
    /// Tags of passwords of PLAIN, by name.
    // Bounded: the settings, `wire::sasl::jaas::TEXT_BYTES_MAX`.
    plain: BTreeMap<String, Tag>,
    /// Held by the one login whose password is being verified.
    turn: Arc<Semaphore>,
    // Bounded: `KNOWN_MAX`.
    known: Mutex<BTreeMap<Tag, RightPassword>>,
}

/// A password that was right.
#[derive(Clone, Debug)]
struct RightPassword {
    until: Instant,
    /// The credentials of the user at that time.
    stored: Vec<Secret<Vec<u8>>>,
}

/// A credential against which a password is verified.
struct Guess {
    hash: ScramHash,
    salt: Vec<u8>,
    iterations: u32,
    /// `None` for one that is there for the time that it takes.
    stored: Option<Secret<Vec<u8>>>,
}

impl BasicLogins {
    pub(super) fn new(users: &[(String, Secret<String>)]) -> Self {
        let random = SystemRandom::new();
        // Without random bytes the process has no TLS either, and is not worth running.
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &random).expect("random bytes");
        let tags = users.iter().map(|(name, password)| {
            let tag = tag(&key, &[b"plain", password.expose().as_bytes()]);
            (name.clone(), tag)
        });
        Self {
            plain: tags.collect(),
            key,
            turn: Arc::new(Semaphore::new(1)),
            known: Mutex::default(),
        }
    }

    /// Returns the principal of a name and a password as the header has them. Verifies nothing that
    /// takes long unless it `may_try`.
    pub(super) async fn verify(
        &self,
        given: &str,
        rights: Option<&RightsImage>,
        may_try: bool,
    ) -> Result<Principal, Failure> {
        let (name, password) = credentials(given)?;
        let is_right = if let Some(expected) = self.plain.get(&name) {
            let given = tag(&self.key, &[b"plain", password.expose().as_bytes()]);
            verify_slices_are_equal(&given, expected).is_ok()
        } else {
            let users = &rights.ok_or(Failure::Unknown)?.users;
            self.verify_scram(&name, password, users, may_try).await?
        };
        if is_right {
            Ok(Principal::user(&name))
        } else {
            Err(Failure::Credentials)
        }
    }

    async fn verify_scram(
        &self,
        name: &str,
        password: Secret<String>,
        users: &ScramTable,
        may_try: bool,
    ) -> Result<bool, Failure> {
        let guesses = self.guesses(users, name);
        let stored: Vec<_> = guesses.iter().filter_map(|it| it.stored.clone()).collect();
        let length = name.len().to_be_bytes();
        let parts: [&[u8]; 4] = [
            b"scram",
            &length,
            name.as_bytes(),
            password.expose().as_bytes(),
        ];
        let tag = tag(&self.key, &parts);
        if self.knows(&tag, &stored) {
            return Ok(true);
        }
        if !may_try {
            return Err(Failure::Crowded);
        }
        let turn = Arc::clone(&self.turn).acquire_owned().await;
        let turn = turn.map_err(|_| Failure::Unknown)?;
        let verifying = tokio::task::spawn_blocking(move || {
            // Held until the work is over, even if the client goes.
            let _turn = turn;
            // All of them, so that the time tells nothing.
            let right = guesses.iter().filter(|guess| guess.is_right(&password));
            right.count() > 0
        });
        let is_right = verifying.await.map_err(|_| Failure::Unknown)?;
        if is_right {
            self.learn(tag, stored);
        }
        Ok(is_right)
    }

    fn knows(&self, tag: &Tag, stored: &[Secret<Vec<u8>>]) -> bool {
        let known = self.known();
        let now = Instant::now();
        let found = known.get(tag);
        found.is_some_and(|known| known.until > now && known.stored == stored)
    }

    fn learn(&self, tag: Tag, stored: Vec<Secret<Vec<u8>>>) {
        let mut known = self.known();
        let now = Instant::now();
        if known.len() >= KNOWN_MAX {
            known.retain(|_, it| it.until > now);
        }
        if known.len() >= KNOWN_MAX {
            let oldest = known.iter().min_by_key(|(_, it)| it.until);
            let oldest = oldest.map(|(tag, _)| *tag);
            oldest.and_then(|tag| known.remove(&tag));
        }
        let until = now + KNOWN_FOR;
        known.insert(tag, RightPassword { until, stored });
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<Tag, RightPassword>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what a password of this user is verified against, one for each mechanism.
    fn guesses(&self, users: &ScramTable, name: &str) -> Vec<Guess> {
        let all = [ScramHash::Sha256, ScramHash::Sha512].into_iter();
        let each = all.map(|hash| {
            let real = guess(users, name, hash);
            real.unwrap_or_else(|| self.decoy(users, name, hash))
        });
        each.collect()
    }

    /// Returns what takes the place of a credential that there is not: it looks like another
    /// user's.
    fn decoy(&self, users: &ScramTable, name: &str, hash: ScramHash) -> Guess {
        let mut of_hash = users
            .values()
            .filter(|record| record.mechanism == hash.code());
        let iterations = of_hash.find_map(|record| iterations(record.iterations));
        let salt = tag(&self.key, &[b"salt", name.as_bytes()]);
        Guess {
            hash,
            salt: salt.to_vec(),
            iterations: iterations.unwrap_or(ITERATIONS_MIN),
            stored: None,
        }
    }
}

impl Guess {
    fn is_right(&self, password: &Secret<String>) -> bool {
        let salted = salted_password(self.hash, password, &self.salt, self.iterations);
        let keys = Keys::of_salted(self.hash, salted.expose());
        self.stored
            .as_ref()
            .is_some_and(|stored| keys.stored == *stored)
    }
}

/// Returns the credential of a user with which a password can be verified.
fn guess(users: &ScramTable, name: &str, hash: ScramHash) -> Option<Guess> {
    let record = users.get(&(name.to_owned(), hash.code()))?;
    let is_whole = record.stored_key.len() == hash.bytes();
    is_whole.then_some(Guess {
        hash,
        salt: record.salt.to_vec(),
        iterations: iterations(record.iterations)?,
        stored: Some(Secret::new(record.stored_key.to_vec())),
    })
}

/// Returns a number of iterations that is worth the time: who stores a credential decides how long
/// each login takes.
fn iterations(stored: i32) -> Option<u32> {
    let iterations = u32::try_from(stored).ok()?;
    (ITERATIONS_MIN..=CLIENT_ITERATIONS_MAX)
        .contains(&iterations)
        .then_some(iterations)
}

/// Reads what follows `Basic`.
pub(in crate::admin) fn credentials(given: &str) -> Result<(String, Secret<String>), Failure> {
    // Base64 is a third longer.
    if given.len() > 2 * MESSAGE_BYTES_MAX {
        return Err(Failure::Malformed);
    }
    let bytes = Secret::new(STANDARD.decode(given).map_err(|_| Failure::Malformed)?);
    credentials_of_text(bytes.expose())
}

/// Reads what that has encoded.
pub(in crate::admin) fn credentials_of_text(
    bytes: &[u8],
) -> Result<(String, Secret<String>), Failure> {
    let text = std::str::from_utf8(bytes).map_err(|_| Failure::Malformed)?;
    let (name, password) = text.split_once(':').ok_or(Failure::Malformed)?;
    let password = Secret::new(password.to_owned());
    plain::check(name, &password).map_err(|_| Failure::Malformed)?;
    Ok((name.to_owned(), password))
}

fn tag(key: &hmac::Key, parts: &[&[u8]]) -> Tag {
    let mut context = hmac::Context::with_key(key);
    for part in parts {
        context.update(part);
    }
    let mut tag = [0; 32];
    for (to, from) in tag.iter_mut().zip(context.sign().as_ref()) {
        *to = *from;
    }
    tag
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use wire::records::metadata::UserScramCredentialRecord;
    use wire::sasl::scram::Credential;

    fn table(users: &[(&str, &str, ScramHash)]) -> ScramTable {
        let row = |(name, password, hash): &(&str, &str, ScramHash)| {
            let secret = Secret::new((*password).to_owned());
            let made = Credential::derive(*hash, &secret, b"salty", 4096).unwrap();
            let record = UserScramCredentialRecord {
                name: (*name).into(),
                mechanism: hash.code(),
                salt: made.salt().to_vec().into(),
                stored_key: made.keys().stored.expose().clone().into(),
                server_key: made.keys().server.expose().clone().into(),
                iterations: 4096,
            };
            (((*name).to_owned(), hash.code()), record)
        };
        users.iter().map(row).collect()
    }

    fn rights(users: &[(&str, &str, ScramHash)]) -> RightsImage {
        RightsImage {
            acls: Arc::default(),
            users: Arc::new(table(users)),
        }
    }

    fn header(name: &str, password: &str) -> String {
        STANDARD.encode(format!("{name}:{password}"))
    }

    #[tokio::test]
    async fn a_user_of_scram_or_of_the_settings_is_known_by_the_password() {
        let ops = [("ops".to_owned(), Secret::new("p:w".to_owned()))];
        let logins = BasicLogins::new(&ops);
        let users = rights(&[
            ("ada", "pencil", ScramHash::Sha512),
            ("bob", "pen", ScramHash::Sha256),
            ("bob", "pen2", ScramHash::Sha512),
            ("ops", "other", ScramHash::Sha512),
        ]);
        for (name, password, expected) in [
            ("ada", "pencil", true),
            ("ada", "pencil", true),
            ("ada", "pencil ", false),
            ("bob", "pen", true),
            ("bob", "pen2", true),
            ("eve", "pencil", false),
            ("ops", "p:w", true),
            ("ops", "other", false),
        ] {
            let given = header(name, password);
            let verified = logins.verify(&given, Some(&users), true).await;
            let wanted = if expected {
                Ok(Principal::user(name))
            } else {
                Err(Failure::Credentials)
            };
            assert_eq!(verified, wanted, "{name} {password}");
        }
    }

    #[test]
    fn a_login_takes_the_same_work_whatever_the_user_has() {
        let logins = BasicLogins::new(&[]);
        let users = table(&[
            ("ada", "pencil", ScramHash::Sha512),
            ("bob", "pen", ScramHash::Sha256),
            ("cyd", "pen", ScramHash::Sha256),
            ("cyd", "pen", ScramHash::Sha512),
        ]);
        let both = [(ScramHash::Sha256, 4096), (ScramHash::Sha512, 4096)];
        for (name, real) in [("ada", 1), ("bob", 1), ("cyd", 2), ("eve", 0), ("", 0)] {
            let guesses = logins.guesses(&users, name);
            let work = guesses.iter().map(|guess| (guess.hash, guess.iterations));
            assert_eq!(work.collect::<Vec<_>>(), both, "{name}");
            let stored = guesses.iter().filter(|guess| guess.stored.is_some());
            assert_eq!(stored.count(), real, "{name}");
        }
    }

    #[tokio::test]
    async fn a_password_is_known_until_the_credential_changes_and_only_for_a_minute() {
        let logins = BasicLogins::new(&[]);
        let users = rights(&[("ada", "pencil", ScramHash::Sha512)]);
        let given = header("ada", "pencil");
        let quickly = |users: RightsImage| {
            let (logins, given) = (&logins, given.clone());
            async move { logins.verify(&given, Some(&users), false).await.is_ok() }
        };
        assert!(!quickly(users.clone()).await, "it is not known yet");
        assert!(logins.verify(&given, Some(&users), true).await.is_ok());
        assert!(quickly(users.clone()).await);
        let changed = rights(&[("ada", "pen", ScramHash::Sha512)]);
        assert!(!quickly(changed).await);
        assert!(!quickly(rights(&[])).await, "the user is gone");
        let past = Instant::now();
        logins.known().values_mut().for_each(|it| it.until = past);
        assert!(!quickly(users).await);
    }

    #[tokio::test]
    async fn what_is_no_login_is_refused() {
        let logins = BasicLogins::new(&[]);
        let users = rights(&[]);
        for given in [
            "",
            "!",
            &STANDARD.encode("ada"),
            &STANDARD.encode(":p"),
            &STANDARD.encode("ada:"),
            &STANDARD.encode(b"\xff:p"),
            &"A".repeat(1 << 20),
        ] {
            let verified = logins.verify(given, Some(&users), true).await;
            assert_eq!(verified, Err(Failure::Malformed), "{}", given.len());
        }
        let early = logins.verify(&header("ada", "p"), None, true).await;
        assert_eq!(early, Err(Failure::Unknown));
    }

    proptest! {
        #[test]
        fn whatever_a_client_sends_is_a_login_or_none(bytes: Vec<u8>, text: String) {
            let _ = credentials(&text);
            if let Ok((name, password)) = credentials(&STANDARD.encode(bytes)) {
                prop_assert!(!name.is_empty() && !name.contains(':'));
                prop_assert!(!password.expose().is_empty());
            }
        }
    }

    #[test]
    fn a_credential_that_would_take_for_ever_is_none() {
        for stored in [i32::MAX, -1, 0, 1, 4095] {
            assert_eq!(iterations(stored), None);
        }
        assert_eq!(iterations(4096), Some(4096));
    }

    #[test]
    fn some_passwords_are_known_at_a_time() {
        let logins = BasicLogins::new(&[]);
        for number in 0..2 * KNOWN_MAX {
            let tag = tag(&logins.key, &[&number.to_be_bytes()]);
            logins.learn(tag, Vec::new());
        }
        assert_eq!(logins.known().len(), KNOWN_MAX);
    }
}
