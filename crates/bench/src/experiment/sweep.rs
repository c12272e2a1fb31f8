//! The loads of a phase: one for every combination of the values it varies.
//!
//! Invariant: combinations come in the order of the file, the last sweep varying fastest, so that a
//! plan is always the same.

use std::collections::BTreeMap;

use anyhow::bail;
use serde_json::Value;

use super::file::Phase;
use crate::spec::Load;

/// One combination.
#[derive(Clone, PartialEq, Debug)]
pub struct Point {
    /// The varied parameters, from name to value.
    pub parameters: BTreeMap<String, String>,
    /// The load with these values.
    pub load: Load,
}

/// Why a combination is not a valid load.
#[derive(Debug)]
pub struct UnsoundLoad {
    /// The sweep at fault.
    pub sweep: Option<String>,
    /// The reason.
    pub why: String,
}

/// Returns every combination of a phase.
pub fn loads(phase: &Phase) -> Result<Vec<Point>, UnsoundLoad> {
    let base = serde_json::to_value(&phase.load).map_err(|error| UnsoundLoad {
        sweep: None,
        why: error.to_string(),
    })?;
    let mut points = vec![(BTreeMap::new(), base)];
    for sweep in &phase.sweep {
        let blame = |why: String| UnsoundLoad {
            sweep: Some(sweep.name.clone()),
            why: format!("sweep {}: {why}", sweep.name),
        };
        let mut wider = Vec::with_capacity(points.len() * sweep.values.len());
        for (parameters, load) in &points {
            for value in &sweep.values {
                let mut load = load.clone();
                let json = serde_json::to_value(value).map_err(|error| blame(error.to_string()))?;
                for path in &sweep.set {
                    set(&mut load, path, json.clone()).map_err(&blame)?;
                }
                // Only types are checked here: a later sweep may correct other errors of this
                // combination.
                parsed(&load).map_err(&blame)?;
                let mut parameters: BTreeMap<String, String> = parameters.clone();
                parameters.insert(sweep.name.clone(), plain(value));
                wider.push((parameters, load));
            }
        }
        points = wider;
    }
    points
        .into_iter()
        .map(|(parameters, load)| {
            let load = parsed(&load)
                .and_then(|load| {
                    sound(&load).map_err(|error| error.to_string())?;
                    Ok(load)
                })
                .map_err(|why| UnsoundLoad { sweep: None, why })?;
            Ok(Point { parameters, load })
        })
        .collect()
}

/// Checks that a load does anything, before anything is started.
fn sound(load: &Load) -> anyhow::Result<()> {
    if load.produce.is_none() && load.consume.is_none() {
        bail!("the load neither produces nor consumes");
    }
    if load.seconds <= 0.0 {
        bail!("seconds must be more than 0");
    }
    Ok(())
}

fn parsed(load: &Value) -> Result<Load, String> {
    serde_json::from_value(load.clone()).map_err(|error| error.to_string())
}

/// Returns a value as it is shown: text without quotes, plain numbers.
pub(super) fn plain(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Integer(number) => number.to_string(),
        toml::Value::Float(number) => number.to_string(),
        toml::Value::Boolean(flag) => flag.to_string(),
        other => serde_json::to_string(other).unwrap_or_default(),
    }
}

/// Sets the field of a load at a path.
///
/// The field must exist, except under `topics.configs`; an absent part of the load has no fields.
pub fn set(load: &mut Value, path: &str, value: Value) -> Result<(), String> {
    let mut at = load;
    let mut walked = String::new();
    let parts: Vec<&str> = path.split('.').collect();
    let (last, before) = parts.split_last().ok_or("an empty path")?;
    for (index, part) in before.iter().enumerate() {
        // Topic configs have dots in their names.
        if walked == "topics.configs" {
            let key = parts.get(index..).map(|rest| rest.join("."));
            return put(at, &key.unwrap_or_default(), value, true);
        }
        walked = if walked.is_empty() {
            (*part).to_owned()
        } else {
            format!("{walked}.{part}")
        };
        let fields = fields(at);
        at = at
            .get_mut(*part)
            .filter(|next| next.is_object())
            .ok_or_else(|| format!("the load has no {walked}; there is {fields}"))?;
    }
    put(at, last, value, walked == "topics.configs")
}

fn put(at: &mut Value, key: &str, value: Value, free: bool) -> Result<(), String> {
    let known = fields(at);
    let table = at.as_object_mut().ok_or("not a table")?;
    if !free && !table.contains_key(key) {
        return Err(format!(
            "the load has no field {key} there; allowed: {known}"
        ));
    }
    table.insert(key.to_owned(), value);
    Ok(())
}

fn fields(at: &Value) -> String {
    let keys = at.as_object().map(|table| {
        table
            .keys()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(", ")
    });
    keys.unwrap_or_default()
}
