//! What `AlterClientQuotas` answers and writes, and what `DescribeClientQuotas` then shows.

use wire::messages::DescribeClientQuotasRequest;
use wire::messages::alter_client_quotas_request::EntityData;
use wire::messages::describe_client_quotas_request::ComponentData;

use super::*;
use crate::controller::tests::{apply, options, started};
use crate::handler::describe_client_quotas;
use crate::image::Image;
use crate::rests::PIECE;
use crate::rests::tests::rested;

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

/// Returns an entry; `*` stands for the default entity.
fn entry(names: &[(&str, &str)], ops: &[(&str, Option<f64>)]) -> EntryData {
    let name = |(kind, name): &(&str, &str)| {
        EntityData::default()
            .with_entity_type(text(kind))
            .with_entity_name((*name != "*").then(|| text(name)))
    };
    let op = |(key, value): &(&str, Option<f64>)| {
        OpData::default()
            .with_key(text(key))
            .with_value(value.unwrap_or_default())
            .with_remove(value.is_none())
    };
    EntryData::default()
        .with_entity(names.iter().map(name).collect())
        .with_ops(ops.iter().map(op).collect())
}

fn decide(image: &Image, entries: Vec<EntryData>) -> ControllerDecision<AlterClientQuotasResponse> {
    let options = options();
    let rules = Rules {
        image,
        options: &options,
    };
    let request = AlterClientQuotasRequest::default().with_entries(entries);
    rested(handle(rules, &request)).1
}

fn set(image: &mut Image, names: &[(&str, &str)], ops: &[(&str, Option<f64>)]) {
    let outcome = decide(image, vec![entry(names, ops)]);
    assert_eq!(outcome.response.entries[0].error_code, 0);
    apply(image, outcome.records);
}

/// Returns the entities and quotas that pass a filter of kinds, matches and names.
fn described(image: &Image, components: &[(&str, i8, Option<&str>)], strict: bool) -> Vec<String> {
    let component = |(kind, how, name): &(&str, i8, Option<&str>)| {
        ComponentData::default()
            .with_entity_type(text(kind))
            .with_match_type(*how)
            .with_match(name.map(text))
    };
    let request = DescribeClientQuotasRequest::default()
        .with_components(components.iter().map(component).collect())
        .with_strict(strict);
    let response = describe_client_quotas::handle(image, &request);
    if response.error_code != 0 {
        return vec![format!(
            "{} {}",
            response.error_code,
            response.error_message.unwrap()
        )];
    }
    let shown = |entry: wire::messages::describe_client_quotas_response::EntryData| {
        let name = |of: &wire::messages::describe_client_quotas_response::EntityData| {
            format!(
                "{}={}",
                of.entity_type,
                of.entity_name.as_deref().unwrap_or("*")
            )
        };
        let names: Vec<_> = entry.entity.iter().map(name).collect();
        let values = entry
            .values
            .iter()
            .map(|value| format!("{}={}", value.key, value.value));
        let values: Vec<_> = values.collect();
        format!("{}: {}", names.join(","), values.join(","))
    };
    response.entries.unwrap().into_iter().map(shown).collect()
}

#[test]
fn quotas_are_set_changed_removed_and_survive_a_snapshot() {
    let mut image = started();
    let client = [("client-id", "c")];
    set(
        &mut image,
        &client,
        &[
            ("producer_byte_rate", Some(1000.0)),
            ("request_percentage", Some(12.5)),
        ],
    );
    set(
        &mut image,
        &[("user", "u"), ("client-id", "*")],
        &[("consumer_byte_rate", Some(5.0))],
    );
    let outcome = decide(
        &image,
        vec![entry(&client, &[("producer_byte_rate", Some(1000.0))])],
    );
    assert!(outcome.records.is_empty(), "nothing changes");
    set(
        &mut image,
        &client,
        &[("producer_byte_rate", None), ("no_such_quota", None)],
    );
    let expected = [
        "client-id=*,user=u: consumer_byte_rate=5",
        "client-id=c: request_percentage=12.5",
    ];
    assert_eq!(described(&image, &[], false), expected);
    let mut again = Image::empty();
    apply(&mut again, image.records());
    assert_eq!(again.quotas(), image.quotas());
    set(&mut image, &client, &[("request_percentage", None)]);
    assert_eq!(described(&image, &[], false), &expected[..1]);
}

#[test]
fn what_is_no_quota_is_refused_in_words() {
    let user = [("user", "u")];
    for (names, ops, says) in [
        (&[][..], &[][..], "Invalid empty client quota entity"),
        (
            &[("group", "g")],
            &[],
            "Unhandled client quota entity type: group",
        ),
        (&[("user", "")], &[], "Empty user not supported"),
        (
            &[("user", "u"), ("ip", "1.1.1.1")],
            &[],
            "Invalid quota entity combination",
        ),
        (
            &[("ip", "nowhere")],
            &[],
            "nowhere is not a valid IP or resolvable host.",
        ),
        (
            &user,
            &[("speed", Some(1.0))],
            "Invalid configuration key speed",
        ),
        (
            &user,
            &[("connection_creation_rate", Some(1.0))],
            "Invalid configuration key",
        ),
        (
            &user,
            &[("producer_byte_rate", Some(0.0))],
            "Quota producer_byte_rate must be greater than 0",
        ),
        (
            &user,
            &[("producer_byte_rate", Some(1.5))],
            "producer_byte_rate cannot be a fractional value.",
        ),
        (
            &user,
            &[("producer_byte_rate", Some(1e19))],
            "too large for a LONG.",
        ),
        (
            &[("ip", "::1")],
            &[("connection_creation_rate", Some(1e10))],
            "too large for an INT.",
        ),
        (
            &user,
            &[
                ("producer_byte_rate", Some(1.0)),
                ("producer_byte_rate", None),
            ],
            "Duplicate quota key producer_byte_rate not updating quota for this entity \
             ClientQuotaEntity(entries={user=u})",
        ),
    ] {
        let outcome = decide(&started(), vec![entry(names, ops)]);
        let result = &outcome.response.entries[0];
        assert_eq!(result.error_code, ErrorCode::InvalidRequest.code());
        let message = result.error_message.as_deref().unwrap();
        assert!(message.contains(says), "{message}");
        assert!(outcome.records.is_empty());
    }
}

#[test]
fn filters_find_what_they_name() {
    let mut image = started();
    let rate = [("producer_byte_rate", Some(1.0))];
    for names in [
        &[("user", "u")][..],
        &[("user", "*")],
        &[("user", "u"), ("client-id", "c")],
        &[("client-id", "c")],
    ] {
        set(&mut image, names, &rate);
    }
    set(
        &mut image,
        &[("ip", "*")],
        &[("connection_creation_rate", Some(3.0))],
    );
    let count = |components: &[(&str, i8, Option<&str>)], strict| {
        described(&image, components, strict).len()
    };
    assert_eq!(count(&[], false), 5);
    assert_eq!(count(&[("user", 0, Some("u"))], false), 2);
    assert_eq!(count(&[("user", 0, Some("u"))], true), 1);
    assert_eq!(count(&[("user", 1, None)], false), 1);
    assert_eq!(count(&[("user", 2, None)], false), 3);
    assert_eq!(count(&[("user", 2, None), ("client-id", 2, None)], true), 1);
    assert_eq!(count(&[("ip", 2, None)], true), 1);
    for (components, says) in [
        (
            &[("user", 0, None)][..],
            "42 Request specified MATCH_TYPE_EXACT",
        ),
        (&[("user", 9, None)], "42 Unknown match type 9"),
        (&[("group", 2, None)], "35 Unsupported entity type group"),
        (
            &[("ip", 2, None), ("user", 2, None)],
            "42 Invalid entity filter component",
        ),
        (
            &[("user", 2, None), ("user", 1, None)],
            "42 Entity type user cannot appear",
        ),
    ] {
        let shown = described(&image, components, false);
        assert!(shown[0].starts_with(says), "{shown:?}");
    }
}

#[test]
fn rates_that_would_shut_everybody_out_are_refused() {
    let image = started();
    let tiny = [5e-324, 1e-308, 1e-7, f64::NAN, f64::NEG_INFINITY, -0.0];
    let address = [("ip", "*")];
    let user = [("user", "ada")];
    for value in tiny {
        let cases: [(&[(&str, &str)], &str); 3] = [
            (&address, "connection_creation_rate"),
            (&user, "producer_byte_rate"),
            (&user, "consumer_byte_rate"),
        ];
        for (names, quota) in cases {
            let outcome = decide(&image, vec![entry(names, &[(quota, Some(value))])]);
            assert_eq!(
                outcome.response.entries[0].error_code,
                ErrorCode::InvalidRequest.code(),
                "{quota} {value}"
            );
            assert!(outcome.records.is_empty());
        }
    }
    for quota in ["request_percentage", "controller_mutation_rate"] {
        let entries = vec![entry(&user, &[(quota, Some(f64::NAN))])];
        let outcome = decide(&image, entries);
        assert_eq!(
            outcome.response.entries[0].error_message.as_deref(),
            Some(&*format!("Quota {quota} must be greater than 0"))
        );
    }
}

#[test]
fn quotas_of_more_entities_than_can_be_kept_are_refused_and_those_there_are_can_be_changed() {
    let mut image = started();
    let set_to = |value| [("producer_byte_rate", value)];
    for chunk in 0..5 {
        let names = (0..4000).map(|at| format!("c{chunk}-{at}"));
        let entries = names.map(|name| entry(&[("client-id", &name)], &set_to(Some(1.0))));
        let outcome = decide(&image, entries.collect());
        apply(&mut image, outcome.records);
    }
    let code = |image: &Image, name: &str, value: Option<f64>| {
        let outcome = decide(image, vec![entry(&[("user", name)], &set_to(value))]);
        ErrorCode::try_from_code(outcome.response.entries[0].error_code)
    };
    assert_eq!(
        code(&image, "one more", Some(1.0)),
        Some(ErrorCode::PolicyViolation)
    );
    assert_eq!(code(&image, "one more", None), None);
    let known = [("client-id", "c0-0")];
    set(&mut image, &known, &set_to(Some(2.0)));
    set(&mut image, &known, &set_to(None));
    assert_eq!(code(&image, "one more", Some(1.0)), None);
}

#[test]
fn a_request_about_many_entities_lets_others_run_in_between() {
    let names: Vec<String> = (0..10_000).map(|number| format!("user {number}")).collect();
    let entries = names
        .iter()
        .map(|name| entry(&[("user", name)], &[("producer_byte_rate", Some(1.0))]));
    let options = options();
    let image = started();
    let rules = Rules {
        image: &image,
        options: &options,
    };
    let request = AlterClientQuotasRequest::default().with_entries(entries.collect());
    let (rests, outcome) = rested(handle(rules, &request));
    assert!(rests > 300, "{rests}");
    assert_eq!(outcome.response.entries.len(), names.len());
}

#[test]
fn too_many_entities_are_refused_in_hardly_more_turns_than_it_takes_to_name_them() {
    const ENTITIES: usize = 20_000;
    let rate = [("producer_byte_rate", Some(1.0))];
    let entries = (0..ENTITIES).map(|number| entry(&[("user", &number.to_string())], &rate));
    let options = options();
    let image = started();
    let rules = Rules {
        image: &image,
        options: &options,
    };
    let request = AlterClientQuotasRequest::default().with_entries(entries.collect());
    let (rests, outcome) = rested(handle(rules, &request));
    assert!(rests < ENTITIES / PIECE + 2, "{rests} rests");
    assert!(outcome.records.is_empty());
    let told = outcome.response.entries;
    let policy = ErrorCode::PolicyViolation.code();
    assert_eq!(told.len(), ENTITIES);
    assert!(told.iter().all(|entry| entry.error_code == policy));
    assert_eq!(told[7].entity[0].entity_name.as_deref(), Some("7"));
}

#[test]
fn an_entity_of_more_parts_or_text_than_any_has_is_refused_before_anything_is_made_of_it() {
    let image = started();
    let rate = [("producer_byte_rate", Some(1.0))];
    let kinds: Vec<String> = (0..10_000).map(|number| format!("k{number}")).collect();
    let parts: Vec<_> = kinds.iter().map(|kind| (kind.as_str(), "x")).collect();
    let outcome = decide(&image, vec![entry(&parts, &rate)]);
    let told = &outcome.response.entries[0];
    assert_eq!(told.error_code, ErrorCode::InvalidRequest.code());
    assert!(told.entity.len() <= 8, "{} parts", told.entity.len());
    assert!(outcome.records.is_empty());
    let long = "x".repeat(1 << 20);
    let user = [("user", "u")];
    for (names, ops) in [
        (&[(long.as_str(), "u")][..], &rate[..]),
        (&[("user", &long)], &[("producer_byte_rate", None)]),
        (&[("ip", &long)], &[("connection_creation_rate", Some(1.0))]),
        (&user, &[(&long, Some(1.0))]),
        (&user, &[(&long, Some(1.0)), (&long, None)]),
    ] {
        let outcome = decide(&image, vec![entry(names, ops)]);
        let told = &outcome.response.entries[0];
        assert_ne!(told.error_code, 0);
        let message = told.error_message.as_deref().unwrap_or_default();
        assert!(message.len() < 1000, "{} bytes", message.len());
        assert!(outcome.records.is_empty());
    }
}
