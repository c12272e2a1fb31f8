//! What a broker tells of the users of SCRAM: mechanisms and iterations, no secrets.

use clap::ValueEnum;
use serde::Serialize;
use wire::messages::DescribeUserScramCredentialsRequest;
use wire::messages::describe_user_scram_credentials_response::DescribeUserScramCredentialsResult;
use wire::sasl::Mechanism;
use wire::sasl::scram::ScramHash;

use crate::ask::{Cluster, check};

/// A mechanism, as options name it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(super) enum Scram {
    /// By SHA-256.
    #[value(name = "SCRAM-SHA-256", alias = "scram-sha-256")]
    Sha256,
    /// By SHA-512.
    #[value(name = "SCRAM-SHA-512", alias = "scram-sha-512")]
    Sha512,
}

impl Scram {
    pub(super) fn hash(self) -> ScramHash {
        match self {
            Self::Sha256 => ScramHash::Sha256,
            Self::Sha512 => ScramHash::Sha512,
        }
    }
}

/// A user.
#[derive(Debug, Serialize)]
pub(super) struct User {
    pub(super) name: String,
    pub(super) credentials: Vec<Credential>,
    #[serde(skip)]
    pub(super) codes: Vec<i8>,
}

/// One way in which a user may log in.
#[derive(Debug, Serialize)]
pub(super) struct Credential {
    pub(super) mechanism: String,
    pub(super) iterations: i32,
}

impl User {
    fn of(result: &DescribeUserScramCredentialsResult) -> Self {
        let credentials = result.credential_infos.iter().map(|one| Credential {
            mechanism: mechanism_name(one.mechanism),
            iterations: one.iterations,
        });
        Self {
            name: result.user.to_string(),
            credentials: credentials.collect(),
            codes: result
                .credential_infos
                .iter()
                .map(|one| one.mechanism)
                .collect(),
        }
    }
}

/// Returns the name of a mechanism, as options write it.
pub(super) fn mechanism_name(code: i8) -> String {
    let hash = ScramHash::from_code(code);
    let name = hash.map(|hash| Mechanism::Scram(hash).name().to_owned());
    name.unwrap_or_else(|| format!("UNKNOWN({code})"))
}

/// Asks for all users, in the order of their names.
pub(super) fn all(cluster: &mut Cluster) -> anyhow::Result<Vec<User>> {
    let request = DescribeUserScramCredentialsRequest::default().with_users(None);
    let answer = cluster.entrance()?.ask_newest(&request)?;
    check(answer.error_code, answer.error_message.as_ref())?;
    let mut users = Vec::with_capacity(answer.results.len());
    for result in &answer.results {
        check(result.error_code, result.error_message.as_ref())?;
        let mut user = User::of(result);
        // Kafka answers in the order of a hash table.
        let mechanisms = &mut user.credentials;
        mechanisms.sort_by(|one, other| one.mechanism.cmp(&other.mechanism));
        users.push(user);
    }
    users.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(users)
}
