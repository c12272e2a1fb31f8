//! How many errors clients get, by request and error, under Kafka's name.
//!
//! A response about many partitions counts each of its errors, as in Kafka; unlike Kafka, the code
//! 0 (no error) is not counted, so a response without errors costs nothing here.
//! A handler notes the errors of its response in an [`ErrorTally`], which is added to the counters
//! once for each code: the series of a code is looked up per response, not per partition.
//! Invariant: labels come from the table of requests and the list of error codes, never from a
//! client. Not here: finding the codes in a response (`dispatch/errors.rs`).

use std::fmt::{self, Write as _};

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use wire::kafka::Api;
use wire::types::ErrorCode;

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct Labels {
    request: &'static str,
    error: Code,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Code(i16);

impl EncodeLabelValue for Code {
    fn encode(&self, encoder: &mut LabelValueEncoder) -> Result<(), fmt::Error> {
        encoder.write_str(&kafka_name(self.0))
    }
}

/// Counters of errors; clones share them.
#[derive(Clone, Debug, Default)]
pub struct RequestErrors(Family<Labels, Counter>);

impl RequestErrors {
    /// Creates and registers the counters.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let errors = Self::default();
        registry.register(
            "kafka_network_requestmetrics_errors",
            "Errors in responses, by request and error",
            errors.0.clone(),
        );
        errors
    }

    /// Counts the errors of a response.
    #[inline]
    pub(crate) fn count(&self, api: Api, tally: &ErrorTally) {
        if !tally.0.is_empty() {
            self.add(api.name(), tally);
        }
    }

    // Apart from `count`, whose callers are on the path of every request.
    #[cold]
    #[inline(never)]
    fn add(&self, request: &'static str, tally: &ErrorTally) {
        assert!(!request.is_empty(), "an API has a name");
        for (code, count) in &tally.0 {
            assert!(*code != 0 && *count > 0, "a tally holds noted errors only");
            let error = Code(*code);
            let labels = Labels { request, error };
            self.0.get_or_create(&labels).inc_by(*count);
        }
    }
}

/// The errors of one response: how often each code stands in it.
///
/// It takes no memory before the first error.
// Bounded: the codes that the broker uses, each once.
#[derive(Default, Debug)]
pub(crate) struct ErrorTally(Vec<(i16, u64)>);

impl ErrorTally {
    /// Returns the tally of a response that is one error.
    #[cold]
    #[inline(never)]
    pub(crate) fn of(error: ErrorCode) -> Self {
        Self(vec![(error.code(), 1)])
    }

    /// Notes an error code of a response, unless it is 0.
    #[inline]
    pub(crate) fn note(&mut self, code: i16) {
        if code != 0 {
            self.add(code);
        }
    }

    #[cold]
    #[inline(never)]
    fn add(&mut self, code: i16) {
        match self.0.iter_mut().find(|(noted, _)| *noted == code) {
            Some((_, count)) => *count = count.saturating_add(1),
            None => self.0.push((code, 1)),
        }
    }
}

/// Returns the name of an error code as Kafka writes it: `UNKNOWN_TOPIC_OR_PARTITION`.
fn kafka_name(code: i16) -> String {
    let error = match ErrorCode::try_from_code(code) {
        None => return "NONE".to_owned(),
        Some(ErrorCode::Unknown(code)) => return format!("CODE_{code}"),
        Some(error) => format!("{error:?}"),
    };
    let mut name = String::with_capacity(error.len() + 8);
    for letter in error.chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    assert!(!name.is_empty(), "an error has a name");
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_counted_under_kafkas_names_and_no_error_is_not() {
        let mut registry = Registry::default();
        let errors = RequestErrors::register(&mut registry);
        let count = |api, codes: &[i16]| {
            let mut tally = ErrorTally::default();
            for code in codes {
                tally.note(*code);
            }
            errors.count(api, &tally);
        };
        count(Api::Metadata, &[3, 0, 3]);
        count(Api::Metadata, &[0]);
        count(Api::Fetch, &[ErrorCode::OffsetOutOfRange.code(), 30_000]);
        let mut shown = String::new();
        prometheus_client::encoding::text::encode(&mut shown, &registry).unwrap();
        let of = |request: &str, error: &str, count: u64| {
            let name = "kafka_network_requestmetrics_errors_total";
            let line = format!("{name}{{request=\"{request}\",error=\"{error}\"}} {count}\n");
            assert!(shown.contains(&line), "{line} is not in\n{shown}");
        };
        of("Metadata", "UNKNOWN_TOPIC_OR_PARTITION", 2);
        of("Fetch", "OFFSET_OUT_OF_RANGE", 1);
        of("Fetch", "CODE_30000", 1);
        assert!(!shown.contains("NONE"), "{shown}");
    }

    #[test]
    fn a_response_about_many_partitions_is_added_once_for_each_code() {
        let mut tally = ErrorTally::default();
        for partition in 0..10_000_u16 {
            tally.note(if partition % 4 == 0 { 3 } else { 0 });
            tally.note(if partition % 2 == 0 { 6 } else { 0 });
        }
        assert_eq!(tally.0, [(3, 2500), (6, 5000)]);
        let mut healthy = ErrorTally::default();
        for _ in 0..10_000 {
            healthy.note(0);
        }
        assert_eq!(healthy.0.capacity(), 0, "a response without errors is free");
    }
}
