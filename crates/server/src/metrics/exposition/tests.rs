//! Which format a client gets, and that both say the same.

use super::*;

const PROMETHEUS: &str = "application/openmetrics-text;version=1.0.0;q=0.5,\
     application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";

const REGISTRY: &str = "\
# HELP kafka_network_requestmetrics_requests Bytes appended.
# TYPE kafka_network_requestmetrics_requests counter
kafka_network_requestmetrics_requests_total{topic=\"# HELP a\"} 5
kafka_network_requestmetrics_requests_total{topic=\"\"} 5
# HELP forebay_build What runs.
# TYPE forebay_build info
forebay_build_info{version=\"1\"} 1
# HELP empty Nothing yet.
# TYPE empty gauge
# HELP odd Of no type.
# TYPE odd unknown
odd 2
# HELP took_ms Time.
# TYPE took_ms histogram
took_ms_sum 1.5
took_ms_count 1
took_ms_bucket{le=\"+Inf\"} 1
# EOF
";

#[test]
fn open_metrics_is_sent_to_clients_that_ask_for_it_and_plain_text_to_all_others() {
    let check = |accept: &[&str], expected| {
        assert_eq!(
            Format::wanted(accept.iter().copied()),
            expected,
            "{accept:?}"
        );
    };
    check(&[PROMETHEUS], Format::OpenMetrics);
    check(&["application/openmetrics-text"], Format::OpenMetrics);
    check(
        &["text/html", "Application/OpenMetrics-Text; q=0.1"],
        Format::OpenMetrics,
    );
    check(&[], Format::Text);
    check(&["*/*"], Format::Text);
    check(&["text/plain"], Format::Text);
    check(
        &["text/plain;q=0.9, application/openmetrics-text;q=0.1"],
        Format::Text,
    );
    check(&["application/openmetrics-text;q=0"], Format::Text);
    check(&["application/openmetrics-text;q=x"], Format::Text);
}

#[test]
fn plain_text_names_families_as_samples_are_named_and_has_further_names() {
    let expected = "\
# HELP kafka_network_requestmetrics_requests_total Bytes appended.
# TYPE kafka_network_requestmetrics_requests_total counter
kafka_network_requestmetrics_requests_total{topic=\"# HELP a\"} 5
kafka_network_requestmetrics_requests_total{topic=\"\"} 5
# HELP kafka_network_requestmetrics_requestspersec \
The same as kafka_network_requestmetrics_requests_total.
# TYPE kafka_network_requestmetrics_requestspersec untyped
kafka_network_requestmetrics_requestspersec{topic=\"# HELP a\"} 5
kafka_network_requestmetrics_requestspersec{topic=\"\"} 5
# HELP forebay_build_info What runs.
# TYPE forebay_build_info gauge
forebay_build_info{version=\"1\"} 1
# HELP empty Nothing yet.
# TYPE empty gauge
# HELP odd Of no type.
# TYPE odd untyped
odd 2
# HELP took_ms Time.
# TYPE took_ms histogram
took_ms_sum 1.5
took_ms_count 1
took_ms_bucket{le=\"+Inf\"} 1
";
    assert_eq!(page(REGISTRY, Format::Text), expected);
}

#[test]
fn open_metrics_is_as_the_registry_writes_it_with_further_names() {
    let shown = page(REGISTRY, Format::OpenMetrics);
    let further = "kafka_network_requestmetrics_requestspersec";
    let ours: Vec<&str> = shown
        .lines()
        .filter(|line| !line.contains(further))
        .collect();
    assert_eq!(ours, REGISTRY.lines().collect::<Vec<_>>());
    assert!(
        shown.contains(&format!("# TYPE {further} unknown\n")),
        "{shown}"
    );
    assert!(shown.ends_with("# EOF\n"), "{shown}");
    assert_eq!(page("# EOF\n", Format::Text), "");
}

#[test]
fn no_further_name_is_there_twice_or_is_one_of_ours() {
    let mut names = std::collections::BTreeSet::new();
    for (theirs, ours) in ALIASES {
        assert!(names.insert(*theirs), "{theirs} is there twice");
        assert!(ALIASES.iter().all(|(other, _)| other != ours), "{ours}");
    }
}
