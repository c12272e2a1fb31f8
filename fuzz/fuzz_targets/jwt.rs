//! Tokens of OAUTHBEARER and sets of keys, from strangers: a token without the right signature lets
//! nobody in, whatever its header, its claims and the set are; a set is read or refused.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use server::oauth::{Expectations, KeySet, judge};

const NOW_MS: i64 = 1_800_000_000_000;

/// RFC 7515, A.3: the private half is public, too, but not to a fuzzer.
const SET: &str = r#"{"keys":[{"kty":"EC","crv":"P-256","kid":"a",
    "x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
    "y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}"#;

static KEYS: LazyLock<KeySet> = LazyLock::new(|| KeySet::parse(SET.as_bytes()).expect("a set"));

static EXPECTED: LazyLock<Expectations> = LazyLock::new(|| Expectations {
    issuer: Some("i".to_owned()),
    audiences: vec!["a".to_owned()],
    subject_claim: "sub".to_owned(),
    scope_claim: "scope".to_owned(),
    skew_ms: 30_000,
});

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, rest)) = bytes.split_first() else {
        return;
    };
    match kind % 4 {
        0 => {
            if let Ok(token) = std::str::from_utf8(rest) {
                assert!(judge(token, &KEYS, &EXPECTED, NOW_MS).is_err());
            }
        }
        // Parts that are base64url, so that a fuzzer gets behind it.
        1 => {
            let mut parts = rest.splitn(3, |byte| *byte == 0);
            let mut part = || base64url(parts.next().unwrap_or_default());
            let token = format!("{}.{}.{}", part(), part(), part());
            assert!(judge(&token, &KEYS, &EXPECTED, NOW_MS).is_err());
        }
        // The claims of a token whose signature is taken for right.
        2 => {
            if let Ok(owner) = server::oauth::judge_claims(rest, &EXPECTED, NOW_MS) {
                assert!(!owner.name.is_empty() && !owner.name.contains('\0'));
                assert!(owner.expires_ms > NOW_MS - 30_000);
            }
        }
        _ => {
            if let Ok(set) = KeySet::parse(rest) {
                assert!(!set.is_empty());
                let token = format!("{}.e30.AAAA", base64url(br#"{"alg":"ES256","kid":"a"}"#));
                assert!(judge(&token, &set, &EXPECTED, NOW_MS).is_err());
            }
        }
    }
});

fn base64url(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let word = three.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte));
        let word = word << (8 * (3 - three.len()));
        for place in 0..=three.len() {
            let letter = word >> (18 - 6 * place) & 63;
            text.push(char::from(LETTERS[letter as usize]));
        }
    }
    text
}
