//! Settings of the firmware, through the Redfish service of the machine's controller: logical names
//! (`cpu.snoop`) as names of the tree.
//!
//! `firmware/NAME` is the value that the next start of the host has, among those that are possible
//! (`early [home]`), and is writable; `firmware-now/NAME` is the value in effect; and
//! `firmware-said/all` is what the controller says of the last settings that it applied.
//! Invariants: a value is only staged, never applied: nothing here restarts a host; an attribute
//! that the live registry does not know, or holds for read-only, is refused; the login is in no
//! plan, journal or message, and goes only to a service whose certificate has the known
//! fingerprint.
//!
//! Not here: which value is good, and who restarts the host ([`crate::fleet`]).

mod http;
mod map;
mod place;
mod service;

use std::io;
use std::sync::Mutex;

use service::{Bios, Service};

pub use place::{LOGIN, PLACE};

/// Directory of the values of the next start.
pub const DIR: &str = "firmware";
/// Directory of the values in effect.
const NOW: &str = "firmware-now";
/// The name of what the controller says.
pub const SAID: &str = "firmware-said/all";

/// What a name of the tree denotes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Setting {
    /// The value of the next start.
    Next(String),
    /// The value in effect.
    Now(String),
    /// What the controller says of the settings that it applied last.
    Said,
}

impl Setting {
    /// Returns what a name denotes; none if it is no name of the firmware.
    pub fn of(name: &str) -> Option<Setting> {
        if name == SAID {
            return Some(Setting::Said);
        }
        let (dir, name) = name.split_once('/')?;
        match dir {
            DIR => Some(Setting::Next(name.to_owned())),
            NOW => Some(Setting::Now(name.to_owned())),
            _ => None,
        }
    }
}

/// Returns the name of the value in effect, for an item of the firmware.
pub fn now_of(item: &str) -> Option<String> {
    Some(format!("{NOW}/{}", item.strip_prefix("firmware.")?))
}

/// The firmware of one machine.
#[derive(Debug)]
pub struct Firmware {
    service: Service,
    /// What was read, until something is written; one command sees one state.
    read: Mutex<Option<Bios>>,
}

impl Firmware {
    /// Returns the firmware of the place that the environment or the host's file names.
    pub fn configured(is_this_machine: bool) -> anyhow::Result<Option<Firmware>> {
        let place = place::configured(is_this_machine)?;
        Ok(place.map(|place| Firmware {
            service: Service::new(place),
            read: Mutex::new(None),
        }))
    }

    #[cfg(test)]
    pub(crate) fn at(place: place::RedfishPlace) -> Firmware {
        Firmware {
            service: Service::new(place),
            read: Mutex::new(None),
        }
    }

    fn with<T>(&self, of: impl FnOnce(&Bios) -> io::Result<T>) -> io::Result<T> {
        let mut read = self.read.lock().map_err(|_| io::ErrorKind::Other)?;
        if let Some(bios) = read.as_ref() {
            return of(bios);
        }
        let bios = self.service.read()?;
        let found = of(&bios);
        *read = Some(bios);
        found
    }

    /// Reads a setting.
    pub fn read(&self, setting: &Setting) -> io::Result<String> {
        self.with(|bios| match setting {
            Setting::Next(name) => Ok(bios.choice(name)?.shown()),
            Setting::Now(name) => Ok(bios.choice(name)?.now + "\n"),
            Setting::Said => Ok(bios.said.clone()),
        })
    }

    /// Stages a value for the next start.
    pub fn write(&self, setting: &Setting, value: &str) -> io::Result<()> {
        let Setting::Next(name) = setting else {
            return Err(io::ErrorKind::PermissionDenied.into());
        };
        let attribute = self.with(|bios| bios.attribute(name, value));
        // Read again after it, also if it failed.
        let forget = || {
            if let Ok(mut read) = self.read.lock() {
                *read = None;
            }
        };
        let staged =
            attribute.and_then(|(bios, name, value)| self.service.stage(&bios, &name, &value));
        forget();
        staged
    }

    /// Returns the logical names that this machine has.
    pub fn names(&self) -> io::Result<Vec<String>> {
        self.with(|bios| Ok(bios.names()))
    }
}

#[cfg(test)]
mod tests;
