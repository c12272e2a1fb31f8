//! Parameters of a load as readable text: sizes and rates get a unit, recognized by words in their
//! names.

use page::number::{Quantity, size};

/// Returns the value of a parameter as text: sizes and rates get a unit, others stay unchanged.
pub(super) fn parameter(name: &str, value: &str) -> String {
    let Ok(bytes) = value.parse::<u64>() else {
        return value.to_owned();
    };
    match () {
        () if is_rate(name) => Quantity::Rate.show(bytes as f64),
        () if is_size(name) => size(bytes),
        () => value.to_owned(),
    }
}

/// Returns whether a parameter's values are bytes.
pub(super) fn is_size(name: &str) -> bool {
    ["record", "size", "bytes"]
        .iter()
        .any(|word| name.contains(word))
        && !name.contains("records")
}

/// Returns whether a parameter's values are bytes per second.
pub(super) fn is_rate(name: &str) -> bool {
    name.contains("rate")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_exact() {
        assert_eq!(parameter("record", "240000"), "240 kB");
        assert_eq!(parameter("record", "245760"), "240 KiB");
        assert_eq!(parameter("record_bytes", "1024"), "1 KiB");
        assert_eq!(parameter("record", "100"), "100 B");
        assert_eq!(parameter("producers", "1024"), "1024");
        assert_eq!(parameter("rate", "100000000"), "100 MB/s");
        assert_eq!(parameter("record", "mixed"), "mixed");
    }
}
