//! Tokens that are right, and a table of those that are attacks or mistakes.

use std::fmt::Write as _;

use aws_lc_rs::hmac;
use proptest::prelude::*;

use super::super::signed::{NOW_S, PROVIDER, claims, encoded, expected};
use super::*;

const NOW_MS: i64 = NOW_S * 1000;

fn keys() -> KeySet {
    KeySet::parse(PROVIDER.set().as_bytes()).unwrap()
}

fn judged(token: &str) -> Result<TokenOwner, TokenFault> {
    judge(token, &keys(), &expected(), NOW_MS).map_err(|refused| refused.fault)
}

fn of_claims(replaced: &[(&str, &str)]) -> Result<TokenOwner, TokenFault> {
    judged(&PROVIDER.token_of(&claims(replaced)))
}

#[test]
fn a_token_of_every_algorithm_is_that_of_its_subject_until_it_expires() {
    let ada = TokenOwner {
        name: "ada".to_owned(),
        expires_ms: NOW_MS + 600_000,
    };
    for (algorithm, key) in [
        ("RS256", "r"),
        ("RS384", "r"),
        ("RS512", "r"),
        ("PS256", "r"),
        ("PS384", "r"),
        ("PS512", "r"),
        ("ES256", "p256"),
        ("ES384", "p384"),
        ("EdDSA", "ed"),
    ] {
        let header = format!(r#"{{"typ":"JWT","alg":"{algorithm}","kid":"{key}"}}"#);
        let token = PROVIDER.token(algorithm, &header, &claims(&[]));
        assert_eq!(judged(&token), Ok(ada.clone()), "{algorithm}");
        // The only key that fits.
        let unnamed = format!(r#"{{"alg":"{algorithm}"}}"#);
        let token = PROVIDER.token(algorithm, &unnamed, &claims(&[]));
        assert_eq!(judged(&token), Ok(ada.clone()), "{algorithm}");
    }
}

#[test]
fn a_signature_is_of_the_key_and_its_algorithm_or_the_token_is_refused() {
    let key = hmac::Key::new(hmac::HMAC_SHA256, &PROVIDER.public_bytes());
    let forged = |algorithm: &str, named: &str| {
        let header = format!(r#"{{"alg":"{algorithm}","kid":"{named}"}}"#);
        let signed = format!("{}.{}", encoded(header), encoded(claims(&[])));
        let tag = hmac::sign(&key, signed.as_bytes());
        format!("{signed}.{}", encoded(tag))
    };
    let own = r#"{"alg":"RS256","kid":"r"}"#;
    let good = PROVIDER.token_of(&claims(&[]));
    let (signed, signature) = good.rsplit_once('.').unwrap();
    let (head, _) = signed.split_once('.').unwrap();
    let others = encoded(claims(&[("sub", r#""root""#)]));
    let padded = format!("{good}=");
    let as_der = format!("{signed}.{}", encoded([0x30, 6, 2, 1, 1, 2, 1, 1]));
    let of = |algorithm: &str, header: &str| PROVIDER.token(algorithm, header, &claims(&[]));
    let none = format!("{}.{}.", encoded(r#"{"alg":"none"}"#), encoded(claims(&[])));
    let none_signed = format!("{none}{signature}");
    for (token, expected) in [
        (none.as_str(), TokenFault::Form),
        (&none_signed, TokenFault::Algorithm),
        (
            &of("RS256", r#"{"alg":"None","kid":"r"}"#),
            TokenFault::Algorithm,
        ),
        (
            &of("RS256", r#"{"alg":"rs256","kid":"r"}"#),
            TokenFault::Algorithm,
        ),
        (
            &of("RS256", r#"{"alg":["RS256"],"kid":"r"}"#),
            TokenFault::Header,
        ),
        (&of("RS256", r#"{"kid":"r"}"#), TokenFault::Header),
        // The public key as a secret of both ends.
        (&forged("HS256", "r"), TokenFault::Algorithm),
        (&forged("HS256", "secret"), TokenFault::Algorithm),
        (&forged("RS256", "r"), TokenFault::Signature),
        (&forged("RS256", "secret"), TokenFault::UnknownKey),
        // A key of another algorithm, and another key.
        (
            &of("RS256", r#"{"alg":"ES256","kid":"r"}"#),
            TokenFault::OtherAlgorithm,
        ),
        (
            &of("ES256", r#"{"alg":"RS256","kid":"p256"}"#),
            TokenFault::OtherAlgorithm,
        ),
        (
            &of("RS256", r#"{"alg":"PS256","kid":"r"}"#),
            TokenFault::Signature,
        ),
        (
            &of("RS256", r#"{"alg":"RS512","kid":"r"}"#),
            TokenFault::Signature,
        ),
        (
            &of("RS256", r#"{"alg":"RS256","kid":"../../etc/passwd"}"#),
            TokenFault::UnknownKey,
        ),
        (
            &of("RS256", r#"{"alg":"RS256","kid":""}"#),
            TokenFault::UnknownKey,
        ),
        (
            &of("RS256", r#"{"alg":"RS256","kid":7}"#),
            TokenFault::Header,
        ),
        (
            &of("RS256", r#"{"alg":"RS256","kid":null}"#),
            TokenFault::Header,
        ),
        // Keys that the token brings along are not looked at.
        (
            &of(
                "ES384",
                r#"{"alg":"RS256","kid":"x","jku":"http://127.0.0.1/","jwk":{}}"#,
            ),
            TokenFault::UnknownKey,
        ),
        (
            &of("RS256", r#"{"alg":"RS256","kid":"r","crit":["exp"]}"#),
            TokenFault::Header,
        ),
        (
            &of(
                "RS256",
                r#"{"alg":"RS256","kid":"r","b64":false,"crit":["b64"]}"#,
            ),
            TokenFault::Header,
        ),
        (
            &of("RS256", r#"{"alg":"RS256","enc":"A128GCM","kid":"r"}"#),
            TokenFault::Header,
        ),
        (
            &of("RS256", r#"{"alg":"RS256","alg":"none","kid":"r"}"#),
            TokenFault::Header,
        ),
        (
            &of("RS256", r#"{"alg":"none","alg":"RS256","kid":"r"}"#),
            TokenFault::Header,
        ),
        (&of("RS256", r#"["RS256"]"#), TokenFault::Header),
        // Other claims under the same signature, and the signature of nothing.
        (
            &format!("{head}.{others}.{signature}"),
            TokenFault::Signature,
        ),
        (
            &format!("{signed}.{}", encoded([0; 256])),
            TokenFault::Signature,
        ),
        (&format!("{signed}.{}", encoded([1])), TokenFault::Signature),
        (&as_der, TokenFault::Signature),
        (&format!("{signed}."), TokenFault::Form),
        (&padded, TokenFault::Form),
        (&format!("{good}.{signature}"), TokenFault::Form),
        (&format!("{head}..{signature}"), TokenFault::Form),
        (&good.replacen('.', "..", 1), TokenFault::Form),
        (signed, TokenFault::Form),
        ("", TokenFault::Form),
        ("..", TokenFault::Form),
        ("a.b.c", TokenFault::Form),
        (&"a".repeat(TOKEN_BYTES_MAX + 1), TokenFault::TooLong),
    ] {
        assert_eq!(judged(token), Err(expected), "{token}");
    }
    assert!(judged(&good).is_ok());
    assert!(judged(&PROVIDER.token("RS256", own, &claims(&[]))).is_ok());
    // A signature of zeros is none of a curve either.
    let header = encoded(r#"{"alg":"ES256","kid":"p256"}"#);
    let zeros = format!("{header}.{}.{}", encoded(claims(&[])), encoded([0; 64]));
    assert_eq!(judged(&zeros), Err(TokenFault::Signature));
}

#[test]
fn times_are_whole_seconds_of_which_none_is_out_of_order() {
    let at = |offset: i64| (NOW_S + offset).to_string();
    for name in ["exp", "iat", "nbf"] {
        for wrong in [
            "-1",
            "1e10",
            "1.8e9",
            "1800000600.5",
            "1800000600.0",
            "-0",
            "1e400",
            "9223372036854775807",
            "9223372036854775808",
            "-9223372036854775808",
            "18446744073709551615",
            "253402300800",
            "\"1800000600\"",
            "null",
            "true",
            "[1800000600]",
            "{}",
        ] {
            let told = of_claims(&[(name, wrong)]);
            // What is no JSON at all is refused before.
            let is_refused = matches!(told, Err(TokenFault::Times | TokenFault::Claims));
            assert!(is_refused, "{name} {wrong}: {told:?}");
        }
    }
    for (replaced, expected) in [
        (&[("exp", "")][..], Err(TokenFault::Times)),
        (&[("iat", "")], Err(TokenFault::Times)),
        (&[("exp", &*at(-29))], Ok(())),
        (&[("exp", &*at(-30))], Err(TokenFault::Expired)),
        (&[("exp", "253402300799")], Ok(())),
        (&[("exp", "0"), ("iat", "0")], Err(TokenFault::Expired)),
        (&[("iat", &*at(30))], Ok(())),
        (&[("iat", &*at(31))], Err(TokenFault::Early)),
        (&[("nbf", &*at(30))], Ok(())),
        (&[("nbf", &*at(31))], Err(TokenFault::Early)),
        (&[("nbf", &*at(601))], Err(TokenFault::Order)),
        (&[("iat", &*at(601))], Err(TokenFault::Order)),
        (&[("iat", "0"), ("nbf", "0")], Ok(())),
    ] {
        assert_eq!(of_claims(replaced).map(|_| ()), expected, "{replaced:?}");
    }
    // A clock at an end of its range is no way around them, nor is the longest skew.
    let longest = Expectations {
        skew_ms: i64::from(i32::MAX) * 1000,
        ..expected()
    };
    let token = PROVIDER.token_of(&claims(&[("exp", "0"), ("iat", "0")]));
    let told = judge(&token, &keys(), &longest, NOW_MS);
    assert!(told.is_ok(), "68 years");
    let told = judge(&token, &keys(), &longest, i64::MAX).unwrap_err();
    assert_eq!(told.fault, TokenFault::Expired);
    let token = PROVIDER.token_of(&claims(&[]));
    for (wall_ms, expected) in [
        (i64::MIN, TokenFault::Early),
        (0, TokenFault::Early),
        (i64::MAX, TokenFault::Expired),
    ] {
        let told = judge(&token, &keys(), &super::super::signed::expected(), wall_ms);
        assert_eq!(told.unwrap_err().fault, expected);
    }
}

#[test]
fn issuer_audience_user_and_scope_are_those_expected() {
    for (replaced, expected) in [
        (&[("iss", "")][..], Err(TokenFault::Issuer)),
        (&[("iss", "\"https://idp/\"")], Err(TokenFault::Issuer)),
        (&[("iss", "[\"https://idp\"]")], Err(TokenFault::Issuer)),
        (&[("aud", "")], Err(TokenFault::Audience)),
        (&[("aud", "\"Kafka\"")], Err(TokenFault::Audience)),
        (&[("aud", "[]")], Err(TokenFault::Audience)),
        (&[("aud", "[\"other\",\"kafka\"]")], Ok("ada")),
        (&[("aud", "[1,\"kafka\"]")], Err(TokenFault::Audience)),
        (&[("aud", "{\"kafka\":1}")], Err(TokenFault::Audience)),
        (&[("sub", "")], Err(TokenFault::Subject)),
        (&[("sub", "\" \"")], Err(TokenFault::Subject)),
        (&[("sub", "7")], Err(TokenFault::Subject)),
        (&[("sub", "\"a\\u0000b\"")], Err(TokenFault::Subject)),
        (&[("sub", "\" eve \"")], Ok("eve")),
        // Another kind of space is of the name, as in Kafka: that is another user than eve.
        (&[("sub", "\"\u{a0}eve\"")], Ok("\u{a0}eve")),
        (&[("sub", "\"eve\u{3000}\"")], Ok("eve\u{3000}")),
        (&[("sub", "\"eve\\u2028\"")], Ok("eve\u{2028}")),
        // The name of those that have shown nothing.
        (&[("sub", "\"ANONYMOUS\"")], Err(TokenFault::Subject)),
        (&[("sub", "\" ANONYMOUS\\n\"")], Err(TokenFault::Subject)),
        (&[("sub", "\"anonymous\"")], Ok("anonymous")),
        (&[("scope", "\"read write\"")], Ok("ada")),
        (&[("scope", "[\"read\",\"write\"]")], Ok("ada")),
        (&[("scope", "[]")], Ok("ada")),
        (&[("scope", "\"\"")], Err(TokenFault::Scope)),
        (&[("scope", "[\"read\",\"read\"]")], Err(TokenFault::Scope)),
        (&[("scope", "[\"read\",\" \"]")], Err(TokenFault::Scope)),
        (&[("scope", "7")], Err(TokenFault::Scope)),
        (&[("scope", "[7]")], Err(TokenFault::Scope)),
    ] {
        let told = of_claims(replaced).map(|owner| owner.name);
        assert_eq!(told, expected.map(str::to_owned), "{replaced:?}");
    }
    let long = format!("\"{}\"", "x".repeat(9000));
    assert_eq!(of_claims(&[("sub", &long)]), Err(TokenFault::Subject));
    // As in Kafka a token with an audience is refused where none is expected.
    let open = Expectations {
        issuer: None,
        audiences: Vec::new(),
        subject_claim: "upn".to_owned(),
        ..expected()
    };
    let told = |replaced: &[(&str, &str)]| {
        let token = PROVIDER.token_of(&claims(replaced));
        let told = judge(&token, &keys(), &open, NOW_MS);
        told.map(|owner| owner.name)
            .map_err(|refused| refused.fault)
    };
    let bob = ("upn", "\"bob\"");
    assert_eq!(told(&[("aud", ""), ("iss", ""), bob]), Ok("bob".to_owned()));
    assert_eq!(told(&[bob]), Err(TokenFault::Audience));
    assert_eq!(told(&[("aud", "")]), Err(TokenFault::Subject));
}

#[test]
fn claims_are_one_object_without_a_name_twice_and_not_without_end() {
    let twice = claims(&[]).replacen('{', r#"{"sub":"root","#, 1);
    let escaped = claims(&[]).replacen('{', r#"{"s\u0075b":"root","#, 1);
    let inner = claims(&[("x", r#"{"a":1,"a":2}"#)]);
    let deep = |depth: usize| claims(&[("x", &("[".repeat(depth) + &"]".repeat(depth)))]);
    let many = claims(&[("x", &format!("[{}0]", "0,".repeat(3000)))]);
    for wrong in [&twice, &escaped, &inner, &deep(100), &deep(3000), &many] {
        assert_eq!(judged(&PROVIDER.token_of(wrong)), Err(TokenFault::Claims));
    }
    assert!(judged(&PROVIDER.token_of(&deep(5))).is_ok());
    for wrong in ["", "[]", "\"ada\"", "null", "{}x", "\u{feff}{}"] {
        let told = judged(&PROVIDER.token_of(wrong));
        assert!(
            matches!(told, Err(TokenFault::Claims | TokenFault::Form)),
            "{wrong}"
        );
    }
}

#[test]
fn the_name_of_an_unknown_key_is_told_apart_from_other_faults() {
    let header = r#"{"alg":"RS256","kid":"newer"}"#;
    let token = PROVIDER.token("RS256", header, &claims(&[]));
    let refused = judge(&token, &keys(), &expected(), NOW_MS).unwrap_err();
    assert_eq!(refused.unknown_key.as_deref(), Some("newer"));
    let long = format!(
        r#"{{"alg":"RS256","kid":"{}"}}"#,
        "x".repeat(ID_BYTES_MAX + 1)
    );
    let token = PROVIDER.token("RS256", &long, &claims(&[]));
    let refused = judge(&token, &keys(), &expected(), NOW_MS).unwrap_err();
    assert_eq!(
        (refused.fault, refused.unknown_key),
        (TokenFault::Header, None)
    );
}

#[test]
fn no_fault_shows_anything_of_a_token() {
    let mut all = String::new();
    for fault in TokenFault::ALL {
        let _ = write!(all, "{fault:?} {} {}", fault.words(), fault.label());
        assert!(
            fault
                .label()
                .bytes()
                .all(|byte| byte == b'_' || byte.is_ascii_lowercase())
        );
    }
    assert!(!all.contains("ada"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn a_token_with_another_byte_is_refused(at in 0_usize..10_000, by in 1_u8..=255) {
        let header = r#"{"alg":"ES256","kid":"p256"}"#;
        let token = PROVIDER.token("ES256", header, &claims(&[]));
        let mut bytes = token.clone().into_bytes();
        let at = at % bytes.len();
        bytes[at] ^= by;
        if let Ok(changed) = String::from_utf8(bytes) {
            prop_assert!(judged(&changed).is_err(), "{at} {by}");
        }
    }

    #[test]
    fn whatever_comes_is_refused(header: Vec<u8>, claims: Vec<u8>, signature: Vec<u8>, text: String) {
        prop_assert!(judged(&text).is_err());
        let token = format!("{}.{}.{}", encoded(header), encoded(claims), encoded(signature));
        prop_assert!(judged(&token).is_err());
    }

    #[test]
    fn whatever_is_signed_is_judged_and_lets_in_only_who_it_names(
        sub in "[a-z]{1,5}", exp in any::<i64>(), iat in any::<i64>(), nbf in any::<i64>(),
    ) {
        let [exp_text, iat, nbf] = [exp, iat, nbf].map(|it| it.to_string());
        let name = format!("\"{sub}\"");
        let claims = claims(&[("sub", &name), ("exp", &exp_text), ("iat", &iat), ("nbf", &nbf)]);
        let token = PROVIDER.token("ES256", r#"{"alg":"ES256","kid":"p256"}"#, &claims);
        if let Ok(owner) = judged(&token) {
            prop_assert_eq!(owner, TokenOwner { name: sub, expires_ms: exp * 1000 });
        }
    }
}
