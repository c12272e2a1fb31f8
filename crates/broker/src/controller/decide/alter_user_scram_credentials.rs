//! `AlterUserScramCredentials` (key 51), version 0: sets and removes SCRAM credentials. Each user
//! is judged separately.
//!
//! The metadata holds them as Kafka's does: the client sends the salted password, from which the
//! broker derives the two keys that a server needs (RFC 5802), and stores only these. Sessions that
//! have begun go on.
//!
//! Unlike Kafka, the broker refuses a credential that admits no client, or every client:
//! a name with a NUL, and a salted password that is not as long as the hash.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use wire::StrBytes;
use wire::messages::alter_user_scram_credentials_request::{
    ScramCredentialDeletion, ScramCredentialUpsertion,
};
use wire::messages::alter_user_scram_credentials_response::AlterUserScramCredentialsResult;
use wire::messages::{AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse};
use wire::records::metadata::{
    MetadataRecord, RemoveUserScramCredentialRecord, UserScramCredentialRecord,
};
use wire::sasl::check_user;
use wire::sasl::scram::{Credential, CredentialError, ScramHash};
use wire::types::ErrorCode;

use crate::controller::bounds::{check_entities, check_length, check_text};
use crate::controller::{ControllerDecision, Refusal, check_count};
use crate::image::Image;
use crate::rests::{DECISION, Rests, each};

type ScramDecision = Result<MetadataRecord, Refusal>;

/// Decides on a request.
pub(crate) async fn handle(
    image: &Image,
    request: &AlterUserScramCredentialsRequest,
) -> ControllerDecision<AlterUserScramCredentialsResponse> {
    let changes = request
        .deletions
        .len()
        .saturating_add(request.upsertions.len());
    if let Err(refusal) = check_count(changes) {
        return refused(request, &refusal).await;
    }
    let mut users: BTreeMap<&StrBytes, ScramDecision> = BTreeMap::new();
    let mut rests = Rests::new();
    for deletion in &request.deletions {
        judge(&mut users, &deletion.name, || removed(image, deletion));
        rests.items(DECISION).await;
    }
    for upsertion in &request.upsertions {
        judge(&mut users, &upsertion.name, || set(image, upsertion));
        rests.items(DECISION).await;
    }
    let mut records = Vec::new();
    let results = each(users, |(user, judged)| {
        told(user, judged.map(|record| records.push(record)))
    });
    let response = AlterUserScramCredentialsResponse::default().with_results(results.await);
    ControllerDecision { records, response }
}

/// Returns the same refusal for every user; no user changes.
async fn refused(
    request: &AlterUserScramCredentialsRequest,
    refusal: &Refusal,
) -> ControllerDecision<AlterUserScramCredentialsResponse> {
    let deleted = request.deletions.iter().map(|deletion| &deletion.name);
    let set = request.upsertions.iter().map(|upsertion| &upsertion.name);
    let mut users = BTreeSet::new();
    let results = each(deleted.chain(set), |user| {
        let is_first = users.insert(user);
        is_first.then(|| told(user, Err(refusal.clone())))
    });
    let results = results.await.into_iter().flatten().collect();
    ControllerDecision {
        records: Vec::new(),
        response: AlterUserScramCredentialsResponse::default().with_results(results),
    }
}

fn told(user: &StrBytes, judged: Result<(), Refusal>) -> AlterUserScramCredentialsResult {
    let (code, message) = Refusal::parts(judged);
    AlterUserScramCredentialsResult::default()
        .with_user(user.clone())
        .with_error_code(code)
        .with_error_message(message)
}

/// Judges a change of one user. A request may name a user only once, and a refused user stays
/// refused.
fn judge<'a>(
    users: &mut BTreeMap<&'a StrBytes, ScramDecision>,
    user: &'a StrBytes,
    decide: impl FnOnce() -> ScramDecision,
) {
    let judged = match users.get(user) {
        None => decide(),
        Some(Err(_)) => return,
        Some(Ok(_)) => Err(Refusal::new(
            ErrorCode::DuplicateResource,
            "A user credential cannot be altered twice in the same request",
        )),
    };
    users.insert(user, judged);
}

fn removed(image: &Image, deletion: &ScramCredentialDeletion) -> ScramDecision {
    check(&deletion.name, deletion.mechanism)?;
    check_length(deletion.name.len(), "name of a user")?;
    let key = (deletion.name.to_string(), deletion.mechanism);
    if !image.scram().contains_key(&key) {
        return Err(Refusal::new(
            ErrorCode::ResourceNotFound,
            "Attempt to delete a user credential that does not exist",
        ));
    }
    let (name, mechanism) = key;
    Ok(RemoveUserScramCredentialRecord { name, mechanism }.into())
}

fn set(image: &Image, upsertion: &ScramCredentialUpsertion) -> ScramDecision {
    let hash = check(&upsertion.name, upsertion.mechanism)?;
    check_text(upsertion.name.len(), "name of a user")?;
    check_text(upsertion.salt.len(), "salt")?;
    check_text(upsertion.salted_password.len(), "salted password")?;
    let key = (upsertion.name.to_string(), upsertion.mechanism);
    if !image.scram().contains_key(&key) {
        check_entities(image.scram().len(), "credentials")?;
    }
    let unacceptable = |message: String| Refusal::new(ErrorCode::UnacceptableCredential, message);
    check_user(&upsertion.name).map_err(|refusal| unacceptable(refusal.to_string()))?;
    let (salt, salted) = (&upsertion.salt, &upsertion.salted_password);
    let made = Credential::of_salted(hash, salt, upsertion.iterations, salted);
    let credential = made.map_err(|error| unacceptable(message_of(&error)))?;
    let keys = credential.keys();
    assert!(
        keys.stored.expose().len() == hash.bytes(),
        "what is stored can be taken for a login"
    );
    Ok(UserScramCredentialRecord {
        name: upsertion.name.to_string(),
        mechanism: upsertion.mechanism,
        salt: salt.clone(),
        stored_key: Bytes::copy_from_slice(keys.stored.expose()),
        server_key: Bytes::copy_from_slice(keys.server.expose()),
        iterations: upsertion.iterations,
    }
    .into())
}

/// Returns the message for a credential that is refused: Kafka's where Kafka refuses too.
fn message_of(error: &CredentialError) -> String {
    match error {
        CredentialError::TooFewIterations { .. } => "Too few iterations".to_owned(),
        CredentialError::TooManyIterations { .. } => "Too many iterations".to_owned(),
        other => other.to_string(),
    }
}

fn check(name: &str, mechanism: i8) -> Result<ScramHash, Refusal> {
    if name.is_empty() {
        return Err(Refusal::new(
            ErrorCode::UnacceptableCredential,
            "Username must not be empty",
        ));
    }
    ScramHash::from_code(mechanism).ok_or_else(|| {
        Refusal::new(
            ErrorCode::UnsupportedSaslMechanism,
            "Unknown SCRAM mechanism",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::bounds::{ENTITIES_MAX, NAME_BYTES_MAX};
    use crate::rests::PIECE;
    use crate::rests::tests::rested;

    const SHA_256: i8 = 1;
    const SHA_512: i8 = 2;

    fn deletion(user: &str, mechanism: i8) -> ScramCredentialDeletion {
        ScramCredentialDeletion::default()
            .with_name(StrBytes::from_string(user.to_owned()))
            .with_mechanism(mechanism)
    }

    fn upsertion(user: &str, mechanism: i8, iterations: i32) -> ScramCredentialUpsertion {
        ScramCredentialUpsertion::default()
            .with_name(StrBytes::from_string(user.to_owned()))
            .with_mechanism(mechanism)
            .with_iterations(iterations)
            .with_salt(Bytes::from_static(b"salt"))
            .with_salted_password(match mechanism {
                SHA_512 => Bytes::from_static(&[7; 64]),
                _ => Bytes::from(salted()),
            })
    }

    /// Returns the salted password of RFC 7677, section 3: the password "pencil", 4096 rounds.
    fn salted() -> Vec<u8> {
        hex("c4a49510323ab4f952cac1fa99441939e78ea74d6be81ddf7096e87513dc615d")
    }

    fn hex(text: &str) -> Vec<u8> {
        let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
        (0..text.len()).step_by(2).map(digit).collect()
    }

    fn asked(
        image: &Image,
        deletions: Vec<ScramCredentialDeletion>,
        upsertions: Vec<ScramCredentialUpsertion>,
    ) -> (Vec<MetadataRecord>, Vec<(String, i16)>) {
        let request = AlterUserScramCredentialsRequest::default()
            .with_deletions(deletions)
            .with_upsertions(upsertions);
        let ControllerDecision { records, response } = rested(handle(image, &request)).1;
        let results = response.results.iter();
        let results = results.map(|result| (result.user.to_string(), result.error_code));
        (records, results.collect())
    }

    #[test]
    fn a_credential_is_kept_as_the_keys_that_a_server_needs_and_can_be_removed() {
        let mut image = Image::empty();
        let (records, results) = asked(&image, vec![], vec![upsertion("ada", SHA_256, 4096)]);
        assert_eq!(results, [("ada".to_owned(), 0)]);
        let [MetadataRecord::UserScramCredential(kept)] = records.as_slice() else {
            panic!("{records:?}");
        };
        let stored = hex("586e5df283e6dceb5c3e791d8b8528ec191e664045ce971792e2e6b5bb13e2a6");
        let server = hex("c1f3cbc1c13a9d35a14c0990eed97629ea225863e566a4314ab99f3f00e5d9d5");
        assert_eq!(
            (&kept.stored_key[..], &kept.server_key[..]),
            (&stored[..], &server[..])
        );
        for record in records {
            image.replay(record).unwrap();
        }
        let (records, results) = asked(&image, vec![deletion("ada", SHA_256)], vec![]);
        assert_eq!((records.len(), results), (1, vec![("ada".to_owned(), 0)]));
        let (records, _) = asked(&image, vec![], vec![upsertion("ada", SHA_512, 16_384)]);
        let [MetadataRecord::UserScramCredential(kept)] = records.as_slice() else {
            panic!("{records:?}");
        };
        assert_eq!((kept.stored_key.len(), kept.server_key.len()), (64, 64));
    }

    #[test]
    fn credentials_are_bounded_in_number_and_length() {
        let mut image = Image::empty();
        for user in 0..ENTITIES_MAX {
            let record = UserScramCredentialRecord {
                name: format!("user-{user}"),
                mechanism: SHA_256,
                ..UserScramCredentialRecord::default()
            };
            image.replay(record.into()).unwrap();
        }
        let policy = ErrorCode::PolicyViolation.code();
        let one = |user: &str| {
            let (records, results) = asked(&image, vec![], vec![upsertion(user, SHA_256, 4096)]);
            (records.len(), results[0].1)
        };
        assert_eq!(one("another"), (0, policy));
        assert_eq!(one("user-0"), (1, 0), "one that is there");
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        image = Image::empty();
        let one = |asked_for| asked(&image, vec![], vec![asked_for]).1[0].1;
        assert_eq!(one(upsertion(&long, SHA_256, 4096)), policy);
        let salted = upsertion("ada", SHA_256, 4096).with_salt(Bytes::from(long));
        assert_eq!(one(salted), policy);
    }

    #[test]
    fn what_cannot_be_is_refused_for_its_user_alone() {
        let image = Image::empty();
        let deletions = vec![deletion("nobody", SHA_256), deletion("twice", 9)];
        let upsertions = vec![
            upsertion("", SHA_256, 4096),
            upsertion("few", SHA_256, 4095),
            upsertion("good", SHA_256, 4096),
            upsertion("many", SHA_512, 16_385),
            upsertion("odd", 3, 4096),
            upsertion("pair", SHA_256, 4096),
            upsertion("pair", SHA_512, 4096),
            upsertion("twice", SHA_256, 4096),
        ];
        let (records, results) = asked(&image, deletions, upsertions);
        let expected = [
            ("", ErrorCode::UnacceptableCredential.code()),
            ("few", ErrorCode::UnacceptableCredential.code()),
            ("good", 0),
            ("many", ErrorCode::UnacceptableCredential.code()),
            ("nobody", ErrorCode::ResourceNotFound.code()),
            ("odd", ErrorCode::UnsupportedSaslMechanism.code()),
            ("pair", ErrorCode::DuplicateResource.code()),
            ("twice", ErrorCode::UnsupportedSaslMechanism.code()),
        ];
        let expected = expected.map(|(user, code)| (user.to_owned(), code));
        assert_eq!(results, expected);
        assert_eq!(records.len(), 1);
    }

    #[test]
    fn a_credential_with_which_nobody_or_everybody_could_log_in_is_refused() {
        let image = Image::empty();
        let set = |upsertion| {
            let (records, results) = asked(&image, vec![], vec![upsertion]);
            (records.len(), results[0].1)
        };
        let refused = (0, ErrorCode::UnacceptableCredential.code());
        for name in ["a\0da", "\0", "ada\0"] {
            assert_eq!(set(upsertion(name, SHA_256, 4096)), refused, "{name:?}");
        }
        for (mechanism, right) in [(SHA_256, 32), (SHA_512, 64)] {
            let of = |bytes| {
                let salted = Bytes::from(vec![7; bytes]);
                set(upsertion("ada", mechanism, 4096).with_salted_password(salted))
            };
            for bytes in [0, 1, 31, 33, 63, 65, 96 - right, 1024] {
                assert_eq!(of(bytes), refused, "{mechanism}: {bytes}");
            }
            assert_eq!(of(right), (1, 0));
        }
        let without_salt = upsertion("ada", SHA_256, 4096).with_salt(Bytes::new());
        assert_eq!(set(without_salt), (1, 0), "as in Kafka");
    }

    #[test]
    fn a_credential_that_could_not_be_set_any_more_can_be_removed() {
        let mut image = Image::empty();
        let record = UserScramCredentialRecord {
            name: "a\0da".to_owned(),
            mechanism: SHA_256,
            ..UserScramCredentialRecord::default()
        };
        image.replay(record.into()).unwrap();
        let (records, results) = asked(&image, vec![deletion("a\0da", SHA_256)], vec![]);
        assert_eq!((records.len(), results[0].1), (1, 0));
    }

    #[test]
    fn too_many_users_are_refused_in_hardly_more_turns_than_it_takes_to_name_them() {
        const USERS: usize = 20_000;
        let deletions = (0..USERS / 2).map(|number| deletion(&format!("d{number}"), SHA_256));
        let upsertions = (0..USERS / 2).map(|number| upsertion(&format!("u{number}"), 1, 4096));
        let request = AlterUserScramCredentialsRequest::default()
            .with_deletions(deletions.collect())
            .with_upsertions(upsertions.collect());
        let image = Image::empty();
        let (rests, outcome) = rested(handle(&image, &request));
        assert!(rests < USERS / PIECE + 2, "{rests} rests");
        assert!(outcome.records.is_empty());
        let results = outcome.response.results;
        let policy = ErrorCode::PolicyViolation.code();
        assert_eq!(results.len(), USERS);
        assert!(results.iter().all(|result| result.error_code == policy));
    }

    #[test]
    fn a_text_that_no_user_needs_is_refused_before_anything_is_made_of_it() {
        let image = Image::empty();
        let policy = ErrorCode::PolicyViolation.code();
        let long = "x".repeat(1 << 20);
        let password =
            upsertion("ada", SHA_256, 4096).with_salted_password(Bytes::from(long.clone()));
        let (records, results) = asked(&image, vec![], vec![password]);
        assert_eq!((records.len(), results[0].1), (0, policy));
        let (records, results) = asked(&image, vec![deletion(&long, SHA_256)], vec![]);
        assert_eq!((records.len(), results[0].1), (0, policy));
    }
}
