//! Sets that follow a file, and a provider that is scripted here: with and without TLS.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc as std_mpsc;

use broker::session::{TokenFault, TokenVerifier as _};

use super::super::Verifier;
use super::super::signed::{NOW_S, PROVIDER, claims, expected};
use super::*;

fn settings(place: &str) -> SourceSettings {
    SourceSettings {
        listener: "in".into(),
        setting: "the.url".to_owned(),
        place: KeyPlace::parse(place).unwrap(),
        refresh: Duration::from_millis(50),
        retry: (Duration::from_millis(10), Duration::from_millis(40)),
        look: Duration::from_millis(10),
        tls: Vec::new(),
    }
}

fn source(settings: SourceSettings) -> Arc<KeySource> {
    Arc::new(KeySource::new(settings, OauthMetrics::default()))
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..1000 {
        if is_so() {
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("it does not come: {what}");
}

fn keys_of(source: &KeySource) -> Option<usize> {
    source.current().map(|set| set.len())
}

/// A set of one key.
fn small() -> String {
    let set = PROVIDER.set();
    let end = set.find('}').unwrap();
    format!("{}}}]}}", &set[..end])
}

/// Answers each connection with the next of these texts, the last again and again; says that one
/// was asked.
fn provider(answers: Vec<String>) -> (u16, std_mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (asked, all) = std_mpsc::channel();
    std::thread::spawn(move || {
        let mut answers = answers.into_iter().peekable();
        let mut last = String::new();
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            let mut request = [0; 2048];
            let length = socket.read(&mut request).unwrap_or(0);
            if let Some(next) = answers.next() {
                last = next;
            }
            let _ = socket.write_all(last.as_bytes());
            let request = String::from_utf8_lossy(&request[..length]).into_owned();
            if asked.send(request).is_err() {
                return;
            }
        }
    });
    (port, all)
}

fn ok(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[tokio::test]
async fn a_file_is_read_at_the_start_and_again_when_it_changes_and_kept_when_it_is_broken() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let source = source(settings(&format!("file://{}", path.display())));
    let said = source.open().unwrap_err().to_string();
    assert!(
        said.starts_with("the.url=file:///") && said.contains("cannot be read"),
        "{said}"
    );
    std::fs::write(&path, "{}").unwrap();
    let said = source.open().unwrap_err().to_string();
    assert!(said.ends_with("it has no list named keys"), "{said}");
    let (setting, why) = source.look().unwrap_err();
    assert!(
        setting == "the.url" && why.ends_with("it has no list named keys"),
        "{why}"
    );
    assert_eq!(source.file(), Some(&*path));
    let replace = |text: &str| {
        let new = folder.path().join("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(&new, &path).unwrap();
    };
    replace(&small());
    source.open().unwrap();
    assert_eq!(keys_of(&source), Some(1));
    let (_ask, asked) = mpsc::channel(1);
    let keeping = tokio::spawn(Arc::clone(&source).keep(asked));
    replace(&PROVIDER.set());
    until("the larger set", || keys_of(&source) == Some(4)).await;
    replace("broken");
    until("a failure", || {
        source.metrics.reads(source.listener()).1 > 0
    })
    .await;
    assert_eq!(keys_of(&source), Some(4));
    replace(&small());
    until("the smaller set", || keys_of(&source) == Some(1)).await;
    keeping.abort();
}

/// Lines of the log.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn an_operator_who_asks_is_answered_each_time() {
    let source = source(settings("file:///nowhere/keys.json"));
    let lines = Lines::default();
    let to = lines.clone();
    let log = tracing_subscriber::fmt().with_writer(move || to.clone());
    tracing::subscriber::with_default(log.finish(), || {
        let mut failed = None;
        let mut follow = |bytes: Result<Vec<u8>, String>, cause| {
            source.follow(&mut failed, bytes, cause);
        };
        let set = || Ok(small().into_bytes());
        follow(set(), Cause::Due);
        for cause in [Cause::Due, Cause::Wanted, Cause::Asked, Cause::Asked] {
            follow(set(), cause);
        }
        for cause in [Cause::Due, Cause::Due, Cause::Asked, Cause::Asked] {
            follow(Err("gone".to_owned()), cause);
        }
        follow(set(), Cause::Asked);
    });
    let lines = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    let count = |words: &str| lines.matches(words).count();
    assert_eq!(count("provider are in force"), 1, "{lines}");
    assert_eq!(count("those in force already"), 2, "{lines}");
    assert_eq!(count("are not read: those before stay"), 3, "{lines}");
    assert_eq!(count("can be read again"), 1, "{lines}");
}

#[tokio::test]
async fn a_provider_is_asked_until_it_answers_and_its_last_good_set_is_kept() {
    let broken = "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n".to_owned();
    let redirect = "HTTP/1.1 302 No\r\nLocation: http://169.254.169.254/\r\n\r\n".to_owned();
    let answers = vec![
        broken.clone(),
        redirect,
        ok("<html>"),
        ok(&small()),
        ok(&PROVIDER.set()),
        broken,
    ];
    let (port, asked) = provider(answers);
    let source = source(settings(&format!("http://127.0.0.1:{port}/keys")));
    source.open().unwrap();
    assert_eq!(keys_of(&source), None);
    let (_ask, by_operator) = mpsc::channel(1);
    let keeping = tokio::spawn(Arc::clone(&source).keep(by_operator));
    until("a set", || keys_of(&source) == Some(4)).await;
    let failures = |count| {
        let metrics = source.metrics.clone();
        let listener = Arc::clone(source.listener());
        move || metrics.reads(&listener).1 >= count
    };
    until("later failures", failures(6)).await;
    assert_eq!(keys_of(&source), Some(4), "the last good set stays");
    assert!(asked.recv().unwrap().starts_with("GET /keys HTTP/1.1\r\n"));
    keeping.abort();
}

#[tokio::test]
async fn an_unknown_key_makes_one_early_question_however_many_tokens_name_some() {
    let (port, asked) = provider(vec![ok(&small()), ok(&PROVIDER.set())]);
    let slow = SourceSettings {
        refresh: Duration::from_mins(10),
        ..settings(&format!("http://127.0.0.1:{port}/keys"))
    };
    let source = source(slow);
    let verifier = Verifier::new(expected(), Arc::clone(&source), OauthMetrics::default());
    let of = |key: &str| {
        let header = format!(r#"{{"alg":"ES256","kid":"{key}"}}"#);
        PROVIDER.token("ES256", &header, &claims(&[]))
    };
    let early = verifier.verify(&of("p256"), NOW_S * 1000);
    assert_eq!(early, Err(TokenFault::NoKeys));
    let (_ask, by_operator) = mpsc::channel(1);
    let keeping = tokio::spawn(Arc::clone(&source).keep(by_operator));
    until("a set", || keys_of(&source) == Some(1)).await;
    for number in 0..1000 {
        let told = verifier.verify(&of(&number.to_string()), NOW_S * 1000);
        assert_eq!(told, Err(TokenFault::UnknownKey));
    }
    until("a newer set", || keys_of(&source) == Some(4)).await;
    assert_eq!(
        verifier.verify(&of("p256"), NOW_S * 1000).unwrap().name,
        "ada"
    );
    sleep(Duration::from_millis(100)).await;
    assert_eq!(asked.try_iter().count(), 2);
    keeping.abort();
}

#[tokio::test]
async fn a_provider_of_https_is_verified_by_the_store_of_the_line() {
    let folder = tempfile::tempdir().unwrap();
    let own = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let other = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let port = tls_provider(&own, ok(&small()));
    let with_store = |pem: &str| {
        let path = folder.path().join("ca.pem");
        std::fs::write(&path, pem).unwrap();
        let secret = |text: &str| Secret::new(text.to_owned());
        SourceSettings {
            tls: vec![
                ("ssl.truststore.type".to_owned(), secret("PEM")),
                (
                    "ssl.truststore.location".to_owned(),
                    secret(&path.display().to_string()),
                ),
            ],
            ..settings(&format!("https://localhost:{port}/keys"))
        }
    };
    let settings = with_store(&own.cert.pem());
    let KeyPlace::Url(url) = settings.place.clone() else {
        unreachable!("it is one")
    };
    let body = settings.ask(&url).await.unwrap();
    assert_eq!(String::from_utf8(body).unwrap(), small());
    let said = with_store(&other.cert.pem()).ask(&url).await.unwrap_err();
    assert!(said.starts_with("the handshake of TLS: "), "{said}");
    let said = source(with_store("hunter2"))
        .open()
        .unwrap_err()
        .to_string();
    assert!(
        said.contains("ssl.truststore.location") && !said.contains("hunter2"),
        "{said}"
    );
    assert!(Path::new(folder.path()).exists());
}

#[tokio::test]
async fn the_host_of_a_provider_is_verified_whatever_the_line_says() {
    let folder = tempfile::tempdir().unwrap();
    let other = rcgen::generate_simple_self_signed(vec!["other.example".to_owned()]).unwrap();
    let path = folder.path().join("ca.pem");
    std::fs::write(&path, other.cert.pem()).unwrap();
    let port = tls_provider(&other, ok(&small()));
    let with = |algorithm: Option<&str>| {
        let option = |name: &str, value: &str| (name.to_owned(), Secret::new(value.to_owned()));
        let mut tls = vec![
            option("ssl.truststore.type", "PEM"),
            option("ssl.truststore.location", path.to_str().unwrap()),
        ];
        let named = algorithm.map(|it| option("ssl.endpoint.identification.algorithm", it));
        tls.extend(named);
        SourceSettings {
            tls,
            ..settings(&format!("https://localhost:{port}/keys"))
        }
    };
    for (algorithm, expected) in [
        (None, "the handshake of TLS: "),
        (Some("https"), "the handshake of TLS: "),
        (Some(""), "ssl.endpoint.identification.algorithm: "),
    ] {
        let settings = with(algorithm);
        let KeyPlace::Url(url) = settings.place.clone() else {
            unreachable!("it is one")
        };
        let said = settings.ask(&url).await.unwrap_err();
        assert!(said.starts_with(expected), "{said}");
    }
    let said = source(with(Some("none"))).open().unwrap_err().to_string();
    assert!(said.contains("the host is always verified"), "{said}");
}

fn tls_provider(own: &rcgen::CertifiedKey<rcgen::KeyPair>, answer: String) -> u16 {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let key = rustls::pki_types::PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let connection = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = rustls::StreamOwned::new(connection, socket.unwrap());
            let mut request = [0; 2048];
            if stream.read(&mut request).is_ok() {
                let _ = stream.write_all(answer.as_bytes());
                let _ = stream.flush();
            }
        }
    });
    port
}
