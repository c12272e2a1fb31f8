//! Messages as Kafka reads them, and those that no server reads.

use proptest::prelude::*;

use super::*;
use crate::sasl::recorded;

fn secret(text: &str) -> Secret<String> {
    Secret::new(text.to_owned())
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}

/// Checks that `text` (with `|` for the separator) is read as this token and these extensions.
#[track_caller]
fn check(text: &str, token: &str, extensions: &[(&str, &str)]) {
    let initial = InitialResponse::parse(text.replace('|', "\u{1}").as_bytes()).unwrap();
    assert_eq!(initial.token(), &secret(token));
    assert_eq!(initial.extensions(), &map(extensions));
}

#[test]
fn a_message_has_a_token_and_may_have_extensions() {
    check("n,,|auth=Bearer a.b-c_d~e+f/g==||", "a.b-c_d~e+f/g==", &[]);
    check("n,,|auth=bEARER   1||", "1", &[]);
    // Of what is there twice the last counts.
    check("n,,|auth=x|h=1|auth=Bearer t|h=2||", "t", &[("h", "2")]);
    check(
        "n,a=ada,|host=example.org|auth=Bearer t|logicalCluster=lkc = 1\t||",
        "t",
        &[("host", "example.org"), ("logicalCluster", "lkc = 1\t")],
    );
}

#[test]
fn what_is_no_message_is_refused() {
    for text in [
        "",
        "n,,",
        "n,,|",
        "n,,||",
        "n,,|auth=Bearer t",
        "n,,|auth=Bearer t|",
        "n,,auth=Bearer t||",
        "n,,|auth=Bearer t||x",
        "n,,|auth=Bearer t|||",
        "n,,|auth=Basic t||",
        "n,,|auth=Bearer||",
        "n,,|auth=Bearer ||",
        "n,,|auth=Bearert||",
        "n,,|auth=Bearer t u||",
        "n,,|auth=Bearer =||",
        "n,,|auth=Bearer t=u||",
        "n,,|auth=Bearer t\u{e4}||",
        "n,,|auth=||",
        "n,,|Auth=Bearer t||",
        "n,,|host=x||",
        "n,,|auth=Bearer t|host=||",
        "n,,|auth=Bearer t|=x||",
        "n,,|auth=Bearer t|h0st=x||",
        "n,,|auth=Bearer t|host||",
        "n,,|auth=Bearer t|host=\u{7f}||",
        "n,,|auth=Bearer t|host=\u{e4}||",
        "n,a=,|auth=Bearer t||",
        "n,a=a=b,|auth=Bearer t||",
    ] {
        let refusal = InitialResponse::parse(text.replace('|', "\u{1}").as_bytes()).unwrap_err();
        assert!(matches!(refusal, Refusal::Malformed { .. }), "{text}");
    }
    for text in ["y,,|auth=Bearer t||", "p=tls-exporter,,|auth=Bearer t||"] {
        let refusal = InitialResponse::parse(text.replace('|', "\u{1}").as_bytes()).unwrap_err();
        assert_eq!(refusal, Refusal::ChannelBinding);
    }
    let refusal = InitialResponse::parse(b"n,,\x01auth=Bearer \xff\x01\x01").unwrap_err();
    assert!(matches!(refusal, Refusal::Malformed { .. }));
}

/// Messages that were given to Kafka's parser, and what it made of them: `refused`, or the token,
/// the authorization id as it stands there, the extensions.
#[test]
fn messages_are_read_as_kafka_reads_them() {
    let golden = include_str!("../../../tests/golden/kafka-4.3/oauthbearer.txt");
    for (bytes, expected) in recorded::lines(golden) {
        let found = InitialResponse::parse(&bytes).map_or("refused".to_owned(), |initial| {
            let authzid = initial.authzid.as_deref().map(encoded);
            let authzid = recorded::hex(&authzid.unwrap_or_default());
            let token = recorded::hex(initial.token().expose());
            let pairs = initial.extensions().iter();
            let pairs = pairs.map(|(key, value)| (key.as_str(), value.as_str()));
            format!("{token} {authzid}{}", recorded::pairs(pairs))
        });
        assert_eq!(found, expected, "{}", bytes.escape_ascii());
    }
}

#[test]
fn lengths_are_bounded() {
    let of = |token: usize, value: usize| {
        let extensions = map(&[("host", &"h".repeat(value))]);
        InitialResponse::new(secret(&"t".repeat(token)), extensions)
    };
    let longest = of(TOKEN_BYTES_MAX, 1000).unwrap();
    assert_eq!(
        InitialResponse::parse(longest.encode().expose()).unwrap(),
        longest
    );
    for (token, value) in [(TOKEN_BYTES_MAX + 1, 1), (1, MESSAGE_BYTES_MAX)] {
        assert!(matches!(of(token, value), Err(Refusal::TooLong { .. })));
    }
    let text = format!(
        "n,,\x01auth=Bearer {}\x01\x01",
        "t".repeat(TOKEN_BYTES_MAX + 1)
    );
    let refusal = InitialResponse::parse(text.as_bytes()).unwrap_err();
    assert!(matches!(refusal, Refusal::TooLong { .. }));
}

#[test]
fn a_token_of_another_identity_is_refused_and_a_bad_one_is_confirmed() {
    let initial = |header: &str| {
        let text = format!("{header}\x01auth=Bearer t\x01\x01");
        InitialResponse::parse(text.as_bytes()).unwrap()
    };
    assert_eq!(initial("n,,").accept("ada"), Ok(()));
    assert_eq!(initial("n,a=ada,").accept("ada"), Ok(()));
    let other = initial("n,a=bob,").accept("ada");
    assert_eq!(other, Err(Refusal::OtherIdentity));

    let reject = || initial("n,,").reject();
    assert_eq!(reject().1, br#"{"status":"invalid_token"}"#);
    assert_eq!(answered(reject().1), Step::Confirm);
    assert_eq!(reject().0.finish(&[CONFIRMATION]), Refusal::Token);
    for bytes in [&b""[..], b"\x01\x01", b"n,,\x01auth=Bearer t\x01\x01"] {
        assert!(matches!(
            reject().0.finish(bytes),
            Refusal::Malformed { .. }
        ));
    }
    assert_eq!(answered(b""), Step::Accepted);
}

#[test]
fn a_token_is_not_shown() {
    let initial = InitialResponse::parse(b"n,,\x01auth=Bearer canary\x01\x01").unwrap();
    let shown = format!("{initial:?} {:?}", initial.encode());
    assert!(!shown.contains("canary") && !shown.contains("97"));
    let refusal = InitialResponse::parse(b"n,,\x01auth=Bearer canary!\x01\x01").unwrap_err();
    assert!(!format!("{refusal} {refusal:?}").contains("canary"));
}

proptest! {
    #[test]
    fn any_bytes_are_answered(bytes in any::<Vec<u8>>(), text in "n,(a=[a-z=23CD]{0,4})?,\u{1}([a-h]{0,2}=?[ -~]{0,3}\u{1}|auth=Bearer [a-z]\u{1}){0,4}\u{1}?") {
        for bytes in [&bytes[..], text.as_bytes()] {
            if let Ok(initial) = InitialResponse::parse(bytes) {
                prop_assert_eq!(InitialResponse::parse(initial.encode().expose()).unwrap(), initial);
            }
        }
    }

    #[test]
    fn what_is_sent_is_read(
        token in "[a-zA-Z0-9._~+/-]{1,60}={0,2}",
        extensions in proptest::collection::btree_map("[A-Z][a-zA-Z]{0,9}", "[ -~\t\r\n]{1,20}", 0..4),
    ) {
        let sent = InitialResponse::new(secret(&token), extensions).unwrap();
        prop_assert_eq!(InitialResponse::parse(sent.encode().expose()).unwrap(), sent);
    }
}
