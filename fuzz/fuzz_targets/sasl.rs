//! Messages of SASL and lines of JAAS as anybody may send or write them: each is answered or
//! refused, nobody logs in without the password, and what is read can be written and is read again.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use wire::sasl::oauthbearer::InitialResponse;
use wire::sasl::plain::{self, Login, PasswordKey};
use wire::sasl::scram::{Client, ClientFirst, Credential, Decoy, Keys, Nonce, ScramHash, Server};
use wire::sasl::{Secret, jaas};

const HASH: ScramHash = ScramHash::Sha256;

/// No password belongs to it.
static KNOWN: LazyLock<Credential> = LazyLock::new(|| {
    let keys = Keys::of_salted(HASH, &[7; 32]);
    Credential::new(HASH, b"salt", 4096, keys).expect("within the bounds")
});

/// An answer to the nonce of zeros.
const ANSWER: &[u8] = b"r=AAAAAAAAAAAAAAAAAAAAAAAAy,s=AAAA,i=4096";

static DECOY: LazyLock<Decoy> = LazyLock::new(|| Decoy::new([9; 32], [&*KNOWN].into_iter()));

/// The credential of Ada.
static ADA: LazyLock<Credential> = LazyLock::new(|| {
    Credential::derive(HASH, &password_of_ada(), b"salt", 4096).expect("within the bounds")
});

/// What Ada's client sends when she logs in: the first message and the last.
static RIGHT: LazyLock<[Vec<u8>; 2]> = LazyLock::new(|| {
    let begun = Client::start(HASH, "ada", password_of_ada(), Nonce::of_random([1; 18]));
    let (client, first) = begun.expect("a name");
    let (_, answer) = answered(&first).expect("a right message");
    let (_, last) = client.answer(&answer).expect("an answer");
    [first, last]
});

fn password_of_ada() -> Secret<String> {
    Secret::new("pencil".to_owned())
}

/// Returns what a server answers that knows Ada.
fn answered(first: &[u8]) -> Option<(Server, Vec<u8>)> {
    let first = ClientFirst::parse(first).ok()?;
    let known = (first.name() == "ada").then_some(&*ADA);
    let nonce = Nonce::of_random([2; 18]);
    Some(Server::answer(HASH, first, nonce, known, &DECOY))
}

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, bytes)) = bytes.split_first() else {
        return;
    };
    match kind % 7 {
        0 => line(bytes),
        1 => password(bytes),
        2 => token(bytes),
        3 => first_message(bytes),
        4 => proof(bytes),
        5 => server_messages(bytes),
        _ => one_byte(bytes),
    }
});

fn line(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    match jaas::Entry::parse(text) {
        Ok(entry) => {
            assert!(!entry.module().is_empty());
            assert!(entry.users().count() <= entry.names().count());
            let out = entry.locked_out();
            let mut out = out.iter().map(|one| one.place).peekable();
            for (place, (name, password)) in entry.users().enumerate() {
                let is_out = out.next_if_eq(&place).is_some();
                assert_eq!(plain::message(name, password).is_err(), is_out);
            }
            assert_eq!(out.next(), None);
        }
        Err(error) => assert!(error.at.line >= 1 && error.at.column >= 1),
    }
}

fn password(bytes: &[u8]) {
    let Ok(login) = Login::parse(bytes) else {
        return;
    };
    let key = PasswordKey::of_random([1; 32]);
    // No password of a message has a NUL.
    let tag = key.tag(&Secret::new("\0".to_owned()));
    let name = login.name().to_owned();
    let secret = Secret::new(name.clone());
    let sent = plain::message(&name, &secret).expect("what is read can be sent");
    let again = Login::parse(sent.expose()).expect("what is sent can be read");
    assert_eq!(again.verify(&key, Some(&key.tag(&secret))), Ok(name));
    assert!(login.verify(&key, Some(&tag)).is_err());
}

fn token(bytes: &[u8]) {
    let Ok(initial) = InitialResponse::parse(bytes) else {
        return;
    };
    let extensions = initial.extensions().clone();
    let sent = InitialResponse::new(initial.token().clone(), extensions)
        .expect("what is read can be sent");
    assert_eq!(InitialResponse::parse(sent.encode().expose()), Ok(sent));
    let (rejected, _) = initial.reject();
    assert!(!rejected.finish(bytes).to_string().is_empty());
}

fn first_message(bytes: &[u8]) {
    let Ok(first) = ClientFirst::parse(bytes) else {
        return;
    };
    let known = (first.name() == "ada").then_some(&*KNOWN);
    let nonce = Nonce::of_random([2; 18]);
    let (server, answer) = Server::answer(HASH, first, nonce, known, &DECOY);
    assert!(std::str::from_utf8(&answer).is_ok_and(|answer| answer.contains(",i=4096")));
    assert!(server.finish(bytes).is_err());
}

fn proof(bytes: &[u8]) {
    let first = ClientFirst::parse(b"n,,n=ada,r=x").expect("a message");
    let nonce = Nonce::of_random([2; 18]);
    let (server, _) = Server::answer(HASH, first, nonce, Some(&KNOWN), &DECOY);
    assert!(server.finish(bytes).is_err());
}

/// Ada logs in, with one byte of what her client sends changed: by zero, or she does not.
fn one_byte(bytes: &[u8]) {
    let [message, at, by, ..] = bytes else {
        return;
    };
    let mut sent = RIGHT.clone();
    let changed = &mut sent[usize::from(message % 2)];
    let at = usize::from(*at) % changed.len();
    changed[at] ^= by;
    let [first, last] = &sent;
    let finished = answered(first).and_then(|(server, _)| server.finish(last).ok());
    assert_eq!(finished.is_some(), *by == 0);
    assert!(finished.is_none_or(|accepted| accepted.name == "ada"));
}

fn server_messages(bytes: &[u8]) {
    let begin = || {
        let nonce = Nonce::of_random([0; 18]);
        let password = Secret::new("pencil".to_owned());
        Client::start(HASH, "ada", password, nonce)
            .expect("a name")
            .0
    };
    // A fuzzer has no time for as many iterations as the message may ask for.
    let is_dear = bytes
        .windows(4)
        .any(|four| four.iter().all(u8::is_ascii_digit));
    if !is_dear {
        assert!(begin().answer(bytes).is_err());
    }
    // Nor to derive keys for each message: it does for one of 32.
    if bytes.iter().fold(0, |sum, byte| sum ^ byte) % 32 == 0 {
        let (proven, _) = begin().answer(ANSWER).expect("an answer");
        assert!(proven.finish(bytes).is_err());
    }
}
