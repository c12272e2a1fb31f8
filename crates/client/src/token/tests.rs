//! Tokens from files, the environment, and a provider that is scripted here.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap()
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(5)
}

#[test]
fn a_file_is_read_at_each_login_and_said_what_is_wrong_with() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    let source = TokenSource::File(path.clone());
    let token = || runtime().block_on(source.token(soon()));
    assert!(token().unwrap_err().to_string().contains("token: "));
    for text in ["a.b.c", "d.e.f\n"] {
        std::fs::write(&path, text).unwrap();
        assert_eq!(token().unwrap().expose(), text.trim());
    }
    let long = vec![b'a'; ANSWER_BYTES_MAX + 1];
    for wrong in [&b" \n"[..], b"\xff", &long] {
        std::fs::write(&path, wrong).unwrap();
        let said = token().unwrap_err().to_string();
        assert!(
            said.starts_with("the file of the token: ") && said.len() < 300,
            "{said}"
        );
    }
    let unset = TokenSource::Environment("FOREBAY_NO_SUCH_TOKEN".to_owned());
    let said = runtime().block_on(unset.token(soon())).unwrap_err();
    assert!(
        said.to_string()
            .contains("FOREBAY_NO_SUCH_TOKEN is not set"),
        "{said}"
    );
}

#[test]
fn a_provider_is_asked_once_while_its_token_lasts() {
    runtime().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/token", listener.local_addr().unwrap());
        let secret = Secret::new("hunter2".to_owned());
        let url = HttpUrl::parse(&url).unwrap();
        let scope = Some("read all".to_owned());
        let provider = Arc::new(TokenProvider::new(url, ("ada", &secret), scope, None));
        assert!(!format!("{provider:?}").contains("hunter2"));
        let source = TokenSource::Provider(provider);
        let answers = [
            r#"{"access_token":"a.b.c","expires_in":0}"#,
            r#"{"access_token":"d.e.f","expires_in":3600}"#,
        ];
        let serving = async {
            for answer in answers {
                let (mut socket, _) = listener.accept().await.unwrap();
                let mut asked = Vec::new();
                while !asked.ends_with(b"scope=read+all") {
                    assert!(socket.read_buf(&mut asked).await.unwrap() > 0);
                }
                let asked = String::from_utf8(asked).unwrap();
                assert!(
                    asked.contains("authorization: Basic YWRhOmh1bnRlcjI=\r\n"),
                    "{asked}"
                );
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n",
                    answer.len()
                );
                socket.write_all((head + answer).as_bytes()).await.unwrap();
            }
        };
        let asking = async {
            let mut tokens = Vec::new();
            for _ in 0..4 {
                tokens.push(source.token(soon()).await.unwrap().expose().clone());
            }
            assert_eq!(tokens, ["a.b.c", "d.e.f", "d.e.f", "d.e.f"]);
        };
        tokio::join!(serving, asking);
    });
}

#[test]
fn a_token_that_a_broker_has_refused_is_kept_no_longer() {
    runtime().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/token", listener.local_addr().unwrap());
        let url = HttpUrl::parse(&url).unwrap();
        let secret = Secret::new("hunter2".to_owned());
        let provider = Arc::new(TokenProvider::new(url, ("ada", &secret), None, None));
        let source = TokenSource::Provider(provider);
        let serving = async {
            for token in ["a.b.c", "d.e.f"] {
                let (mut socket, _) = listener.accept().await.unwrap();
                let mut asked = Vec::new();
                while !asked.ends_with(b"grant_type=client_credentials") {
                    assert!(socket.read_buf(&mut asked).await.unwrap() > 0);
                }
                let answer = format!(
                    "HTTP/1.1 200 OK\r\n\r\n{{\"access_token\":\"{token}\",\"expires_in\":3600}}"
                );
                socket.write_all(answer.as_bytes()).await.unwrap();
            }
        };
        let asking = async {
            let first = source.token(soon()).await.unwrap();
            assert_eq!(first.expose(), "a.b.c");
            // Of another login.
            source.refused(&Secret::new("x.y.z".to_owned()));
            assert_eq!(source.token(soon()).await.unwrap().expose(), "a.b.c");
            source.refused(&first);
            let next = source.token(soon()).await.unwrap();
            assert_eq!(next.expose(), "d.e.f");
            // A late word on the first changes nothing.
            source.refused(&first);
            assert_eq!(source.token(soon()).await.unwrap().expose(), "d.e.f");
        };
        tokio::join!(serving, asking);
    });
}

#[test]
fn an_answer_without_a_token_is_an_error() {
    for answer in [
        "",
        "[]",
        "{}",
        r#"{"access_token":1}"#,
        r#"{"access_token":""}"#,
        "hunter2",
    ] {
        let said = granted(answer.as_bytes()).unwrap_err();
        assert!(said.starts_with("the answer "), "{said}");
    }
    let (token, life) = granted(br#"{"access_token":"x","expires_in":1e3}"#).unwrap();
    assert_eq!((token.expose().as_str(), life), ("x", Duration::ZERO));
}

#[test]
fn the_subject_of_a_token_is_read_if_it_has_one() {
    let token = |claims: &str| Secret::new(format!("x.{}.y", URL_SAFE_NO_PAD.encode(claims)));
    assert_eq!(subject(&token(r#"{"sub":"ada"}"#)).as_deref(), Some("ada"));
    for none in ["", "{}", r#"{"sub":1}"#] {
        assert_eq!(subject(&token(none)), None);
    }
    assert_eq!(subject(&Secret::new("opaque".to_owned())), None);
    assert_eq!(encoded("a b/\u{e9}+"), "a+b%2F%C3%A9%2B");
}
