//! The users whom this broker can recognise: those of PLAIN from the settings, those of SCRAM from
//! the metadata, and what stands in for the credentials of SCRAM users who do not exist; and what
//! verifies the tokens of OAUTHBEARER.
//!
//! The salts of those who do not exist are the same at each start: they come from the random id of
//! the directory of the metadata log, which is made once and never overwritten. Who may read that
//! id from the quorum (`DescribeQuorum`) may also list the SCRAM users, so it tells nothing more.
//!
//! Invariant: a name costs the same time whether or not it is known, apart from a lookup in memory.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use wire::records::metadata::UserScramCredentialRecord;
use wire::sasl::plain::{Login, PasswordKey, PasswordTag};
use wire::sasl::scram::{Credential, Decoy, Keys, Nonce, ScramHash};
use wire::sasl::{Mechanism, Refusal, Secret};
use wire::types::Uuid;

use super::options::LoginOptions;
use super::tokens::{TokenFault, TokenOwner, TokenVerifier};
use crate::image::{Image, ScramTable};

/// Stored credentials from which it is known what credentials look like.
const LOOKED_AT_MAX: usize = 1000;

/// The users of one broker, on one shard.
pub(crate) struct Users {
    key: PasswordKey,
    /// What is kept of the passwords of PLAIN, by listener and name.
    // Bounded: the settings, `wire::sasl::jaas::TEXT_BYTES_MAX` for each listener.
    plain: BTreeMap<String, BTreeMap<String, PasswordTag>>,
    /// What verifies tokens, by listener.
    // Bounded: one for each of `listeners`.
    tokens: BTreeMap<String, Arc<dyn TokenVerifier>>,
    secret: Secret<[u8; 32]>,
    decoy: RefCell<Option<(Weak<ScramTable>, Rc<Decoy>)>>,
}

impl Users {
    /// Takes the users of the listeners; `directory` is the id of that of the metadata log.
    pub(crate) fn new<'a>(
        listeners: impl Iterator<Item = (&'a String, &'a Arc<LoginOptions>)> + Clone,
        directory: Uuid,
        mut random: impl FnMut() -> u64,
    ) -> Self {
        let mut bytes = [0; 32];
        fill(&mut bytes, &mut random);
        let key = PasswordKey::of_random(bytes);
        let tags = |login: &LoginOptions| {
            let plain = login.of(Mechanism::Plain);
            let users = plain.iter().flat_map(|plain| &plain.users);
            users
                .map(|(name, password)| (name.clone(), key.tag(password)))
                .collect()
        };
        let plain = listeners.clone();
        let plain = plain.map(|(name, login)| (name.clone(), tags(login)));
        let tokens = listeners.filter_map(|(name, login)| {
            let verifier = login.of(Mechanism::Oauthbearer)?.tokens.clone()?;
            Some((name.clone(), verifier))
        });
        let mut secret = [0; 32];
        for (to, from) in secret.iter_mut().zip(directory.as_bytes()) {
            *to = *from;
        }
        Self {
            plain: plain.collect(),
            tokens: tokens.collect(),
            key,
            secret: Secret::new(secret),
            decoy: RefCell::default(),
        }
    }

    /// Returns the name of the user, if the password is right at this listener.
    pub(super) fn verify(&self, listener: &str, login: Login) -> Result<String, Refusal> {
        let users = self.plain.get(listener);
        let expected = users.and_then(|users| users.get(login.name()));
        login.verify(&self.key, expected)
    }

    /// Returns whose token it is, at this listener and this time of the wall clock.
    pub(super) fn owner(
        &self,
        listener: &str,
        token: &Secret<String>,
        wall_ms: i64,
    ) -> Result<TokenOwner, TokenFault> {
        let verifier = self.tokens.get(listener).ok_or(TokenFault::NotServed)?;
        verifier.verify(token.expose(), wall_ms)
    }

    /// Returns what makes credentials of users who do not exist. They look like those of `image`.
    pub(super) fn decoy(&self, image: &Image) -> Rc<Decoy> {
        let table = image.scram();
        let mut made = self.decoy.borrow_mut();
        if let Some((of, decoy)) = &*made
            && std::ptr::eq(of.as_ptr(), Arc::as_ptr(table))
        {
            return Rc::clone(decoy);
        }
        let stored = table.values().take(LOOKED_AT_MAX).filter_map(credential);
        let stored: Vec<Credential> = stored.collect();
        let decoy = Rc::new(Decoy::new(*self.secret.expose(), stored.iter()));
        *made = Some((Arc::downgrade(table), Rc::clone(&decoy)));
        decoy
    }
}

/// Returns the stored credential of a user.
pub(super) fn known(image: &Image, hash: ScramHash, name: &str) -> Option<Credential> {
    credential(image.scram().get(&(name.to_owned(), hash.code()))?)
}

/// Makes a nonce.
pub(super) fn nonce(mut random: impl FnMut() -> u64) -> Nonce {
    let mut bytes = [0; 18];
    fill(&mut bytes, &mut random);
    Nonce::of_random(bytes)
}

/// Returns a stored credential, if a client can log in with it.
fn credential(record: &UserScramCredentialRecord) -> Option<Credential> {
    let hash = ScramHash::from_code(record.mechanism)?;
    let keys = Keys {
        stored: Secret::new(record.stored_key.to_vec()),
        server: Secret::new(record.server_key.to_vec()),
    };
    Credential::new(hash, &record.salt, record.iterations, keys).ok()
}

fn fill(bytes: &mut [u8], random: &mut impl FnMut() -> u64) {
    for piece in bytes.chunks_mut(size_of::<u64>()) {
        for (to, from) in piece.iter_mut().zip(random().to_ne_bytes()) {
            *to = from;
        }
    }
}
