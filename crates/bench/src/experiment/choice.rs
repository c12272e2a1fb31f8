//! Changes that the command line makes to an experiment: `--set`, `--seconds`, `--repetitions`,
//! `--only`.
//!
//! Invariant: a change without effect is refused, so that a typing error does not silently leave
//! the default.

use anyhow::{Context as _, anyhow, bail};

use super::file::{Experiment, Phase};
use super::sweep;

/// Applies `key=value` to an experiment.
///
/// The key is `repetitions`, `limits`, `device.NAME.FIELD`, `target.NAME.FIELD`,
/// `target.NAME.settings.KEY`, the name of a sweep, or a field of the loads such as
/// `produce.batch_bytes` (set in every phase that has it). For a sweep, a list replaces its values.
pub fn set(experiment: &mut Experiment, pair: &str) -> anyhow::Result<()> {
    let (key, text) = pair
        .split_once('=')
        .ok_or_else(|| anyhow!("--set {pair}: write key=value"))?;
    let value = value(text);
    set_value(experiment, key, &value).with_context(|| format!("--set {pair}"))
}

/// Parses a TOML value; anything else is a string.
fn value(text: &str) -> toml::Value {
    let parsed: Result<toml::Table, _> = format!("value = {text}").parse();
    let found = parsed.ok().and_then(|mut table| table.remove("value"));
    found.unwrap_or_else(|| toml::Value::String(text.to_owned()))
}

fn set_value(experiment: &mut Experiment, key: &str, value: &toml::Value) -> anyhow::Result<()> {
    match key.split_once('.') {
        None if key == "repetitions" => {
            experiment.repetitions = value.clone().try_into()?;
            for phase in &mut experiment.phase {
                phase.repetitions = None;
            }
            Ok(())
        }
        None if key == "limits" => {
            experiment.limits = value.clone().try_into()?;
            Ok(())
        }
        Some(("device", rest)) => set_device(experiment, rest, value),
        Some(("target", rest)) => set_target(experiment, rest, value),
        _ => set_load(experiment, key, value),
    }
}

fn set_device(experiment: &mut Experiment, rest: &str, value: &toml::Value) -> anyhow::Result<()> {
    let (name, field) = rest.rsplit_once('.').context("write device.NAME.FIELD")?;
    let known: Vec<_> = experiment.device.iter().map(|d| d.name.clone()).collect();
    let device = experiment
        .device
        .iter_mut()
        .find(|device| device.name == name)
        .with_context(|| format!("there is no device {name}, only {}", known.join(", ")))?;
    match field {
        "size" => device.size = Some(value.clone().try_into()?),
        "rate" => device.rate = Some(value.clone().try_into()?),
        "path" => device.path = Some(value.clone().try_into()?),
        _ => bail!("a device has no {field}; allowed: size, rate, path"),
    }
    Ok(())
}

fn set_target(experiment: &mut Experiment, rest: &str, value: &toml::Value) -> anyhow::Result<()> {
    let (name, field) = rest.split_once('.').context("write target.NAME.FIELD")?;
    let known = experiment.targets.join(", ");
    let target = experiment
        .target
        .get_mut(name)
        .with_context(|| format!("there is no target {name}, only {known}"))?;
    match (field, field.strip_prefix("settings.")) {
        (_, Some(setting)) => {
            let text = sweep::plain(value);
            target.settings.insert(setting.to_owned(), text);
        }
        ("binary", _) => target.binary = Some(value.clone().try_into()?),
        ("address", _) => target.address = Some(value.clone().try_into()?),
        _ => bail!("a target has no {field}; allowed: binary, address, settings.KEY"),
    }
    Ok(())
}

fn set_load(experiment: &mut Experiment, key: &str, value: &toml::Value) -> anyhow::Result<()> {
    let mut refused = None;
    let mut changed = false;
    for phase in &mut experiment.phase {
        match set_phase(phase, key, value) {
            Ok(()) => changed = true,
            Err(why) => refused = Some(why),
        }
    }
    // Warming loads take the change if they have the field, but keep their own length.
    for load in &mut experiment.warm {
        if !matches!(key, "seconds" | "warmup_seconds") {
            let mut json = serde_json::to_value(&*load)?;
            if sweep::set(&mut json, key, serde_json::to_value(value)?).is_ok() {
                *load = serde_json::from_value(json)?;
            }
        }
    }
    match refused {
        Some(why) if !changed => Err(why),
        _ => Ok(()),
    }
}

fn set_phase(phase: &mut Phase, key: &str, value: &toml::Value) -> anyhow::Result<()> {
    let swept = phase
        .sweep
        .iter_mut()
        .find(|sweep| sweep.name == key || sweep.set.iter().any(|path| path == key));
    if let Some(sweep) = swept {
        sweep.values = match value {
            toml::Value::Array(values) if !values.is_empty() => values.clone(),
            one => vec![one.clone()],
        };
        sweep::loads(phase).map_err(|unsound| anyhow!(unsound.why))?;
        return Ok(());
    }
    let mut json = serde_json::to_value(&phase.load)?;
    sweep::set(&mut json, key, serde_json::to_value(value)?).map_err(anyhow::Error::msg)?;
    phase.load = serde_json::from_value(json)?;
    Ok(())
}

/// The patterns of `--only`: a measurement is wanted if it matches one of them, or if there are
/// none.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct OnlyPatterns(Vec<Pattern>);

#[derive(Clone, PartialEq, Debug)]
struct Pattern {
    phase: Option<String>,
    parameters: Vec<(String, String)>,
}

impl OnlyPatterns {
    /// Parses patterns of the form `PHASE`, `PHASE/name=value,name=value` or `/name=value`;
    /// `device` is also a name.
    pub fn parse(patterns: &[String], experiment: &Experiment) -> anyhow::Result<Self> {
        let one =
            |text: &String| pattern(text, experiment).with_context(|| format!("--only {text}"));
        patterns.iter().map(one).collect::<Result<_, _>>().map(Self)
    }

    /// Returns whether a measurement with these parameters on this device is wanted.
    pub fn wants<'a>(
        &self,
        phase: &str,
        device: &str,
        parameter: impl Fn(&str) -> Option<&'a String>,
    ) -> bool {
        let fits = |pattern: &Pattern| {
            pattern.phase.as_deref().is_none_or(|name| name == phase)
                && pattern
                    .parameters
                    .iter()
                    .all(|(name, value)| match name.as_str() {
                        "device" => value == device,
                        _ => parameter(name) == Some(value),
                    })
        };
        self.0.is_empty() || self.0.iter().any(fits)
    }
}

fn pattern(text: &str, experiment: &Experiment) -> anyhow::Result<Pattern> {
    let (phase, rest) = text.split_once('/').unwrap_or((text, ""));
    let phases: Vec<_> = experiment.phase.iter().map(|p| p.name.as_str()).collect();
    if !phase.is_empty() && !phases.contains(&phase) {
        bail!("there is no phase {phase}, only {}", phases.join(", "));
    }
    let pairs = rest.split(',').filter(|pair| !pair.is_empty());
    let parameters = pairs
        .map(|pair| {
            let (name, value) = pair
                .split_once('=')
                .with_context(|| format!("{pair}: write name=value"))?;
            let mut sweeps = experiment.phase.iter().flat_map(|p| &p.sweep);
            if name != "device" && !sweeps.any(|sweep| sweep.name == name) {
                bail!("nothing varies {name}");
            }
            Ok((name.to_owned(), value.to_owned()))
        })
        .collect::<anyhow::Result<_>>()?;
    Ok(Pattern {
        phase: (!phase.is_empty()).then(|| phase.to_owned()),
        parameters,
    })
}

#[cfg(test)]
mod tests;
