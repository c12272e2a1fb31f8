//! Latency histograms: from values in microseconds to the text that files and hosts exchange, and
//! back.
//!
//! Invariant: merging the histograms of one load gives the histogram of the whole, value by value,
//! so that percentiles over several hosts, runs or intervals are those of all records and never an
//! average of percentiles. All histograms have the same range (1 us to 1 h, longer values count as
//! 1 h) and three significant digits.

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2Serializer};

use crate::outcome::Latency;

/// Longer latencies count as this one.
const LONGEST_US: u64 = 3_600_000_000;
const DIGITS: u8 = 3;
/// Longest accepted text; a histogram with a value in every bucket is smaller.
const TEXT_BYTES_MAX: usize = 4 << 20;

/// Statistics of latencies, in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Percentiles {
    /// Number of values; if 0, all other fields are 0.
    pub count: u64,
    /// The smallest value.
    pub min: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// The median.
    pub p50: u64,
    /// The 90th percentile.
    pub p90: u64,
    /// The 95th percentile.
    pub p95: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The 99.9th percentile.
    pub p99_9: u64,
    /// The 99.99th percentile.
    pub p99_99: u64,
    /// The largest value.
    pub max: u64,
}

/// Returns an empty histogram of the common range.
///
/// Fill it with `saturating_record` or `saturating_record_n`.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_US, DIGITS).expect("constant and valid bounds")
}

impl Latency {
    /// Returns the text of a histogram.
    pub fn of(histogram: &Histogram<u64>) -> Self {
        if histogram.is_empty() {
            return Self::default();
        }
        let mut bytes = Vec::new();
        V2Serializer::new()
            .serialize(histogram, &mut bytes)
            .expect("a histogram in memory is serialized into memory");
        Self {
            hdr: BASE64.encode(bytes),
        }
    }

    /// Returns the histogram of the text.
    pub fn histogram(&self) -> anyhow::Result<Histogram<u64>> {
        let mut whole = histogram();
        if self.is_empty() {
            return Ok(whole);
        }
        anyhow::ensure!(
            self.hdr.len() <= TEXT_BYTES_MAX,
            "a histogram of {} bytes is none of ours",
            self.hdr.len()
        );
        let bytes = BASE64
            .decode(&self.hdr)
            .context("a histogram that is not base64")?;
        let read: Histogram<u64> = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|error| anyhow::anyhow!("not an HDR histogram (V2): {error:?}"))?;
        // The writer may have used another range; the result always has the common range.
        for value in read.iter_recorded() {
            whole.saturating_record_n(value.value_iterated_to(), value.count_at_value());
        }
        Ok(whole)
    }

    /// Returns whether it holds no value.
    pub fn is_empty(&self) -> bool {
        self.hdr.is_empty()
    }

    /// Returns the merged latencies.
    pub fn merge<'a>(all: impl IntoIterator<Item = &'a Self>) -> anyhow::Result<Self> {
        let mut whole = histogram();
        for one in all {
            if !one.is_empty() {
                whole
                    .add(one.histogram()?)
                    .context("histograms of different ranges")?;
            }
        }
        Ok(Self::of(&whole))
    }

    /// Returns its percentiles.
    pub fn percentiles(&self) -> anyhow::Result<Percentiles> {
        Ok(Percentiles::of(&self.histogram()?))
    }
}

impl Percentiles {
    /// Returns the percentiles of a histogram.
    pub fn of(histogram: &Histogram<u64>) -> Self {
        if histogram.is_empty() {
            return Self::default();
        }
        let at = |quantile| histogram.value_at_quantile(quantile).min(histogram.max());
        Self {
            count: histogram.len(),
            min: histogram.min(),
            mean: histogram.mean(),
            p50: at(0.5),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            p99_9: at(0.999),
            p99_99: at(0.9999),
            max: histogram.max(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(values: &[u64]) -> Latency {
        let mut filled = histogram();
        for value in values {
            filled.saturating_record(*value);
        }
        Latency::of(&filled)
    }

    /// The exact quantile by nearest rank.
    fn counted(values: &mut [u64], quantile: f64) -> u64 {
        values.sort_unstable();
        let rank = (quantile * values.len() as f64).ceil() as usize;
        values[rank.max(1) - 1]
    }

    fn near(found: u64, exact: u64) -> bool {
        found.abs_diff(exact) as f64 <= (exact as f64 / 1000.0).max(1.0)
    }

    proptest! {
        #[test]
        fn merged_hosts_have_the_percentiles_of_all_records_together(
            hosts in prop::collection::vec(prop::collection::vec(1..LONGEST_US, 0..200), 1..5),
        ) {
            let each: Vec<_> = hosts.iter().map(|values| of(values)).collect();
            let found = Latency::merge(&each).unwrap().percentiles().unwrap();
            let mut all = hosts.concat();
            prop_assert_eq!(found.count, all.len() as u64);
            if all.is_empty() {
                return Ok(());
            }
            for (found, quantile) in [(found.p50, 0.5), (found.p99, 0.99), (found.p99_99, 0.9999), (found.max, 1.0)] {
                let exact = counted(&mut all, quantile);
                prop_assert!(near(found, exact), "{} of {}: {} is not {}", quantile, all.len(), found, exact);
            }
        }

        #[test]
        fn any_text_is_a_histogram_or_an_error(text in ".{0,200}", bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Latency { hdr: text }.histogram();
            let _ = Latency { hdr: BASE64.encode(bytes) }.histogram();
        }
    }

    #[test]
    fn merging_is_not_averaging() {
        // 99 fast records on one host, 1 slow one on the other: the mean of the medians would
        // be 5000.
        let merged = Latency::merge([&of(&[100; 99]), &of(&[10_000])]).unwrap();
        assert_eq!(merged.percentiles().unwrap().p50, 100);
    }

    #[test]
    fn none_is_empty_text_and_longer_than_an_hour_is_an_hour() {
        assert!(of(&[]).is_empty());
        assert_eq!(of(&[]).percentiles().unwrap(), Percentiles::default());
        let longest = of(&[u64::MAX]).percentiles().unwrap().max;
        assert!(near(longest, LONGEST_US), "{longest}");
    }
}
