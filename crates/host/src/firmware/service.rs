//! The five requests of Redfish that settings of the firmware need: the system, its attributes,
//! their registry, the settings of the next start, and a change of these.
//!
//! Invariants: an attribute is written only if the registry of this machine has it, does not hold
//! it for read-only, and no dependency on another attribute may forbid it; a change is for the
//! state of the settings that was read (`ETag`), and comes into effect at the next start alone.

use std::collections::BTreeMap;
use std::io;

use hyper::Method;
use serde_json::{Value, json};

use super::http::{RedfishAnswer, RedfishRequest, ask};
use super::map::{self, Logical};
use super::place::RedfishPlace;

const SYSTEMS: &str = "/redfish/v1/Systems";
const REGISTRIES: &str = "/redfish/v1/Registries";
const ON_RESET: &str = "OnReset";
/// Limit on what an error or a message shows of the controller's words.
const LETTERS_MAX: usize = 400;

/// The controller's service.
#[derive(Debug)]
pub(super) struct Service {
    place: RedfishPlace,
}

/// The settings of the firmware as they were read.
#[derive(Clone, Debug)]
pub(super) struct Bios {
    now: BTreeMap<String, Value>,
    next: BTreeMap<String, Value>,
    /// Registered attributes by name.
    registry: BTreeMap<String, Value>,
    dependencies: Vec<Value>,
    settings: String,
    etag: Option<String>,
    apply_times: Vec<String>,
    /// What the controller says of the settings that it applied last.
    pub(super) said: String,
}

/// A setting with its possible values, in our words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Choice {
    pub(super) now: String,
    pub(super) next: String,
    possible: Vec<&'static str>,
}

impl Choice {
    /// Returns the possible values, the next one in brackets.
    pub(super) fn shown(&self) -> String {
        let mut words: Vec<String> = self
            .possible
            .iter()
            .map(|word| (*word).to_owned())
            .collect();
        if !words.contains(&self.next) {
            words.push(self.next.clone());
        }
        let word = |word: &String| {
            if *word == self.next {
                format!("[{word}]")
            } else {
                word.clone()
            }
        };
        words.iter().map(word).collect::<Vec<_>>().join(" ") + "\n"
    }
}

impl Service {
    pub(super) fn new(place: RedfishPlace) -> Service {
        Service { place }
    }

    fn get(&self, path: &str) -> io::Result<RedfishAnswer> {
        let method = Method::GET;
        let asked = RedfishRequest {
            method,
            path,
            etag: None,
            body: None,
        };
        checked(path, ask(&self.place, &asked)?)
    }

    /// Reads all settings.
    pub(super) fn read(&self) -> io::Result<Bios> {
        let system = match &self.place.system {
            Some(system) => system.clone(),
            None => self.only_system()?,
        };
        let bios = link(&self.get(&system)?.body["Bios"]).ok_or_else(|| lacks(&system, "Bios"))?;
        let bios = self.get(&bios)?.body;
        let announced = &bios["@Redfish.Settings"];
        let settings = link(&announced["SettingsObject"]);
        let settings = settings.ok_or_else(|| lacks("the Bios", "@Redfish.Settings"))?;
        let pending = self.get(&settings)?;
        let name = bios["AttributeRegistry"].as_str();
        let name = name.ok_or_else(|| lacks("the Bios", "AttributeRegistry"))?;
        let registry = self.registry(name)?;
        let entries = &registry["RegistryEntries"];
        let of = |attribute: &Value| {
            Some((
                attribute["AttributeName"].as_str()?.to_owned(),
                attribute.clone(),
            ))
        };
        let etag = pending.body["@odata.etag"].as_str().map(str::to_owned);
        Ok(Bios {
            now: attributes(&bios),
            next: attributes(&pending.body),
            registry: array(&entries["Attributes"])
                .iter()
                .filter_map(of)
                .collect(),
            dependencies: array(&entries["Dependencies"]).to_vec(),
            settings,
            etag: pending.etag.or(etag),
            apply_times: texts(&announced["SupportedApplyTimes"]),
            said: messages(&announced["Messages"]),
        })
    }

    fn only_system(&self) -> io::Result<String> {
        let systems = self.get(SYSTEMS)?.body;
        match array(&systems["Members"]) {
            [one] => link(one).ok_or_else(|| lacks(SYSTEMS, "@odata.id")),
            many => Err(unusable(format!(
                "the controller has {} systems: name one (system = \"/redfish/v1/Systems/..\")",
                many.len()
            ))),
        }
    }

    /// Returns the registry of the attributes.
    fn registry(&self, name: &str) -> io::Result<Value> {
        let file = self.get(&format!("{REGISTRIES}/{name}"))?.body;
        let places = array(&file["Location"]);
        let uri = places.iter().find_map(|place| place["Uri"].as_str());
        let uri = uri.ok_or_else(|| lacks(name, "Location"))?;
        Ok(self.get(uri)?.body)
    }

    /// Stages a value for the next start, and reads it back.
    pub(super) fn stage(&self, bios: &Bios, attribute: &str, value: &Value) -> io::Result<()> {
        let apply_time = &bios.apply_times;
        if !apply_time.is_empty() && !apply_time.iter().any(|time| time == ON_RESET) {
            return Err(unusable(format!(
                "the controller applies settings {}, not at the next start",
                apply_time.join(", ")
            )));
        }
        let mut body = json!({ "Attributes": { attribute: value } });
        // A controller that names no times knows but one.
        if !apply_time.is_empty() {
            body["@Redfish.SettingsApplyTime"] = json!({ "@odata.type": "#Settings.v1_3_0.PreferredApplyTime", "ApplyTime": ON_RESET });
        }
        let asked = RedfishRequest {
            method: Method::PATCH,
            path: &bios.settings,
            etag: bios.etag.as_deref(),
            body: Some(body.to_string()),
        };
        let answer = ask(&self.place, &asked)?;
        if answer.status == 412 {
            return Err(io::Error::new(
                io::ErrorKind::ResourceBusy,
                "the settings of the next start were changed by somebody else in this moment",
            ));
        }
        checked(&bios.settings, answer).map(drop)
    }
}

impl Bios {
    /// Returns the logical names that this machine has.
    pub(super) fn names(&self) -> Vec<String> {
        let found = map::ALL
            .iter()
            .filter(|logical| self.attribute_of(logical).is_some());
        found.map(|logical| logical.name.to_owned()).collect()
    }

    fn logical(name: &str) -> io::Result<&'static Logical> {
        let found = map::ALL.iter().find(|logical| logical.name == name);
        found.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Returns the name of the attribute that this machine has for a logical one.
    fn attribute_of(&self, logical: &Logical) -> Option<&'static str> {
        let mut names = logical.attributes.iter();
        let has =
            |name: &&&str| self.registry.contains_key(**name) && self.now.contains_key(**name);
        names.find(has).copied()
    }

    fn known(&self, logical: &Logical) -> io::Result<&'static str> {
        self.attribute_of(logical).ok_or_else(|| {
            let what = format!(
                "the registry of this machine has none of {}",
                logical.attributes.join(", ")
            );
            io::Error::new(io::ErrorKind::NotFound, what)
        })
    }

    /// Returns the values of a setting, in our words.
    pub(super) fn choice(&self, name: &str) -> io::Result<Choice> {
        let logical = Bios::logical(name)?;
        let attribute = self.known(logical)?;
        let word = |value: &Value| {
            let value = text(value);
            logical.word(&value).map_or(value, str::to_owned)
        };
        let now = &self.now[attribute];
        Ok(Choice {
            now: word(now),
            next: word(self.next.get(attribute).unwrap_or(now)),
            possible: self
                .possible(logical, attribute)
                .into_iter()
                .map(|(word, _)| word)
                .collect(),
        })
    }

    /// Returns (our word, the machine's value) of each possible value.
    fn possible(&self, logical: &Logical, attribute: &str) -> Vec<(&'static str, Value)> {
        let values = self
            .registry
            .get(attribute)
            .map(|entry| array(&entry["Value"]));
        let named = |value: &Value| {
            let name = &value["ValueName"];
            Some((logical.word(&text(name))?, name.clone()))
        };
        values
            .unwrap_or_default()
            .iter()
            .filter_map(named)
            .collect()
    }

    /// Returns what is to be staged for a value: the settings as they were read, the attribute, and
    /// the machine's word; or why it is refused.
    pub(super) fn attribute(&self, name: &str, value: &str) -> io::Result<(Bios, String, Value)> {
        let logical = Bios::logical(name)?;
        let attribute = self.known(logical)?;
        let entry = &self.registry[attribute];
        for (flag, why) in [
            ("ReadOnly", "read-only"),
            ("GrayOut", "not changeable"),
            ("Hidden", "hidden"),
            ("Immutable", "fixed"),
        ] {
            if entry[flag] == json!(true) {
                return Err(unusable(format!("{attribute} is {why} on this machine")));
            }
        }
        if let Some(other) = self.forbidden_by(attribute) {
            return Err(unusable(format!(
                "{attribute} depends on {other}, whose present value forbids it"
            )));
        }
        let possible = self.possible(logical, attribute);
        let found = possible.iter().find(|(word, _)| *word == value);
        // A value that was there before is put back as the machine writes it.
        let own = || {
            self.now
                .get(attribute)
                .filter(|now| text(now) == value)
                .cloned()
        };
        let staged = found
            .map(|(_, theirs)| theirs.clone())
            .or_else(own)
            .ok_or_else(|| {
                let words: Vec<&str> = possible.iter().map(|(word, _)| *word).collect();
                unusable(format!(
                    "{value:?} is none of the values of {attribute}: {}",
                    words.join(", ")
                ))
            })?;
        Ok((self.clone(), attribute.to_owned(), staged))
    }

    /// Returns the attribute on whose value it depends that this one cannot be written.
    ///
    /// A condition of unknown form holds: a refusal is repaired by hand, a wrong setting at the
    /// next start is not.
    fn forbidden_by(&self, attribute: &str) -> Option<String> {
        let forbids = |dependency: &&Value| {
            let rule = &dependency["Dependency"];
            let property = rule["MapToProperty"].as_str().unwrap_or_default();
            rule["MapToAttribute"] == json!(attribute)
                && ["ReadOnly", "GrayOut", "Hidden"].contains(&property)
                && rule["MapToValue"] == json!(true)
        };
        let found = self.dependencies.iter().filter(forbids);
        found
            .flat_map(|dependency| array(&dependency["Dependency"]["MapFrom"]))
            .find_map(|from| {
                let other = from["MapFromAttribute"]
                    .as_str()
                    .unwrap_or("an unknown attribute");
                let now = self.next.get(other).or_else(|| self.now.get(other));
                let is_same = now.map(text) == Some(text(&from["MapFromValue"]));
                let holds = match from["MapFromCondition"].as_str() {
                    Some("EQU") => is_same,
                    Some("NEQ") => !is_same,
                    _ => true,
                };
                holds.then(|| other.to_owned())
            })
    }
}

fn checked(path: &str, answer: RedfishAnswer) -> io::Result<RedfishAnswer> {
    match answer.status {
        200..=299 => Ok(answer),
        401 | 403 => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "{path}: the controller refuses the login ({})",
                answer.status
            ),
        )),
        status => {
            let said = messages(&answer.body["error"]["@Message.ExtendedInfo"]);
            Err(unusable(format!("{path}: {status} {}", said.trim())))
        }
    }
}

fn attributes(resource: &Value) -> BTreeMap<String, Value> {
    let found = resource["Attributes"].as_object();
    let found = found.into_iter().flatten();
    found
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn texts(value: &Value) -> Vec<String> {
    array(value)
        .iter()
        .filter_map(|text| text.as_str())
        .map(str::to_owned)
        .collect()
}

fn link(value: &Value) -> Option<String> {
    value["@odata.id"].as_str().map(str::to_owned)
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns messages other than those of success, joined and cut.
fn messages(value: &Value) -> String {
    let is_bad = |message: &&Value| {
        let severity = message["MessageSeverity"]
            .as_str()
            .or(message["Severity"].as_str());
        severity.is_none_or(|severity| severity != "OK")
    };
    let of = |message: &Value| {
        let said = message["Message"]
            .as_str()
            .or(message["MessageId"].as_str());
        said.map(str::to_owned)
    };
    let said: Vec<String> = array(value).iter().filter(is_bad).filter_map(of).collect();
    said.join("; ").chars().take(LETTERS_MAX).collect()
}

fn lacks(what: &str, part: &str) -> io::Error {
    unusable(format!("{what} has no {part}"))
}

fn unusable(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, what)
}
