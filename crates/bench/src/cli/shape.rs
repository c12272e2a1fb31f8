//! Flags that do not fit one number: sizes of records, keys, rates over time.

use super::quantity;
use crate::spec::{Keys, Rate, Sizes};

/// Parses sizes: `1KB`, `100..10KB` (evenly), `100*1,10KB*3` (weighted).
pub(super) fn sizes(text: &str) -> Result<Sizes, String> {
    if let Some((min, max)) = text.split_once("..") {
        return Ok(Sizes::Uniform {
            min: quantity::small(min)?,
            max: quantity::small(max)?,
        });
    }
    if !text.contains('*') {
        return quantity::small(text).map(Sizes::Fixed);
    }
    let weights = text.split(',').map(|part| {
        let (size, weight) = part.split_once('*').unwrap_or((part, "1"));
        let weight = weight
            .trim()
            .parse()
            .map_err(|_| format!("{weight:?} is no weight"))?;
        Ok((quantity::small(size)?, weight))
    });
    Ok(Sizes::Weighted {
        weights: weights.collect::<Result<_, String>>()?,
    })
}

/// Parses keys: `none`, `cycle:N`, `random:N`.
pub(super) fn keys(text: &str) -> Result<Keys, String> {
    let count = |count: &str| {
        let count = count.parse::<u64>().ok().filter(|count| *count > 0);
        count.ok_or_else(|| format!("{text:?}: how many keys must be a number above 0"))
    };
    match text.split_once(':') {
        None if text == "none" => Ok(Keys::None),
        Some(("cycle", keys)) => Ok(Keys::Cycle(count(keys)?)),
        Some(("random", keys)) => Ok(Keys::Random(count(keys)?)),
        _ => Err(format!("{text:?} is none of none, cycle:N, random:N")),
    }
}

/// Parses a rate: `unlimited`, `100MB`, or a shape with its times in seconds after a slash.
pub(super) fn rate(text: &str) -> Result<Rate, String> {
    if text == "unlimited" {
        return Ok(Rate::Unlimited);
    }
    let Some((shape, rest)) = text.split_once(':') else {
        let rate = quantity::bytes(text)?;
        return Ok(Rate::Constant { rate });
    };
    if shape == "replay" {
        let file = rest.to_owned();
        return Ok(Rate::Replay { file });
    }
    let (rates, times) = rest
        .rsplit_once('/')
        .ok_or_else(|| format!("{text:?} lacks /SECONDS"))?;
    let rates: Vec<f64> = rates
        .split(',')
        .map(quantity::bytes)
        .collect::<Result<_, _>>()?;
    let times = times.split(',').map(|time| {
        let time = time.trim().parse::<f64>();
        time.map_err(|_| format!("{text:?}: behind the slash come seconds"))
    });
    let times: Vec<f64> = times.collect::<Result<_, _>>()?;
    match (shape, rates.as_slice(), times.as_slice()) {
        ("step", _, &[every]) => Ok(Rate::Step { rates, every }),
        ("ramp", &[from, to], &[over]) => Ok(Rate::Ramp { from, to, over }),
        ("burst", &[base, peak], &[length, interval]) => Ok(Rate::Burst {
            base,
            peak,
            length,
            interval,
            warmup: None,
        }),
        ("sine", &[mean, amplitude], &[period]) => Ok(Rate::Sine {
            mean,
            amplitude,
            period,
        }),
        _ => Err(format!(
            "{text:?} is none of RATE, step:RATE,RATE,../EVERY, ramp:FROM,TO/OVER, \
             burst:BASE,PEAK/LENGTH,INTERVAL, sine:MEAN,AMPLITUDE/PERIOD, replay:FILE, unlimited"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_keys_are_read() {
        assert_eq!(sizes("240KB"), Ok(Sizes::Fixed(240_000)));
        let (min, max) = (100, 10_240);
        assert_eq!(sizes("100..10KiB"), Ok(Sizes::Uniform { min, max }));
        let weights = vec![(100, 1.0), (1000, 2.5)];
        assert_eq!(sizes("100*1,1KB*2.5"), Ok(Sizes::Weighted { weights }));
        assert!(sizes("100*x").is_err());
        assert_eq!(keys("cycle:30"), Ok(Keys::Cycle(30)));
        assert_eq!(keys("random:1000"), Ok(Keys::Random(1000)));
        assert!(keys("cycle:0").is_err() && keys("some").is_err());
    }

    #[test]
    fn every_shape_of_a_rate_is_read() {
        assert_eq!(rate("unlimited"), Ok(Rate::Unlimited));
        assert_eq!(rate("1MB/s"), Ok(Rate::Constant { rate: 1e6 }));
        let (rates, every) = (vec![1e6, 2e6, 0.0], 5.0);
        assert_eq!(rate("step:1MB,2MB,0/5"), Ok(Rate::Step { rates, every }));
        let burst = Rate::Burst {
            base: 1e6,
            peak: 1e8,
            length: 2.0,
            interval: 10.0,
            warmup: None,
        };
        assert_eq!(rate("burst:1MB,100MB/2,10"), Ok(burst));
        let sine = Rate::Sine {
            mean: 2e6,
            amplitude: 1e6,
            period: 60.0,
        };
        assert_eq!(rate("sine:2MB,1MB/60"), Ok(sine));
        let ramp = Rate::Ramp {
            from: 0.0,
            to: 1e9,
            over: 0.5,
        };
        assert_eq!(rate("ramp:0,1GB/0.5"), Ok(ramp));
        let file = "a/b.csv".to_owned();
        assert_eq!(rate("replay:a/b.csv"), Ok(Rate::Replay { file }));
        assert!(
            rate("ramp:1,2,3/4")
                .unwrap_err()
                .contains("ramp:FROM,TO/OVER")
        );
        assert!(rate("burst:1,2").unwrap_err().contains("lacks"));
    }
}
