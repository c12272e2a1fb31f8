//! Users who do not exist, as a client sees them that tries names.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::*;

const NAMES: usize = 400;

/// Returns the salt and the iterations of the answer to a name of no user.
fn shown(decoy: &Decoy, hash: ScramHash, name: &str) -> (Vec<u8>, u32) {
    let first = ClientFirst::parse(format!("n,,n={name},r=x").as_bytes()).unwrap();
    let (_, answer) = Server::answer(hash, first, server_nonce(), None, decoy);
    let answer = String::from_utf8(answer).unwrap();
    let (_, rest) = answer.split_once(",s=").unwrap();
    let (salt, iterations) = rest.split_once(",i=").unwrap();
    (
        BASE64_STANDARD.decode(salt).unwrap(),
        iterations.parse().unwrap(),
    )
}

/// Returns what the names `0`, `1` and so on are answered with.
fn all_shown(decoy: &Decoy, hash: ScramHash) -> Vec<(Vec<u8>, u32)> {
    let names = (0..NAMES).map(|name| name.to_string());
    names.map(|name| shown(decoy, hash, &name)).collect()
}

fn stored(hash: ScramHash, salt: &[u8], iterations: i32) -> Credential {
    let keys = Keys::of_salted(hash, b"any salted password");
    Credential::new(hash, salt, iterations, keys).unwrap()
}

/// Returns credentials as Kafka's tools make them.
fn of_kafka(hash: ScramHash, iterations: i32, count: u8) -> impl Iterator<Item = Credential> {
    (1..=count).map(move |number| stored(hash, &salt([number; 17]), iterations))
}

/// Returns credentials with salts of this number of random bytes.
fn of_bytes(bytes: u8, iterations: i32, count: u8) -> impl Iterator<Item = Credential> {
    (0..count).map(move |number| {
        let salt: Vec<u8> = (0..bytes).map(|at| at ^ 0x80 ^ number).collect();
        stored(ScramHash::Sha256, &salt, iterations)
    })
}

fn is_of_kafka(salt: &[u8]) -> bool {
    let is_digit = |digit: &u8| digit.is_ascii_digit() || digit.is_ascii_lowercase();
    (22..=26).contains(&salt.len()) && salt.iter().all(is_digit)
}

#[test]
fn a_name_is_answered_the_same_every_time_and_nobody_can_compute_it() {
    let hash = ScramHash::Sha256;
    let bob = shown(&decoy(), hash, "bob");
    assert_eq!(shown(&decoy(), hash, "bob"), bob);
    assert_ne!(shown(&decoy(), hash, "bo"), bob);
    assert_ne!(shown(&decoy(), ScramHash::Sha512, "bob"), bob);
    let other = Decoy::new([8; 32], [].iter());
    assert_ne!(shown(&other, hash, "bob"), bob);
}

#[test]
fn without_users_names_look_as_if_kafkas_tools_had_set_them() {
    for hash in [ScramHash::Sha256, ScramHash::Sha512] {
        for (salt, iterations) in all_shown(&decoy(), hash) {
            assert!(is_of_kafka(&salt), "{salt:?}");
            assert_eq!(iterations, 4096);
        }
    }
}

#[test]
fn names_look_like_users_of_each_hash_in_the_proportions_of_users() {
    // `kafka-configs` with iterations for one hash of two, and another tool.
    let of_256 = of_kafka(ScramHash::Sha256, 8192, 30).chain(of_bytes(24, 4096, 10));
    let users: Vec<_> = of_256
        .chain(of_kafka(ScramHash::Sha512, 4096, 30))
        .collect();
    let decoy = Decoy::new([9; 32], users.iter());
    let mut of_tool = 0;
    for (salt, iterations) in all_shown(&decoy, ScramHash::Sha256) {
        if iterations == 4096 {
            of_tool += 1;
            assert!(salt.len() == 24 && !is_of_kafka(&salt), "{salt:?}");
        } else {
            assert_eq!((is_of_kafka(&salt), iterations), (true, 8192), "{salt:?}");
        }
    }
    assert!((70..130).contains(&of_tool), "{of_tool} of {NAMES}");
    for (salt, iterations) in all_shown(&decoy, ScramHash::Sha512) {
        assert_eq!((is_of_kafka(&salt), iterations), (true, 4096), "{salt:?}");
    }
}

#[test]
fn names_look_like_users_that_this_broker_would_not_set() {
    let hash = ScramHash::Sha256;
    let users = [
        stored(hash, b"", 50_000),
        stored(hash, &[0xff; SALT_BYTES_MAX], i32::MAX),
        stored(hash, b"NaCl", 4096),
    ];
    let decoy = Decoy::new([9; 32], users.iter());
    let looks = all_shown(&decoy, hash).into_iter();
    let looks: BTreeSet<_> = looks
        .map(|(salt, iterations)| (salt.len(), iterations))
        .collect();
    let expected = [
        (0, 50_000),
        (4, 4096),
        (SALT_BYTES_MAX, i32::MAX.unsigned_abs()),
    ];
    assert_eq!(looks, expected.into());
}

#[test]
fn one_user_more_changes_hardly_any_name() {
    let hash = ScramHash::Sha256;
    let mut users: Vec<_> = of_kafka(hash, 4096, 100).collect();
    users.extend(of_bytes(24, 4096, 100));
    let before = all_shown(&Decoy::new([9; 32], users.iter()), hash);
    users.reverse();
    let turned = all_shown(&Decoy::new([9; 32], users.iter()), hash);
    assert_eq!(turned, before, "the order of users does not matter");
    for more in [
        of_bytes(24, 4096, 1).collect::<Vec<_>>(),
        of_kafka(hash, 4096, 1).collect(),
    ] {
        let after = all_shown(&Decoy::new([9; 32], users.iter().chain(&more)), hash);
        let pairs = before.iter().zip(&after);
        let changed = pairs.filter(|(before, after)| before != after).count();
        assert!(changed <= NAMES / 50, "{changed} of {NAMES}");
    }
}

#[test]
fn names_have_a_bounded_number_of_looks_which_are_the_most_frequent() {
    let hash = ScramHash::Sha256;
    let frequent = (0..4).flat_map(|one| of_kafka(hash, 5000 + one, 20));
    let seldom = (0..1000).flat_map(|one| of_kafka(hash, 8000 + one, 1));
    let users: Vec<_> = seldom.chain(frequent).collect();
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for (_, iterations) in all_shown(&Decoy::new([9; 32], users.iter()), hash) {
        *counts.entry(iterations).or_default() += 1;
    }
    assert!(counts.len() <= 16, "{counts:?}");
    for one in 5000..5004 {
        assert!(counts[&one] > NAMES / 8, "{counts:?}");
    }
}
