//! Pages of `DescribeTopicPartitions`.

use wire::messages::describe_topic_partitions_request as request;

use super::*;
use crate::access::given::limited_to;
use crate::controller::tests::{create, started};
use crate::rests::tests::now;

fn image() -> Image {
    let mut image = started();
    for (name, partitions) in [("a", 2), ("b", 3), ("c", 1)] {
        create(&mut image, name, partitions, &[]);
    }
    image
}

/// Topics with their partitions, and the start of the next page.
type Page = (Vec<(String, Vec<i32>)>, Option<(String, i32)>);

fn page(names: &[&str], limit: i32, from: Option<(&str, i32)>) -> Result<Page, ErrorCode> {
    page_for(&Access::unlimited(), names, limit, from)
}

fn page_for(
    access: &Access,
    names: &[&str],
    limit: i32,
    from: Option<(&str, i32)>,
) -> Result<Page, ErrorCode> {
    let text = |name: &str| StrBytes::from_string(name.to_owned()).into();
    let cursor = from.map(|(topic, partition)| {
        request::Cursor::default()
            .with_topic_name(text(topic))
            .with_partition_index(partition)
    });
    let topics = names
        .iter()
        .map(|name| request::TopicRequest::default().with_name(text(name)));
    let request = DescribeTopicPartitionsRequest::default()
        .with_topics(topics.collect())
        .with_response_partition_limit(limit)
        .with_cursor(cursor);
    let response = now(handle(&image(), access, "PLAINTEXT", &request))?;
    let topics = response.topics.iter().map(|topic| {
        let name = topic.name.as_ref().unwrap().to_string();
        (
            name,
            topic.partitions.iter().map(|p| p.partition_index).collect(),
        )
    });
    let next = response
        .next_cursor
        .map(|c| (c.topic_name.to_string(), c.partition_index));
    Ok((topics.collect(), next))
}

#[test]
fn pages_follow_each_other_without_gaps() {
    let first = page(&[], 4, None).unwrap();
    assert_eq!(
        first,
        (
            vec![("a".into(), vec![0, 1]), ("b".into(), vec![0, 1])],
            Some(("b".into(), 2))
        )
    );
    let second = page(&[], 1, Some(("b", 2))).unwrap();
    assert_eq!(second, (vec![("b".into(), vec![2])], Some(("c".into(), 0))));
    let third = page(&[], 4, Some(("c", 0))).unwrap();
    assert_eq!(third, (vec![("c".into(), vec![0])], None));
}

#[test]
fn a_topic_that_is_not_there_is_an_error_when_it_was_named() {
    let response = page(&["a", "x"], 10, None).unwrap();
    assert_eq!(
        response,
        (vec![("a".into(), vec![0, 1]), ("x".into(), vec![])], None)
    );
}

#[test]
fn a_cursor_outside_the_request_is_refused() {
    assert_eq!(
        page(&["a"], 10, Some(("b", 0))),
        Err(ErrorCode::InvalidRequest)
    );
    assert_eq!(
        page(&[], 10, Some(("b", -1))),
        Err(ErrorCode::InvalidRequest)
    );
    // A cursor after the topic's last partition returns no partitions and no error.
    assert_eq!(
        page(&["b"], 10, Some(("b", 9))),
        Ok((vec![("b".into(), vec![])], None))
    );
}

#[test]
fn topics_that_the_client_may_not_describe_take_no_room_and_stand_at_the_end() {
    use Operation::Describe;
    use ResourceType::Topic;
    let access = limited_to(&[(Topic, "a", Describe), (Topic, "c", Describe)]);
    let (a, c) = (("a".into(), vec![0, 1]), ("c".into(), vec![0]));
    // All topics.
    let first = page_for(&access, &[], 2, None).unwrap();
    assert_eq!(first, (vec![a.clone()], Some(("c".into(), 0))));
    let second = page_for(&access, &[], 2, Some(("c", 0))).unwrap();
    assert_eq!(second, (vec![c.clone()], None));
    // By name: each page refuses those that it is asked for.
    let hidden = ("b".into(), vec![]);
    let asked = ["a", "b", "c"];
    let first = page_for(&access, &asked, 2, None).unwrap();
    assert_eq!(first, (vec![a, hidden.clone()], Some(("c".into(), 0))));
    let from_hidden = page_for(&access, &asked, 2, Some(("b", 1))).unwrap();
    assert_eq!(from_hidden, (vec![c, hidden], None));
}

#[test]
fn a_topic_that_is_hidden_and_one_that_is_not_there_are_told_alike() {
    let access = limited_to(&[]);
    let topic = |name: &str| {
        let name = StrBytes::from_string(name.to_owned()).into();
        request::TopicRequest::default().with_name(name)
    };
    let request = DescribeTopicPartitionsRequest::default()
        .with_topics(vec![topic("a"), topic("x")])
        .with_response_partition_limit(10);
    let response = now(handle(&image(), &access, "PLAINTEXT", &request)).unwrap();
    assert_eq!(response.topics.len(), 2);
    for topic in response.topics {
        assert_eq!(topic.error_code, 29);
        assert!(topic.topic_id.is_nil() && !topic.is_internal);
        assert_eq!(topic.topic_authorized_operations, i32::MIN);
    }
}
