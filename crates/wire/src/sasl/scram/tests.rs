//! Exchanges of the RFC and of Kafka 4.3's own classes, both ends against each other, and what
//! neither accepts.
//!
//! No RFC has an exchange with SHA-512. This one was computed in Python, which gives the values of
//! RFC 7677 for SHA-256; `signed` is the first three messages with commas, without `n,,` and `,p=`:
//!
//! ```text
//! salted = hashlib.pbkdf2_hmac("sha512", b"pencil", salt, 4096)
//! mac = lambda key, text: hmac.new(key, text, "sha512").digest()
//! key = mac(salted, b"Client Key")
//! other = mac(hashlib.sha512(key).digest(), signed)
//! proof = bytes(a ^ b for a, b in zip(key, other))
//! signature = mac(mac(salted, b"Server Key"), signed)
//! ```

use proptest::prelude::*;

use super::*;
use crate::sasl::{Refusal, Secret};

mod decoys;
mod hostile;

fn secret(text: &str) -> Secret<String> {
    Secret::new(text.to_owned())
}

fn decoy() -> Decoy {
    Decoy::new([9; 32], [].iter())
}

fn client_nonce() -> Nonce {
    Nonce::of_random([1; 18])
}

fn server_nonce() -> Nonce {
    Nonce::of_random([2; 18])
}

fn credential(hash: ScramHash, password: &str) -> Credential {
    Credential::derive(hash, &secret(password), b"salt of ada", ITERATIONS_MIN).unwrap()
}

/// What each end sends; a test may change a byte of it on the way.
struct Exchange<'a> {
    hash: ScramHash,
    name: &'a str,
    password: &'a str,
    known: Option<&'a Credential>,
    /// The message (0 to 3), the byte of it, and by what it is changed.
    changed: Option<(usize, usize, u8)>,
}

/// The messages that arrived, and what became of both ends: the server first.
type ExchangeOutcome = (Vec<Vec<u8>>, Result<String, Refusal>, Result<(), Refusal>);

impl Exchange<'_> {
    fn run(&self) -> ExchangeOutcome {
        let mut sent = Vec::new();
        let mut arrives = |mut bytes: Vec<u8>| {
            if let Some((message, at, by)) = self.changed
                && message == sent.len()
            {
                let at = at % bytes.len();
                bytes[at] ^= by;
            }
            sent.push(bytes.clone());
            bytes
        };
        let password = secret(self.password);
        let begun = Client::start(self.hash, self.name, password, client_nonce());
        let (client, bytes) = begun.unwrap();
        let nobody = Err(Refusal::Nonce);
        let first = match ClientFirst::parse(&arrives(bytes)) {
            Ok(first) => first,
            Err(refusal) => return (sent, Err(refusal), nobody),
        };
        // As the server would look it up.
        let known = self.known.filter(|_| first.name() == self.name);
        let (server, bytes) = Server::answer(self.hash, first, server_nonce(), known, &decoy());
        let (proven, bytes) = match client.answer(&arrives(bytes)) {
            Ok(proven) => proven,
            Err(refusal) => return (sent, Err(Refusal::Nonce), Err(refusal)),
        };
        let accepted = match server.finish(&arrives(bytes)) {
            Ok(accepted) => accepted,
            Err(refusal) => return (sent, Err(refusal), nobody),
        };
        let done = proven.finish(&arrives(accepted.reply));
        (sent, Ok(accepted.name), done)
    }
}

/// An exchange that another implementation has recorded.
struct RecordedExchange<'a> {
    hash: ScramHash,
    name: &'a str,
    password: &'a str,
    salt: &'a [u8],
    iterations: u32,
    /// The part of the client, and that of the server.
    nonces: (&'a str, &'a str),
    messages: [&'a str; 4],
}

/// Checks that both ends send what was recorded.
#[track_caller]
fn check(recorded: &RecordedExchange<'_>) {
    let RecordedExchange { hash, name, .. } = *recorded;
    let password = secret(recorded.password);
    let known = Credential::derive(hash, &password, recorded.salt, recorded.iterations).unwrap();
    let nonce = Nonce::of_text(recorded.nonces.0);
    let (client, first) = Client::start(hash, name, password, nonce).unwrap();
    assert_eq!(std::str::from_utf8(&first), Ok(recorded.messages[0]));
    let first = ClientFirst::parse(&first).unwrap();
    assert_eq!(first.name(), name);
    let nonce = Nonce::of_text(recorded.nonces.1);
    let (server, answer) = Server::answer(hash, first, nonce, Some(&known), &decoy());
    assert_eq!(std::str::from_utf8(&answer), Ok(recorded.messages[1]));
    let (proven, last) = client.answer(&answer).unwrap();
    assert_eq!(std::str::from_utf8(&last), Ok(recorded.messages[2]));
    let accepted = server.finish(&last).unwrap();
    assert_eq!(accepted.name, name);
    assert_eq!(
        std::str::from_utf8(&accepted.reply),
        Ok(recorded.messages[3])
    );
    assert_eq!(proven.finish(&accepted.reply), Ok(()));
}

/// The salt of RFC 7677.
const SALT: [u8; 16] = [
    0x5b, 0x6d, 0x99, 0x68, 0x9d, 0x12, 0x35, 0x8e, 0xec, 0xa0, 0x4b, 0x14, 0x12, 0x36, 0xfa, 0x81,
];

#[test]
fn the_exchange_of_rfc_7677() {
    check(&RecordedExchange {
        hash: ScramHash::Sha256,
        name: "user",
        password: "pencil",
        salt: &SALT,
        iterations: 4096,
        nonces: ("rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"),
        messages: [
            "n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
             p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
            "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
        ],
    });
}

#[test]
fn the_same_exchange_with_sha_512_as_python_computes_it() {
    check(&RecordedExchange {
        hash: ScramHash::Sha512,
        name: "user",
        password: "pencil",
        salt: &SALT,
        iterations: 4096,
        nonces: ("rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"),
        messages: [
            "n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
             p=gMGXRcevScNtxZ6/8lQYpGtnsNAc3mGcmNomv+xnoOMw+3R2xNJdMNnzMlTN8PPC6wdp6dybEmDYXYTxwnYPJQ==",
            "v=ZQnYEgWQMFmmsM8aQMF0nDDCy/AgCzkwk8CmMZYcMg0vSVlKDanekLtifDSeVGT4+5ZxXnJq199RVG2rR7N7Zw==",
        ],
    });
}

/// A password that `SASLprep` refuses, which Kafka does not apply.
const PASSWORD: &str = "pencil \u{e4}\u{8eca}\u{1f697}";

#[test]
fn exchanges_between_a_client_and_a_server_of_kafka() {
    check(&RecordedExchange {
        hash: ScramHash::Sha256,
        name: "a,b=c",
        password: PASSWORD,
        salt: b"1gfwgibt8nukdsr3wshisiodcf",
        iterations: 4096,
        nonces: ("gb4lutv1aq4t36r1vflooaztb", "1mowg1wt7uh441iiejmlic8p88"),
        messages: [
            "n,,n=a=2Cb=3Dc,r=gb4lutv1aq4t36r1vflooaztb",
            "r=gb4lutv1aq4t36r1vflooaztb1mowg1wt7uh441iiejmlic8p88,\
             s=MWdmd2dpYnQ4bnVrZHNyM3dzaGlzaW9kY2Y=,i=4096",
            "c=biws,r=gb4lutv1aq4t36r1vflooaztb1mowg1wt7uh441iiejmlic8p88,\
             p=li0cft8n07ILG8k4OW3q92GRmJU2wcFaVRy6hoawby0=",
            "v=5rwTYHZKLkKfFj43/xOpb8KPqrcE+oRXje43HBVQMJ8=",
        ],
    });
    check(&RecordedExchange {
        hash: ScramHash::Sha512,
        name: "a,b=c",
        password: PASSWORD,
        salt: b"lqprsavd7afjoutcvywxwzgx8",
        iterations: 8192,
        nonces: ("110en5g23xowyazmz1uyuyxhew", "lv8vxxbcvikhttzbmgcdzxynk"),
        messages: [
            "n,,n=a=2Cb=3Dc,r=110en5g23xowyazmz1uyuyxhew",
            "r=110en5g23xowyazmz1uyuyxhewlv8vxxbcvikhttzbmgcdzxynk,\
             s=bHFwcnNhdmQ3YWZqb3V0Y3Z5d3h3emd4OA==,i=8192",
            "c=biws,r=110en5g23xowyazmz1uyuyxhewlv8vxxbcvikhttzbmgcdzxynk,\
             p=BwYPw3ogVQaqgyRwiINcxiPNNoKWCKxKVYuxu/wT0fE10uyB1NU93t0ulSZG/gYl87OT3wU44syo+V6DyhUAyA==",
            "v=LfMYj7pml9v0OXrtjJon68dnQvEioUF0fdr/RFAHF+9MhfBZLLp51Em/odiJsHJAcu3iBpz7je0oHQvwyv5LVw==",
        ],
    });
}

#[test]
fn only_the_right_password_of_a_known_user_logs_in() {
    for hash in [ScramHash::Sha256, ScramHash::Sha512] {
        let known = credential(hash, "pencil");
        let of = |password, known| {
            let exchange = Exchange {
                hash,
                name: "ada",
                password,
                known,
                changed: None,
            };
            exchange.run()
        };
        let (_, server, client) = of("pencil", Some(&known));
        assert_eq!((server, client), (Ok("ada".to_owned()), Ok(())));
        for (password, known) in [("Pencil", Some(&known)), ("pencil", None), ("", None)] {
            assert_eq!(of(password, known).1, Err(Refusal::Credentials));
        }
    }
}

#[test]
fn what_kafka_would_log_in_with_is_a_credential() {
    let hash = ScramHash::Sha256;
    let derived = credential(hash, "pencil");
    let new = |hash, salt: &[u8], iterations| {
        Credential::new(hash, salt, iterations, derived.keys().clone()).map(drop)
    };
    // From the time of ZooKeeper there are credentials that no client could set today.
    for iterations in [4096, 16_384, 16_385, 50_000, i32::MAX] {
        assert_eq!(new(hash, b"s", iterations), Ok(()));
    }
    for iterations in [i32::MIN, -4096, 0, 4095] {
        let error = too_few(iterations.into());
        assert_eq!(new(hash, b"s", iterations), Err(error));
    }
    for salt in [&[][..], &[1; SALT_BYTES_MAX]] {
        assert_eq!(new(hash, salt, 4096), Ok(()));
    }
    let (salt, bytes) = ([1; SALT_BYTES_MAX + 1], SALT_BYTES_MAX + 1);
    assert_eq!(new(hash, &salt, 4096), Err(CredentialError::Salt { bytes }));
    let error = CredentialError::Key {
        bytes: 32,
        expected: 64,
    };
    assert_eq!(new(ScramHash::Sha512, b"s", 4096), Err(error));
}

fn too_few(iterations: i64) -> CredentialError {
    CredentialError::TooFewIterations { iterations }
}

fn too_many(iterations: i64) -> CredentialError {
    CredentialError::TooManyIterations { iterations }
}

#[test]
fn a_credential_that_somebody_sets_can_be_used_and_guessed_no_faster_than_others() {
    let hash = ScramHash::Sha256;
    let derive = |password, salt: &[u8], iterations| {
        Credential::derive(hash, &secret(password), salt, iterations).map(drop)
    };
    assert_eq!(derive("x", b"s", 4096), Ok(()));
    assert_eq!(derive("", b"s", 4096), Err(CredentialError::NoPassword));
    assert_eq!(derive("x", b"", 4096), Err(CredentialError::NoSalt));
    assert_eq!(derive("x", b"s", 4095), Err(too_few(4095)));
    assert_eq!(derive("x", b"s", 16_385), Err(too_many(16_385)));
    assert_eq!(derive("x", b"s", u32::MAX), Err(too_many(u32::MAX.into())));
    let of_salted = |hash, salt: &[u8], iterations, bytes: usize| {
        Credential::of_salted(hash, salt, iterations, &vec![7; bytes]).map(drop)
    };
    for (hash, own) in [(ScramHash::Sha256, 32), (ScramHash::Sha512, 64)] {
        for (salt, iterations) in [(&b""[..], 4096), (&b"s"[..], 16_384)] {
            assert_eq!(of_salted(hash, salt, iterations, own), Ok(()));
        }
        for bytes in [0, 31, 33, 96 - own, 1 << 20] {
            let expected = own;
            let error = CredentialError::SaltedPassword { bytes, expected };
            assert_eq!(of_salted(hash, b"s", 4096, bytes), Err(error));
        }
    }
    assert_eq!(of_salted(hash, b"s", -1, 32), Err(too_few(-1)));
    assert_eq!(of_salted(hash, b"s", 16_385, 32), Err(too_many(16_385)));
    let (salt, bytes) = ([1; SALT_BYTES_MAX + 1], SALT_BYTES_MAX + 1);
    let error = CredentialError::Salt { bytes };
    assert_eq!(of_salted(hash, &salt, 4096, 32), Err(error));
}

#[test]
fn a_credential_of_a_salted_password_is_that_of_the_password() {
    for hash in [ScramHash::Sha256, ScramHash::Sha512] {
        let known = credential(hash, "pencil");
        let salted = hash.salted(b"pencil", b"salt of ada", ITERATIONS_MIN);
        let taken = Credential::of_salted(hash, b"salt of ada", 4096, salted.expose()).unwrap();
        assert_eq!(taken.keys().stored, known.keys().stored);
        assert_eq!(taken.keys().server, known.keys().server);
        assert_eq!((taken.salt(), taken.iterations()), (known.salt(), 4096));
    }
}

#[test]
fn keys_passwords_and_proofs_are_not_shown() {
    let known = credential(ScramHash::Sha256, "canary");
    let (client, _) =
        Client::start(ScramHash::Sha256, "ada", secret("canary"), client_nonce()).unwrap();
    let shown = format!("{client:?} {known:?} {:?}", decoy());
    assert!(!shown.contains("canary") && shown.contains("[hidden]"));
    let key = format!("{:?}", known.keys().server.expose());
    assert!(!shown.contains(&key));
    let last = messages::ClientFinal::parse(b"c=biws,r=x,p=AQIDBA==").unwrap();
    assert_eq!(last.proof.expose(), &[1, 2, 3, 4]);
    assert!(!format!("{last:?}").contains("1, 2, 3, 4"));
}

#[test]
fn a_mechanism_has_the_code_of_kafkas_records() {
    assert_eq!(ScramHash::from_code(1), Some(ScramHash::Sha256));
    assert_eq!(ScramHash::from_code(2), Some(ScramHash::Sha512));
    for code in [i8::MIN, -1, 0, 3, i8::MAX] {
        assert_eq!(ScramHash::from_code(code), None);
    }
}

proptest! {
    // Each case derives keys twice.
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn both_ends_agree(
        name in "[^\0]{1,30}",
        password in any::<String>().prop_filter("not empty", |text| !text.is_empty()),
        salt in proptest::collection::vec(any::<u8>(), 1..40),
        is_512 in any::<bool>(),
    ) {
        let hash = if is_512 { ScramHash::Sha512 } else { ScramHash::Sha256 };
        let known = Credential::derive(hash, &secret(&password), &salt, ITERATIONS_MIN).unwrap();
        let exchange = Exchange {
            hash,
            name: &name,
            password: &password,
            known: Some(&known),
            changed: None,
        };
        let (_, server, client) = exchange.run();
        prop_assert_eq!((server, client), (Ok(name.clone()), Ok(())));
    }
}
