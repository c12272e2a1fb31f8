//! Parameters of a load as people read them: sizes and rates get a unit, by the words in their names.

use page::number::{Quantity, size};

/// The value of a parameter as text: sizes get a unit, rates too, the rest stays as it is.
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

/// Whether a parameter's values are bytes.
pub(super) fn is_size(name: &str) -> bool {
    ["record", "size", "bytes"]
        .iter()
        .any(|word| name.contains(word))
        && !name.contains("records")
}

/// Whether a parameter's values are bytes a second.
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
