//! Messages that no honest peer sends.

use super::*;

/// Checks that a first message of a client is malformed, unless another refusal is given.
#[track_caller]
fn check_first(text: &str, expected: Option<Refusal>) {
    let refusal = ClientFirst::parse(text.as_bytes()).unwrap_err();
    match expected {
        Some(expected) => assert_eq!(refusal, expected, "{text}"),
        None => assert!(matches!(refusal, Refusal::Malformed { .. }), "{text}"),
    }
}

#[test]
fn a_first_message_has_a_header_a_name_and_a_nonce() {
    for text in [
        "n,,n=user,r=x",
        "n,a=user,n=user,r=x",
        "n,a=a=2Cb,n=a=2Cb,r=x",
        "n,,n=user,r=!~,ext=1,other=a=b",
        "n,,n=user,r=x,tokenauth=false",
        "n,,n=user,r=x,mm=1,M=1",
        "n,,n=\u{e4}\u{1f697} ,r=x",
    ] {
        assert!(ClientFirst::parse(text.as_bytes()).is_ok(), "{text}");
    }
    for text in [
        "",
        "n,,",
        "n,,n=user",
        "n,,r=x,n=user",
        "n,,n=,r=x",
        "n,,n=user,r=",
        "n,,n=user,r=a b",
        "n,,n=user,r=\u{e4}",
        "n,,n=us=er,r=x",
        "n,,n=us\0er,r=x",
        "n,,m=must,n=user,r=x",
        "n,,n=user,m=must,r=x",
        "n,,n=user,r=x,m=must",
        "n,,n=user,r=x,ext=1,m=must",
        "n,,n=user,r=x,",
        "n,,n=user,r=x,e1=x",
        "n,,n=user,r=x,ext",
        "n,,n=user,r=x,ext=",
        "n,,n=user,r=x,=x",
        "n=user,r=x",
        "user\0pencil",
    ] {
        check_first(text, None);
    }
    for text in ["y,,n=user,r=x", "p=tls-server-end-point,,n=user,r=x"] {
        check_first(text, Some(Refusal::ChannelBinding));
    }
    for value in ["true", "TRUE", "True"] {
        let text = format!("n,,n=user,r=x,ext=1,tokenauth={value}");
        check_first(&text, Some(Refusal::DelegationToken));
    }
    check_first("n,a=root,n=user,r=x", Some(Refusal::OtherIdentity));
    let long = ClientFirst::parse(format!("n,,n=user,r={}", "x".repeat(513)).as_bytes());
    assert!(matches!(long, Err(Refusal::TooLong { .. })));
    let long = ClientFirst::parse(format!("n,,n={},r=x", "x".repeat(1025)).as_bytes());
    assert!(matches!(long, Err(Refusal::TooLong { .. })));
    let long = ClientFirst::parse(&vec![b'n'; MESSAGE_BYTES_MAX + 1]);
    assert!(matches!(long, Err(Refusal::TooLong { .. })));
    let bytes = ClientFirst::parse(b"n,,n=us\xffer,r=x");
    assert!(matches!(bytes, Err(Refusal::Malformed { .. })));
}

/// A server that waits for the proof of Ada.
fn server() -> Server {
    server_after("n,,")
}

/// Likewise, after a first message with this header.
fn server_after(header: &str) -> Server {
    let first = ClientFirst::parse(format!("{header}n=ada,r=x").as_bytes()).unwrap();
    let keys = Keys::of_salted(ScramHash::Sha256, b"any salted password");
    let known = Credential::new(ScramHash::Sha256, b"salt", 4096, keys).unwrap();
    let nonce = Nonce::of_text("y");
    Server::answer(ScramHash::Sha256, first, nonce, Some(&known), &decoy()).0
}

#[test]
fn a_last_message_without_a_proof_of_this_exchange_is_refused() {
    let zero = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let refused = |text: &str| {
        server()
            .finish(text.replace('0', zero).as_bytes())
            .unwrap_err()
    };
    for (text, expected) in [
        ("c=biws,r=xy,p=0", Refusal::Credentials),
        ("c=biws,r=xy,ext=1,p=0", Refusal::Credentials),
        ("c=biws,r=xy,p=", Refusal::Credentials),
        ("c=biws,r=xy,p=AAAA", Refusal::Credentials),
        // The header of another first message: `y,,`, `n,a=x,`, nothing.
        ("c=eSws,r=xy,p=0", Refusal::ChannelBinding),
        ("c=bixhPXgs,r=xy,p=0", Refusal::ChannelBinding),
        ("c=,r=xy,p=0", Refusal::ChannelBinding),
        ("c=biws,r=x,p=0", Refusal::Nonce),
        ("c=biws,r=xyz,p=0", Refusal::Nonce),
        ("c=biws,r=XY,p=0", Refusal::Nonce),
    ] {
        assert_eq!(refused(text), expected, "{text}");
    }
    for text in [
        "",
        "c=biws,r=xy",
        "c=biws,r=xy,p=0,ext=1",
        "c=biws,r=xy,p=!",
        "c=biws,r=xy,p=AA",
        "c=biwt=,r=xy,p=0",
        "r=xy,c=biws,p=0",
        "c=biws,p=0",
        "c=biws,r=xy,ext,p=0",
        "m=must,c=biws,r=xy,p=0",
        "c=biws,r=xy,m=must,p=0",
        "c=biws,r=xy,ext=1,m=must,p=0",
        "c=biws,r=x y,p=0",
    ] {
        let refusal = refused(text);
        assert!(matches!(refusal, Refusal::Malformed { .. }), "{text}");
    }
    let long = server().finish(&vec![b'c'; MESSAGE_BYTES_MAX + 1]);
    assert!(matches!(long, Err(Refusal::TooLong { .. })));
}

#[test]
fn a_client_that_named_itself_repeats_the_header_with_its_name_or_without() {
    let refused = |header: &str| {
        let zero = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
        let text = format!("c={header},r=xy,p={zero}");
        let finished = server_after("n,a=ada,").finish(text.as_bytes());
        finished.unwrap_err()
    };
    // `n,,` and `n,a=ada,`.
    for header in ["biws", "bixhPWFkYSw="] {
        assert_eq!(refused(header), Refusal::Credentials, "{header}");
    }
    // `y,,`, `n,a=bob,`, nothing.
    for header in ["eSws", "bixhPWJvYiw=", ""] {
        assert_eq!(refused(header), Refusal::ChannelBinding, "{header}");
    }
}

#[test]
fn a_client_that_named_itself_and_leaves_the_name_out_at_the_end_logs_in() {
    for (name, header) in [("ada", "n,a=ada,"), ("a=b", "n,a=a=3Db,")] {
        let hash = ScramHash::Sha256;
        let known = credential(hash, "pencil");
        let begun = Client::start(hash, name, secret("pencil"), client_nonce());
        let (client, first) = begun.unwrap();
        let first = String::from_utf8(first).unwrap().replacen("n,,", header, 1);
        let first = ClientFirst::parse(first.as_bytes()).unwrap();
        let (server, answer) = Server::answer(hash, first, server_nonce(), Some(&known), &decoy());
        let (proven, last) = client.answer(&answer).unwrap();
        assert!(last.starts_with(b"c=biws,"));
        let accepted = server.finish(&last).unwrap();
        assert_eq!(accepted.name, name);
        assert_eq!(proven.finish(&accepted.reply), Ok(()));
    }
}

/// A client that waits for the salt.
fn client() -> Client {
    let nonce = Nonce::of_text("x");
    Client::start(ScramHash::Sha256, "ada", secret("pencil"), nonce)
        .unwrap()
        .0
}

#[test]
fn a_client_spends_no_more_than_it_has_to_on_any_server() {
    let answered = |text: &str| client().answer(text.as_bytes()).map(drop);
    assert_eq!(answered("r=xy,s=AAAA,i=4096"), Ok(()));
    assert_eq!(answered("r=xy,s=AAAA,i=004096,ext=1"), Ok(()));
    // Kafka stores credentials with an empty salt.
    assert_eq!(answered("r=xy,s=,i=4096"), Ok(()));
    for iterations in [0, 1, 4095, CLIENT_ITERATIONS_MAX + 1, 1 << 31, u32::MAX] {
        let text = format!("r=xy,s=AAAA,i={iterations}");
        let expected = Refusal::Iterations {
            iterations,
            min: ITERATIONS_MIN,
            max: CLIENT_ITERATIONS_MAX,
        };
        assert_eq!(answered(&text), Err(expected));
    }
    for text in [
        "r=x,s=AAAA,i=4096",
        "r=y,s=AAAA,i=4096",
        "r=Xy,s=AAAA,i=4096",
    ] {
        assert_eq!(answered(text), Err(Refusal::Nonce), "{text}");
    }
    for text in [
        "",
        "r=xy,s=AAA,i=4096",
        "r=xy,s=AB==,i=4096",
        "r=xy,s=AAAA,i=",
        "r=xy,s=AAAA,i=-4096",
        "r=xy,s=AAAA,i=+4096",
        "r=xy,s=AAAA,i=4294967296",
        "r=xy,s=AAAA,i=4096,",
        "r=xy,s=AAAA",
        "m=must,r=xy,s=AAAA,i=4096",
        "r=xy,m=must,s=AAAA,i=4096",
        "r=xy,s=AAAA,i=4096,m=must",
        "r=xy,s=AAAA,i=4096,ext=1,m=must",
        "e=unknown-user",
        "v=AAAA",
    ] {
        let refusal = answered(text).unwrap_err();
        assert!(matches!(refusal, Refusal::Malformed { .. }), "{text}");
    }
    let salt = "AAAA".repeat(SALT_BYTES_MAX / 3 + 1);
    let nonce = "y".repeat(1024);
    for text in [
        format!("r=xy,s={salt},i=4096"),
        format!("r=x{nonce},s=AAAA,i=4096"),
        "x".repeat(1 << 20),
    ] {
        assert!(matches!(answered(&text), Err(Refusal::TooLong { .. })));
    }
}

#[test]
fn a_server_that_does_not_know_the_user_is_found_out() {
    let finished = |text: &str| {
        let (proven, _) = client().answer(b"r=xy,s=AAAA,i=4096").unwrap();
        proven.finish(text.as_bytes())
    };
    for text in [
        "v=",
        "v=AAAA",
        "v=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=,ext=1",
    ] {
        assert_eq!(finished(text), Err(Refusal::ServerSignature), "{text}");
    }
    for (text, error) in [
        ("e=unknown-user", "unknown-user"),
        ("e=invalid-proof,ext=1", "invalid-proof"),
        ("e=\u{1b}[2Jyour password, please", "other-error"),
    ] {
        assert_eq!(finished(text), Err(Refusal::ByServer { error }));
    }
    for text in [
        "",
        "v",
        "v=A",
        "V=AAAA",
        "v=AAAA,",
        "v=AAAA,m=must",
        "m=must,v=AAAA",
        "x=AAAA",
    ] {
        assert!(
            matches!(finished(text), Err(Refusal::Malformed { .. })),
            "{text}"
        );
    }
}

#[test]
fn a_changed_byte_anywhere_fails() {
    let hash = ScramHash::Sha256;
    let known = credential(hash, "pencil");
    let of = |changed| Exchange {
        hash,
        name: "ada",
        password: "pencil",
        known: Some(&known),
        changed,
    };
    let (sent, ..) = of(None).run();
    assert_eq!(sent.len(), 4);
    for (message, bytes) in sent.iter().enumerate() {
        for at in 0..bytes.len() {
            // Another bit for each byte.
            let by = 1 << (at % 8);
            let (_, server, client) = of(Some((message, at, by))).run();
            let place = (message, at, by);
            assert!(client.is_err(), "{place:?}");
            // The last message tells the client who the server is, not the other way round.
            assert_eq!(server.is_ok(), message == 3, "{place:?}");
        }
    }
}

#[test]
fn a_replayed_exchange_fails() {
    let hash = ScramHash::Sha256;
    let known = credential(hash, "pencil");
    let exchange = Exchange {
        hash,
        name: "ada",
        password: "pencil",
        known: Some(&known),
        changed: None,
    };
    let (sent, ..) = exchange.run();
    let first = ClientFirst::parse(&sent[0]).unwrap();
    let nonce = Nonce::of_random([3; 18]);
    let (server, _) = Server::answer(hash, first, nonce, Some(&known), &decoy());
    assert_eq!(server.finish(&sent[2]), Err(Refusal::Nonce));
}

proptest! {
    #[test]
    fn any_bytes_are_answered_or_refused(
        bytes in any::<Vec<u8>>(),
        first in "[ny],(a=[a=23CD]{0,3})?,(n=[a=,]{0,3})?,?(r=[xy]{0,2})?(,[a-c]{0,2}=?[a-c]{0,2}){0,2}",
        last in "c=[biws]{0,4},r=xy?(,[a-c]{0,2}=?[a-c]{0,2}){0,2},p=[A=]{0,44}",
        answer in "r=xy?,s=[A=]{0,8},i=[0-9]{0,3}(,[a-c]=[a-c])?",
    ) {
        for bytes in [&bytes[..], first.as_bytes(), last.as_bytes(), answer.as_bytes()] {
            if let Ok(first) = ClientFirst::parse(bytes) {
                let hash = ScramHash::Sha512;
                let (server, _) = Server::answer(hash, first, server_nonce(), None, &decoy());
                prop_assert!(server.finish(bytes).is_err());
            }
            prop_assert!(server().finish(bytes).is_err());
            prop_assert!(client().answer(bytes).is_err());
        }
    }
}
