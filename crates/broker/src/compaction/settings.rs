//! The broker's current compaction settings: `log.cleaner.*`. The settings of a topic are in the
//! topic's configuration.

use std::time::Duration;

use platform::Platform;
use storage::CompactOptions;

use crate::Broker;
use crate::topic_config::BrokerSettings;

/// Minimum time between two searches that found no log that was due.
const BACKOFF_MIN: Duration = Duration::from_millis(100);
/// Maximum size of the map, as in Kafka.
const MAP_BYTES_MAX: usize = i32::MAX as usize;

/// Settings of one round.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Settings {
    /// True if `log.cleaner.enable` is set and `log.cleaner.threads` is not 0.
    pub(super) is_enabled: bool,
    /// `log.cleaner.threads`.
    pub(super) logs_at_once: usize,
    /// `log.cleaner.backoff.ms`.
    pub(super) backoff: Duration,
    /// The share of memory and rate of one of `logs_at_once` rounds.
    pub(super) round: CompactOptions,
}

impl Settings {
    /// Returns the current settings.
    pub(super) fn of<P: Platform>(broker: &Broker<P>) -> Self {
        let image = broker.image();
        Self::resolve(&BrokerSettings {
            image: &image,
            options: &broker.options,
        })
    }

    #[allow(clippy::cast_precision_loss, reason = "a share of a rate")]
    fn resolve(settings: &BrokerSettings<'_>) -> Self {
        let text = |name: &str| settings.value(name).unwrap_or_default().trim();
        let size = |name: &str, default: usize| text(name).parse().unwrap_or(default);
        let logs_at_once = size("log.cleaner.threads", 1);
        let share = logs_at_once.max(1);
        let backoff_ms = text("log.cleaner.backoff.ms").parse().unwrap_or(15_000);
        let rate: f64 = text("log.cleaner.io.max.bytes.per.second")
            .parse()
            .unwrap_or(f64::MAX);
        let map_bytes = size("log.cleaner.dedupe.buffer.size", 128 << 20) / share;
        Self {
            is_enabled: !text("log.cleaner.enable").eq_ignore_ascii_case("false")
                && logs_at_once > 0,
            logs_at_once,
            backoff: Duration::from_millis(backoff_ms).max(BACKOFF_MIN),
            round: CompactOptions {
                map_bytes_max: map_bytes.min(MAP_BYTES_MAX),
                map_load_factor: text("log.cleaner.io.buffer.load.factor")
                    .parse()
                    .unwrap_or(0.9),
                buffer_bytes: size("log.cleaner.io.buffer.size", 512 << 10) / share,
                bytes_per_second_max: rate / share as f64,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::{Image, ResourceType};
    use crate::topic_config::tests::{options, set};

    #[test]
    fn memory_and_rate_are_shared_by_those_at_once() {
        let mut image = Image::empty();
        for (name, value) in [
            ("log.cleaner.threads", "4"),
            ("log.cleaner.dedupe.buffer.size", "4000000"),
            ("log.cleaner.io.max.bytes.per.second", "1e6"),
            ("log.cleaner.backoff.ms", "0"),
        ] {
            set(&mut image, ResourceType::BROKER, "", name, value);
        }
        let options = options();
        let now = Settings::resolve(&BrokerSettings {
            image: &image,
            options: &options,
        });
        assert!(now.is_enabled);
        assert_eq!((now.logs_at_once, now.round.map_bytes_max), (4, 1_000_000));
        assert!((now.round.bytes_per_second_max - 250_000.0).abs() < 1.0);
        assert_eq!(now.backoff, BACKOFF_MIN);
        set(
            &mut image,
            ResourceType::BROKER,
            "",
            "log.cleaner.threads",
            "0",
        );
        let image = &image;
        let options = &options;
        assert!(!Settings::resolve(&BrokerSettings { image, options }).is_enabled);
    }
}
