//! Properties in the spellings of both clients, what is refused, and what only warns.

use super::*;

fn settings(properties: &[(&str, &str)]) -> Result<Settings, ClientError> {
    let mut builder = SettingsBuilder::new("a:1").unwrap();
    for (key, value) in properties {
        builder.set(key, value)?;
    }
    builder.finish()
}

fn refused(properties: &[(&str, &str)]) -> String {
    settings(properties).unwrap_err().to_string()
}

#[test]
fn the_same_property_has_the_names_of_both_clients() {
    let java = settings(&[
        ("acks", "1"),
        ("compression.type", "zstd"),
        ("linger.ms", "20"),
        ("batch.size", "16384"),
        ("buffer.memory", "2048"),
        ("delivery.timeout.ms", "9000"),
        ("fetch.max.wait.ms", "7"),
        ("max.partition.fetch.bytes", "99"),
        ("auto.offset.reset", "earliest"),
    ]);
    let other = settings(&[
        ("request.required.acks", "1"),
        ("compression.codec", "ZSTD"),
        ("queue.buffering.max.ms", "20.5"),
        ("batch.size", "16384"),
        ("queue.buffering.max.kbytes", "2"),
        ("message.timeout.ms", "9000"),
        ("fetch.wait.max.ms", "7"),
        ("fetch.message.max.bytes", "99"),
        ("auto.offset.reset", "smallest"),
    ]);
    let (java, other) = (java.unwrap(), other.unwrap());
    assert_eq!(format!("{java:?}"), format!("{other:?}"));
    assert_eq!(java.producer.acks, Acks::Leader);
    assert!(!java.producer.idempotent, "acks=1 alone switches it off");
    assert_eq!(java.producer.compression, Compression::Zstd);
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let idempotent = ("enable.idempotence", "true");
    assert!(refused(&[idempotent, ("acks", "1")]).contains("acks=all"));
    assert!(refused(&[idempotent, ("max.in.flight", "6")]).contains("at most 5"));
    let transactional = ("transactional.id", "t");
    assert!(refused(&[transactional, ("acks", "0")]).contains("acks=all"));
    assert!(refused(&[transactional, ("enable.idempotence", "false")]).contains("is idempotent"));
    assert!(settings(&[("acks", "0"), ("max.in.flight", "100")]).is_ok());
}

#[test]
fn an_unknown_property_is_an_error_and_a_needless_one_a_warning() {
    assert!(refused(&[("no.such", "1")]).starts_with("no.such: "));
    let settings = settings(&[("statistics.interval.ms", "5"), ("ssl.provider", "x")]);
    assert_eq!(
        settings.unwrap().warnings,
        [
            "statistics.interval.ms has no effect: this client does not need it",
            "ssl.provider has no effect: it is of Java",
        ]
    );
}

#[test]
fn assignors_have_names_and_classes() {
    let read = |text| settings(&[("partition.assignment.strategy", text)]);
    let cooperative = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor, range";
    let strategies = read(cooperative).unwrap().client.group.strategies;
    assert_eq!(strategies, ["cooperative-sticky", "range"]);
    assert!(read("mine").is_err() && read(" , ").is_err());
}

#[test]
fn an_answer_may_be_as_long_as_what_is_fetched() {
    let read = |bytes| settings(&[("fetch.max.bytes", bytes)]).unwrap().client;
    assert_eq!(read("1").answer_bytes_max, 256 << 20);
    assert!(read("2000000000").answer_bytes_max > 2_000_000_000);
}

#[test]
fn what_the_protocol_leaves_without_effect_is_told() {
    let warnings = |properties: &[(&str, &str)]| {
        let mut builder = SettingsBuilder::new("a").unwrap();
        for (key, value) in properties {
            builder.set(key, value).unwrap();
        }
        builder.finish().unwrap().warnings
    };
    let login = [
        ("sasl.mechanism", "PLAIN"),
        ("sasl.username", "ada"),
        ("sasl.password", "hunter2"),
    ];
    let told = warnings(&login);
    assert_eq!(
        told,
        ["sasl.mechanism has no effect: security.protocol is not SASL_PLAINTEXT or SASL_SSL"]
    );
    let told = warnings(&[("ssl.truststore.location", "/nowhere")]);
    assert_eq!(
        told,
        ["ssl.truststore.location has no effect: security.protocol is not SSL or SASL_SSL"]
    );
    let by_login = [("security.protocol", "SASL_PLAINTEXT")];
    assert_eq!(warnings(&[&by_login[..], &login].concat()), [""; 0]);
    assert_eq!(warnings(&[("security.protocol", "PLAINTEXT")]), [""; 0]);
}

#[test]
fn only_what_java_counts_as_space_is_left_out_around_a_value() {
    let mut builder = SettingsBuilder::new("a").unwrap();
    for (key, value) in [
        ("security.protocol", " SASL_PLAINTEXT\t"),
        ("sasl.mechanism", "PLAIN"),
        ("sasl.username", " ada "),
        ("sasl.password", "caf\u{c3}\u{a0} "),
    ] {
        builder.set(key, value).unwrap();
    }
    let login = builder.finish().unwrap().client.login.unwrap();
    assert_eq!(login.user, "ada");
    assert_eq!(login.password.expose(), "caf\u{c3}\u{a0}");
}
