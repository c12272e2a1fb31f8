//! How many errors clients get, by request and error, under Kafka's name.
//!
//! A response about many partitions counts each of its errors, as in Kafka; unlike Kafka, the code
//! 0 (no error) is not counted, so a response without errors costs nothing here.
//! Invariant: labels come from the table of requests and the list of error codes, never from a
//! client. Not here: finding the codes in a response (`dispatch/errors.rs`).

use std::fmt::{self, Write as _};

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
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

    /// Counts an error code of a response, unless it is 0.
    pub(crate) fn count(&self, request: &'static str, code: i16) {
        if code != 0 {
            assert!(!request.is_empty(), "an API has a name");
            let error = Code(code);
            self.0.get_or_create(&Labels { request, error }).inc();
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
        errors.count("Metadata", 3);
        errors.count("Metadata", 3);
        errors.count("Metadata", 0);
        errors.count("Fetch", ErrorCode::OffsetOutOfRange.code());
        errors.count("Fetch", 30_000);
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
}
