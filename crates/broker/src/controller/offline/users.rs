//! Users of SCRAM in metadata that no broker serves: the first ones of a new cluster, and one whose
//! password is lost.
//!
//! Their records are those that a request would have made. Not here: passwords; the caller has what
//! is derived from them.

use bytes::Bytes;
use wire::records::metadata::{MetadataRecord, MetadataVersion, UserScramCredentialRecord};
use wire::sasl::scram::Credential;
use wire::types::{LeaderEpoch, TimestampMs};

use super::Reading;
use crate::controller::batches::{BadBatch, QuorumRecords};
use crate::controller::{snapshot, startup};
use crate::image::ReplayError;

/// Returns the name and bytes of the file with which a new node begins its metadata log: what a
/// start makes without it, and these users.
pub fn first_users(users: &[(String, Credential)]) -> Result<(&'static str, Vec<u8>), BadBatch> {
    let mut records = startup::bootstrap();
    let users = users.iter();
    records.extend(users.map(|(name, credential)| record(name, credential)));
    let bytes = snapshot::write(
        &records,
        MetadataVersion::V4_3,
        &QuorumRecords::default(),
        LeaderEpoch(0),
        TimestampMs(0),
    )?;
    Ok((snapshot::BOOTSTRAP_FILE_NAME, bytes))
}

impl Reading {
    /// Gives a user a credential, in the place of the one of the same mechanism.
    pub fn set_user(&mut self, name: &str, credential: &Credential) -> Result<(), ReplayError> {
        self.image.replay(record(name, credential))
    }
}

fn record(name: &str, credential: &Credential) -> MetadataRecord {
    let keys = credential.keys();
    // Bounded by `ITERATIONS_MAX`, which is far below.
    let iterations = i32::try_from(credential.iterations()).unwrap_or(i32::MAX);
    let record = UserScramCredentialRecord {
        name: name.to_owned(),
        mechanism: credential.hash().code(),
        salt: Bytes::copy_from_slice(credential.salt()),
        stored_key: Bytes::copy_from_slice(keys.stored.expose()),
        server_key: Bytes::copy_from_slice(keys.server.expose()),
        iterations,
    };
    record.into()
}

#[cfg(test)]
mod tests {
    use wire::sasl::Secret;
    use wire::sasl::scram::ScramHash;

    use super::*;
    use crate::controller::offline::{Files, judge};
    use crate::image::Image;

    fn credential(password: &str) -> Credential {
        let password = Secret::new(password.to_owned());
        Credential::derive(ScramHash::Sha512, &password, b"salty", 4096).unwrap()
    }

    fn stored(image: &Image, name: &str) -> Option<Bytes> {
        let key = (name.to_owned(), ScramHash::Sha512.code());
        let record = image.scram().get(&key)?;
        Some(record.stored_key.clone())
    }

    #[test]
    fn a_new_log_begins_with_the_features_and_the_users() {
        let users = [
            ("ada".to_owned(), credential("a")),
            ("bob".to_owned(), credential("b")),
        ];
        let (_, bytes) = first_users(&users).unwrap();
        let found = snapshot::read(&bytes.into()).unwrap().unwrap();
        let mut image = Image::empty();
        for record in found.records {
            image.replay(record).unwrap();
        }
        assert_eq!(image.metadata_version(), MetadataVersion::V4_3);
        let keys = credential("b");
        let expected = keys.keys().stored.expose().as_slice();
        assert_eq!(stored(&image, "bob").unwrap(), expected);
        assert_eq!(image.scram().len(), 2);
    }

    #[test]
    fn a_lost_password_is_replaced_in_the_snapshot_that_follows() {
        let users = [("ada".to_owned(), credential("lost"))];
        let (_, bytes) = first_users(&users).unwrap();
        let name = "00000000000000000010-0000000001.checkpoint".to_owned();
        let files: Files = vec![(name, bytes.into())];
        let mut reading = judge(&files, false);
        assert!(!reading.is_fatal(), "{:?}", reading.findings);
        reading.set_user("ada", &credential("found")).unwrap();
        let (name, bytes) = reading.snapshot().unwrap();
        let again = judge(&vec![(name, bytes.into())], false);
        let keys = credential("found");
        let expected = keys.keys().stored.expose().as_slice();
        assert_eq!(stored(again.image(), "ada").unwrap(), expected);
    }
}
