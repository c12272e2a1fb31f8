//! Rejects loads that cannot run, before anything is touched, with errors that say what to change.

use anyhow::{bail, ensure};

use super::security::Security;
use crate::spec::{Consume, ConsumeStart, Driver, Load, Produce, Requests, Sizes};

/// Largest accepted value of a record.
const VALUE_BYTES_MAX: u32 = 1 << 30;

/// The longest time of a load: longer ones are beyond what a clock or a curve can show.
const SECONDS_MAX: f64 = 1e9;
/// The shortest point of a curve.
const INTERVAL_SECONDS_MIN: f64 = 0.001;

/// Rejects invalid loads.
pub(super) fn check(load: &Load, value_bytes_min: usize) -> anyhow::Result<()> {
    ensure!(
        load.produce.is_some() || load.consume.is_some(),
        "a load that neither writes nor reads"
    );
    ensure!(load.topics.count > 0, "a load needs at least one topic");
    ensure!(
        load.topics.partitions > 0 || load.topics.existing,
        "topics need at least one partition"
    );
    positive("seconds", load.seconds)?;
    positive("interval_seconds", load.interval_seconds)?;
    ensure!(
        load.warmup_seconds >= 0.0 && load.warmup_seconds.is_finite(),
        "warmup_seconds is a time, 0 or longer"
    );
    ensure!(
        load.interval_seconds >= INTERVAL_SECONDS_MIN,
        "interval_seconds must be at least {INTERVAL_SECONDS_MIN}"
    );
    for (name, seconds) in [
        ("seconds", load.seconds),
        ("warmup_seconds", load.warmup_seconds),
        ("interval_seconds", load.interval_seconds),
    ] {
        ensure!(
            seconds <= SECONDS_MAX,
            "{name} must be at most {SECONDS_MAX}"
        );
    }
    if let Some(produce) = &load.produce {
        check_produce(produce, value_bytes_min)?;
    }
    if load.driver == Driver::Librdkafka {
        let discard = load.consume.as_ref().is_some_and(|it| it.discard);
        ensure!(
            !discard,
            "librdkafka's readers cannot discard what they read"
        );
        let produce = load.produce.as_ref();
        ensure!(
            produce.is_none_or(|it| it.requests == Requests::Packed),
            "librdkafka itself decides which batches share a request: leave requests away"
        );
    }
    match &load.consume {
        Some(consume) => check_consume(load, consume),
        None => Ok(()),
    }
}

/// Rejects what cannot be done on the connections that the load's file of properties asks for.
pub(super) fn check_security(load: &Load, security: &Security) -> anyhow::Result<()> {
    ensure!(
        load.security.is_none() || load.driver == Driver::Native,
        "the driver librdkafka takes no file of properties here: leave security away"
    );
    let discards = load.consume.as_ref().is_some_and(|it| it.discard);
    ensure!(
        !(discards && security.is_tls()),
        "under TLS the kernel cannot discard what is read: leave discard away"
    );
    Ok(())
}

fn check_produce(produce: &Produce, value_bytes_min: usize) -> anyhow::Result<()> {
    ensure!(
        produce.producers > 0,
        "to write takes at least one producer"
    );
    ensure!(
        produce.in_flight_max > 0,
        "in_flight_max must be at least 1"
    );
    ensure!(
        matches!(produce.acks, -1..=1),
        "acks is 0, 1 or -1 (all), not {}",
        produce.acks
    );
    if produce.idempotent {
        ensure!(
            produce.acks == -1,
            "an idempotent producer needs acks=-1 (all)"
        );
        ensure!(
            produce.in_flight_max <= 5,
            "an idempotent producer has at most 5 requests in flight: brokers remember 5 batches"
        );
    }
    ensure!(
        (0.0..=8.0).contains(&produce.entropy),
        "entropy is 0 to 8 bits per byte, not {}",
        produce.entropy
    );
    ensure!(
        produce.linger_ms >= 0.0 && produce.linger_ms.is_finite(),
        "linger_ms is a time, 0 or longer"
    );
    let (least, most) = match &produce.record {
        Sizes::Fixed(size) => (*size, *size),
        Sizes::Uniform { min, max } => {
            ensure!(
                min <= max,
                "sizes from {min} to {max}: the first is the larger one"
            );
            (*min, *max)
        }
        Sizes::Weighted { weights } => {
            let positive = weights.iter().filter(|(_, weight)| *weight > 0.0);
            let sizes: Vec<u32> = positive.map(|(size, _)| *size).collect();
            let valid = weights
                .iter()
                .all(|(_, weight)| *weight >= 0.0 && weight.is_finite());
            match (sizes.iter().min(), sizes.iter().max()) {
                (Some(least), Some(most)) if valid => (*least, *most),
                _ => bail!("weights of sizes are 0 or above, and one at least is above"),
            }
        }
    };
    ensure!(
        most <= VALUE_BYTES_MAX,
        "a value of {most} bytes is too large"
    );
    ensure!(
        least as usize >= value_bytes_min,
        "to be checked, values need at least {value_bytes_min} bytes: {least} are too few"
    );
    Ok(())
}

fn check_consume(load: &Load, consume: &Consume) -> anyhow::Result<()> {
    ensure!(consume.consumers > 0, "to read takes at least one consumer");
    ensure!(consume.groups > 0, "to read takes at least one group");
    ensure!(
        consume.max_bytes > 0 && consume.partition_max_bytes > 0,
        "readers must accept bytes: max_bytes and partition_max_bytes above 0"
    );
    ensure!(
        load.produce.is_some() || load.topics.existing,
        "to read without writing takes topics that exist"
    );
    if load.verify {
        ensure!(
            !consume.discard,
            "records that are discarded in the kernel cannot be checked: leave discard away"
        );
        ensure!(
            consume.from == ConsumeStart::Earliest,
            "to check every record, readers must start at the earliest"
        );
    }
    Ok(())
}

fn positive(name: &str, value: f64) -> anyhow::Result<()> {
    ensure!(value > 0.0 && value.is_finite(), "{name} must be above 0");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_refused_in_words() {
        let sound: Load = toml::from_str(
            "seconds = 1\n[topics]\ncount = 1\npartitions = 1\n[produce]\nproducers = 1\n\
             record = 100\nbatch_bytes = 1000\nacks = -1\nin_flight_max = 5\n",
        )
        .unwrap();
        assert!(check(&sound, 16).is_ok());
        let refused = |change: &dyn Fn(&mut Load, &mut Produce)| {
            let mut load = sound.clone();
            let mut produce = load.produce.take().unwrap();
            change(&mut load, &mut produce);
            load.produce = Some(produce);
            check(&load, 16).unwrap_err().to_string()
        };
        assert!(refused(&|load, _| load.seconds = 0.0).contains("seconds must be above 0"));
        for (name, value) in [
            ("seconds", 1e19),
            ("warmup_seconds", 1e19),
            ("interval_seconds", 1e19),
            ("interval_seconds", 1e-300),
        ] {
            let said = refused(&|load, _| match name {
                "seconds" => load.seconds = value,
                "warmup_seconds" => load.warmup_seconds = value,
                _ => load.interval_seconds = value,
            });
            assert!(said.starts_with(&format!("{name} must be at ")), "{said}");
        }
        assert!(refused(&|_, produce| produce.acks = 2).contains("not 2"));
        assert!(refused(&|_, produce| produce.record = Sizes::Fixed(15)).contains("16 bytes"));
        let idempotent = refused(&|_, produce| {
            produce.idempotent = true;
            produce.in_flight_max = 6;
        });
        assert!(idempotent.contains("at most 5"), "{idempotent}");
        let weights = refused(&|_, produce| {
            produce.record = Sizes::Weighted {
                weights: vec![(100, 0.0)],
            };
        });
        assert!(weights.contains("one at least"), "{weights}");
    }
}
