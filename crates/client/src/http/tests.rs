//! Servers that answer rightly, wrongly, too much, or not at all.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

fn bounds() -> HttpBounds {
    HttpBounds {
        body_bytes_max: 100,
        deadline: Instant::now() + Duration::from_secs(5),
    }
}

/// What a server is asked, and what follows from an answer after which it ends the connection.
async fn told(answer: &[u8], content: &HttpContent) -> (String, Result<Vec<u8>, HttpError>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let url = HttpUrl::parse(&format!("http://127.0.0.1:{port}/keys?a=b")).unwrap();
    let serving = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut asked = vec![0; 4096];
        let mut length = 0;
        while !asked[..length].windows(4).any(|it| it == b"\r\n\r\n") {
            length += socket.read(&mut asked[length..]).await.unwrap();
        }
        asked.truncate(length);
        let _ = socket.write_all(answer).await;
        let _ = socket.shutdown().await;
        String::from_utf8(asked).unwrap()
    };
    tokio::join!(serving, ask(&url, content, None, bounds()))
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap()
}

#[test]
fn an_answer_comes_whole_however_its_length_is_told() {
    runtime().block_on(async {
        for answer in [
            &b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{\"a\":1}"[..],
            b"HTTP/1.1 200 OK\r\n\r\n{\"a\":1}",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{\"a\r\n4\r\n\":1}\r\n0\r\n\r\n",
        ] {
            let (asked, body) = told(answer, &HttpContent::Get).await;
            assert!(asked.starts_with("GET /keys?a=b HTTP/1.1\r\n"), "{asked}");
            assert!(asked.contains("host: 127.0.0.1:"), "{asked}");
            assert_eq!(body.unwrap(), b"{\"a\":1}");
        }
    });
}

#[test]
fn a_body_in_pieces_of_a_byte_is_whole_and_bounded() {
    runtime().block_on(async {
        let of = |pieces: usize| {
            let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
            format!("{head}{}0\r\n\r\n", "1\r\nx\r\n".repeat(pieces))
        };
        let (_, body) = told(of(100).as_bytes(), &HttpContent::Get).await;
        assert_eq!(body.unwrap(), [b'x'; 100]);
        let (_, body) = told(of(101).as_bytes(), &HttpContent::Get).await;
        let said = body.unwrap_err().to_string();
        assert_eq!(said, "the answer has more than 100 bytes");
    });
}

#[test]
fn the_reason_of_a_failure_is_bounded_whatever_a_certificate_has() {
    let long = io::Error::other("n.example or ".repeat(10_000));
    let said = failed("the handshake of TLS", &long).to_string();
    assert!(said.starts_with("the handshake of TLS: n.example or "));
    assert!(said.len() < 2 * REASON_BYTES_MAX, "{}", said.len());
}

#[test]
fn a_form_goes_with_credentials_that_no_error_shows() {
    let form = HttpContent::Form {
        authorization: Secret::new("Basic aHVudGVyMg==".to_owned()),
        fields: "grant_type=client_credentials".to_owned(),
    };
    assert!(!format!("{form:?}").contains("aHVudGVyMg"));
    runtime().block_on(async {
        let (asked, body) = told(
            b"HTTP/1.1 401 No\r\nContent-Length: 7\r\n\r\nhunter2",
            &form,
        )
        .await;
        assert!(asked.starts_with("POST /keys?a=b "), "{asked}");
        assert!(
            asked.contains("authorization: Basic aHVudGVyMg==\r\n"),
            "{asked}"
        );
        let said = body.unwrap_err().to_string();
        assert_eq!(said, "the answer is 401 Unauthorized");
    });
    let broken = HttpContent::Form {
        authorization: Secret::new("Basic hunter2\n".to_owned()),
        fields: String::new(),
    };
    let url = HttpUrl::parse("https://a/").unwrap();
    let said = request(&url, &broken).unwrap_err().to_string();
    assert!(!said.contains("hunter2"), "{said}");
}

#[test]
fn what_is_no_answer_is_an_error_within_bounds() {
    runtime().block_on(async {
        let long = format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(1 << 20));
        let claimed = "HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\nx";
        let head = format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "x".repeat(1 << 20));
        let redirect = "HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\n\r\n";
        for (answer, expected) in [
            (long.as_str(), "the answer has more than 100 bytes"),
            (claimed, "the answer has more than 100 bytes"),
            (
                redirect,
                "the answer is 302 Found, and no redirect is followed",
            ),
            ("SSH-2.0-OpenSSH\r\n", "what comes is no answer of HTTP"),
            (head.as_str(), "what comes is no answer of HTTP"),
            ("", "receiving: "),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx",
                "receiving: ",
            ),
        ] {
            let (_, body) = told(answer.as_bytes(), &HttpContent::Get).await;
            let said = body.unwrap_err().to_string();
            assert!(said.starts_with(expected), "{said}");
        }
    });
}

#[test]
fn a_server_that_says_nothing_is_given_up() {
    runtime().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let url = HttpUrl::parse(&format!("http://localhost:{port}/")).unwrap();
        let bounds = HttpBounds {
            body_bytes_max: 1,
            deadline: Instant::now() + Duration::from_millis(100),
        };
        let error = ask(&url, &HttpContent::Get, None, bounds)
            .await
            .unwrap_err();
        assert!(matches!(error, HttpError::Late), "{error}");
        let encrypted = HttpUrl::parse(&format!("https://127.0.0.1:{port}/")).unwrap();
        let bounds = HttpBounds {
            deadline: Instant::now() + Duration::from_secs(5),
            ..bounds
        };
        let said = ask(&encrypted, &HttpContent::Get, None, bounds)
            .await
            .unwrap_err();
        assert!(said.to_string().contains("no certificates"), "{said}");
    });
}
