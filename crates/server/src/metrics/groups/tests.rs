//! Groups on the metrics page: their lag, their bounds and their names.

use wire::protocol::StrBytes;
use wire::types::TopicPartition;

use super::*;
use crate::metrics::{LogRow, Replicas};

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn group(id: &str, offsets: &[(&str, i32, i64)]) -> SurveyedGroup {
    let offsets = offsets.iter();
    SurveyedGroup {
        id: text(id),
        members: 2,
        offsets: offsets
            .map(|(topic, partition, offset)| (text(topic), *partition, *offset))
            .collect(),
    }
}

fn log(topic: &str, partition: i32, high_watermark: i64) -> LogRow {
    LogRow {
        partition: TopicPartition {
            topic: topic.into(),
            partition,
        },
        size_bytes: 1,
        start_offset: 0,
        end_offset: high_watermark + 3,
        segments: 1,
        high_watermark,
        producer_bytes: 0,
        replicas: Replicas {
            count: 1,
            in_sync: 1,
            in_sync_min: 1,
            is_led_by_preferred: true,
        },
    }
}

fn shown(registry: &Registry) -> String {
    let mut shown = String::new();
    prometheus_client::encoding::text::encode(&mut shown, registry).unwrap();
    shown
}

fn check(shown: &str, line: &str) {
    assert!(
        shown.lines().any(|has| has == line),
        "{line} is not in\n{shown}"
    );
}

#[test]
fn the_lag_is_the_high_watermark_less_the_committed_offset_whichever_shard_has_them() {
    let mut registry = Registry::default();
    let logs = LogMetrics::register(&mut registry);
    let groups = GroupMetrics::register(&mut registry, logs.clone());
    logs.replace(0, vec![log("a", 0, 10)]);
    logs.replace(1, vec![log("a", 1, 4)]);
    let mut survey = Survey::new(0);
    survey.states.insert(("classic", "Stable"), 3);
    survey.states.insert(("classic", "Empty"), 1);
    survey.states.insert(("consumer", "Stable"), 2);
    survey.left_out = 5;
    // The second offset is ahead of what the other shard has reported; partition 1 of "half" and
    // topic "gone" have no log here.
    logs.replace(2, vec![log("half", 0, 8)]);
    let offsets = [
        ("a", 0, 7),
        ("a", 1, 6),
        ("gone", 0, 9),
        ("half", 0, 5),
        ("half", 1, 5),
    ];
    survey.groups.push(group("g", &offsets));
    groups.replace(1, survey);
    let shown = shown(&registry);
    for line in [
        "kafka_consumergroup_members{consumergroup=\"g\"} 2",
        "kafka_consumergroup_current_offset{consumergroup=\"g\",topic=\"a\",partition=\"0\"} 7",
        "kafka_consumergroup_current_offset{consumergroup=\"g\",topic=\"gone\",partition=\"0\"} 9",
        "kafka_consumergroup_lag{consumergroup=\"g\",topic=\"a\",partition=\"0\"} 3",
        "kafka_consumergroup_lag{consumergroup=\"g\",topic=\"a\",partition=\"1\"} 0",
        "kafka_consumergroup_lag_sum{consumergroup=\"g\",topic=\"a\"} 3",
        "kafka_consumergroup_lag{consumergroup=\"g\",topic=\"half\",partition=\"0\"} 3",
        "kafka_consumergroup_current_offset_sum{consumergroup=\"g\",topic=\"half\"} 10",
        "kafka_consumergroup_current_offset_sum{consumergroup=\"g\",topic=\"gone\"} 9",
        "kafka_consumergroup_current_offset_sum{consumergroup=\"g\",topic=\"a\"} 13",
        "kafka_coordinator_group_groupmetadatamanager_numgroups 4",
        "kafka_coordinator_group_groupmetadatamanager_numgroupsstable 3",
        "kafka_coordinator_group_groupmetadatamanager_numgroupsempty 1",
        "kafka_coordinator_group_groupmetadatamanager_numgroupspreparingrebalance 0",
        "forebay_groups{protocol=\"consumer\",state=\"Stable\"} 2",
        "forebay_groups_left_out 5",
    ] {
        check(&shown, line);
    }
    // Without a sample, no reader takes an unknown lag for zero.
    for unknown in [
        "kafka_consumergroup_lag{consumergroup=\"g\",topic=\"gone\"",
        "kafka_consumergroup_lag_sum{consumergroup=\"g\",topic=\"gone\"",
        "kafka_consumergroup_lag{consumergroup=\"g\",topic=\"half\",partition=\"1\"",
        "kafka_consumergroup_lag_sum{consumergroup=\"g\",topic=\"half\"",
    ] {
        assert!(!shown.contains(unknown), "{unknown} is in\n{shown}");
    }
}

#[test]
fn names_of_groups_are_escaped_and_none_is_shown_twice() {
    let mut registry = Registry::default();
    let groups = GroupMetrics::register(&mut registry, LogMetrics::default());
    let mut survey = Survey::new(0);
    for id in ["\u{1b}[2J", "\\u{1b}[2J", "say \"hi\""] {
        survey.groups.push(group(id, &[]));
    }
    groups.replace(0, survey);
    let shown = shown(&registry);
    assert!(!shown.contains('\u{1b}'), "{shown}");
    check(&shown, "forebay_groups_left_out 1");
    check(
        &shown,
        "kafka_consumergroup_members{consumergroup=\"say \\\"hi\\\"\"} 2",
    );
    let members = "kafka_consumergroup_members{";
    assert_eq!(shown.matches(members).count(), 2, "{shown}");
}

#[test]
fn a_shard_does_not_wait_for_a_page_to_show_its_groups() {
    let mut registry = Registry::default();
    let groups = GroupMetrics::register(&mut registry, LogMetrics::default());
    let mut survey = Survey::new(0);
    survey.groups.push(group("meanwhile", &[]));
    groups.replace(0, survey);
    let replace = move || drop(groups.replace(0, Survey::new(0)));
    crate::metrics::logs::tests::does_not_wait_for_a_page(&registry, replace);
}
