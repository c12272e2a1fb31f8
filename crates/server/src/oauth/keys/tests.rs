//! Sets of keys, whole and broken.

use proptest::prelude::*;

use super::super::signed::PROVIDER;
use super::*;

fn parse(text: &str) -> Result<KeySet, KeySetProblem> {
    KeySet::parse(text.as_bytes())
}

#[test]
fn a_set_has_the_keys_that_verify_and_leaves_the_others_out() {
    let set = parse(&PROVIDER.set()).unwrap();
    assert_eq!((set.len(), set.left_out()), (4, 1));
    assert_eq!(set.left_out_names(), "\"secret\"");
    assert!(set.find(Some("r"), Algorithm::Rs256).is_ok());
    assert!(set.find(Some("r"), Algorithm::Ps512).is_ok());
    let told = |id, algorithm| set.find(id, algorithm).map(|_| ()).unwrap_err();
    assert_eq!(told(Some("r"), Algorithm::Es256), NoKey::OtherAlgorithm);
    assert_eq!(told(Some("p256"), Algorithm::Es384), NoKey::OtherAlgorithm);
    assert_eq!(told(Some("secret"), Algorithm::Rs256), NoKey::Unknown);
    assert_eq!(told(None, Algorithm::Es512), NoKey::Unnamed);
    // What the provider says of a key narrows it.
    let narrow = parse(&PROVIDER.set_with(r#","alg":"PS384""#)).unwrap();
    assert!(narrow.find(Some("r"), Algorithm::Ps384).is_ok());
    let told = narrow
        .find(Some("r"), Algorithm::Rs256)
        .map(|_| ())
        .unwrap_err();
    assert_eq!(told, NoKey::OtherAlgorithm);
    for more in [
        r#","use":"enc""#,
        r#","use":7"#,
        r#","key_ops":["encrypt"]"#,
        r#","key_ops":"verify""#,
        r#","alg":"HS256""#,
        r#","alg":"ES256""#,
        r#","alg":"RSA-OAEP""#,
    ] {
        let set = parse(&PROVIDER.set_with(more)).unwrap();
        assert_eq!((set.len(), set.left_out()), (3, 2), "{more}");
    }
}

#[test]
fn two_keys_without_a_name_fit_nobody() {
    let one = PROVIDER.set();
    let key = &one[one.find('{').unwrap() + 1..];
    let key = &key[key.find('{').unwrap()..=key.find('}').unwrap()];
    let set = parse(&format!(r#"{{"keys":[{key},{key}]}}"#)).unwrap();
    assert_eq!(
        set.find(None, Algorithm::Rs256).map(|_| ()).unwrap_err(),
        NoKey::Unnamed
    );
    assert!(set.find(Some("r"), Algorithm::Rs256).is_ok());
}

#[test]
fn a_weak_or_broken_key_is_none() {
    let b64 = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let rsa = |bytes: usize, exponent: &[u8]| {
        let mut modulus = vec![0xc1; bytes];
        modulus[bytes - 1] = 1;
        PublicKey::rsa(&modulus, exponent).is_some()
    };
    assert!(rsa(256, &[1, 0, 1]) && rsa(1024, &[3]) && rsa(256, &[0, 0, 1, 0, 1]));
    assert!(!rsa(128, &[1, 0, 1]) && !rsa(255, &[1, 0, 1]) && !rsa(1025, &[1, 0, 1]));
    for exponent in [&[][..], &[0], &[1], &[2], &[1, 0, 0], &[1, 1, 1, 1, 1]] {
        assert!(!rsa(256, exponent), "{exponent:?}");
    }
    assert!(PublicKey::rsa(&[0; 256], &[3]).is_none());
    assert!(PublicKey::on_curve("P-256", &[0; 32], &[0; 32]).is_none());
    assert!(PublicKey::on_curve("P-256", &[1; 32], &[1; 32]).is_none());
    assert!(PublicKey::on_curve("secp256k1", &[1; 32], &[1; 32]).is_none());
    assert!(PublicKey::edwards(&[1; 31]).is_none());
    for key in [
        "7".to_owned(),
        r#"{"kty":"RSA"}"#.to_owned(),
        r#"{"kty":"RSA","n":7,"e":"AQAB"}"#.to_owned(),
        format!(r#"{{"kty":"RSA","n":"{}=","e":"AQAB"}}"#, b64(&[0xc1; 255])),
        r#"{"kty":"oct","k":"c2VjcmV0"}"#.to_owned(),
        r#"{"kty":"OKP","crv":"X25519","x":"AQ"}"#.to_owned(),
        r#"{"kty":"EC","crv":"P-256","x":"AQ","y":"AQ"}"#.to_owned(),
    ] {
        let told = parse(&format!(r#"{{"keys":[{key}]}}"#)).unwrap_err();
        assert_eq!(told, KeySetProblem::NoneServed(1), "{key}");
    }
}

#[test]
fn what_is_no_set_is_refused_with_its_reason() {
    let many = format!(r#"{{"keys":[{}{{}}]}}"#, "{},".repeat(KEYS_MAX));
    let long = " ".repeat(SET_BYTES_MAX + 1);
    let wide = format!(r#"{{"keys":[],"x":[{}0]}}"#, "0,".repeat(VALUES_MAX));
    for (text, expected) in [
        ("", KeySetProblem::NoObject),
        ("<html>", KeySetProblem::NoObject),
        ("[]", KeySetProblem::NoObject),
        (r#"{"keys":[],"keys":[]}"#, KeySetProblem::NoObject),
        (&wide, KeySetProblem::NoObject),
        ("{}", KeySetProblem::NoKeys),
        (r#"{"keys":{}}"#, KeySetProblem::NoKeys),
        (r#"{"keys":[]}"#, KeySetProblem::NoneServed(0)),
        (&many, KeySetProblem::TooMany),
        (&long, KeySetProblem::TooLong),
    ] {
        assert_eq!(parse(text).unwrap_err(), expected);
    }
}

proptest! {
    #[test]
    fn whatever_comes_is_a_set_or_none(bytes: Vec<u8>, at in 0_usize..4000, by in 1_u8..=255) {
        prop_assert!(KeySet::parse(&bytes).is_err());
        let mut set = PROVIDER.set().into_bytes();
        let at = at % set.len();
        set[at] ^= by;
        if let Ok(set) = KeySet::parse(&set) {
            prop_assert!((1..=5).contains(&set.len()));
        }
    }
}

#[test]
fn the_log_names_the_first_keys_that_are_left_out_and_counts_the_others() {
    let key = &PROVIDER.set()["{\"keys\":[".len()..];
    let key = &key[..=key.find('}').unwrap()];
    let encrypts = |id: &str| format!(r#"{{"kty":"RSA","use":"enc","kid":"{id}"}}"#);
    let mut all = vec![
        key.to_owned(),
        r#"{"kty":"oct"}"#.to_owned(),
        "7".to_owned(),
    ];
    all.push(encrypts(&format!("line\\n{}", "k".repeat(200))));
    all.extend((0..20).map(|number| encrypts(&format!("e{number}"))));
    let set = parse(&format!(r#"{{"keys":[{}]}}"#, all.join(","))).unwrap();
    assert_eq!((set.len(), set.left_out()), (1, 23));
    let names = set.left_out_names();
    let expected = format!(
        "one without kid, one without kid, \"line\\n{}\", \"e0\"",
        "k".repeat(59)
    );
    assert!(names.starts_with(&expected), "{names}");
    assert!(names.ends_with("\"e4\", and 15 more"), "{names}");
}
