//! References to config providers in a setting, as an operator may write them: each is followed or
//! refused, and what a provider has is in no message, whatever setting it was put into.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use server::config::{RawSettings, Settings};
use server::machine::Machine;

/// No file is opened: the environment is the only provider.
const PROVIDERS: &[u8] = b"config.providers=env\n\
      config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider\n";

/// Settings whose messages repeat parts of a value, and one that is a secret.
const KEYS: [&str; 8] = [
    "listeners",
    "advertised.listeners",
    "listener.security.protocol.map",
    "super.users",
    "ssl.cipher.suites",
    "log.dirs",
    "num.partitions",
    "ssl.key.password",
];

/// What every variable has.
const HIDDEN: &str = "qzjxwvkq,vkxqzjwq;wvqzkxjq";

fuzz_target!(|bytes: &[u8]| {
    let Some((key, value)) = bytes.split_first() else {
        return;
    };
    let (Some(key), Ok(value)) = (
        KEYS.get(usize::from(*key) % KEYS.len()),
        std::str::from_utf8(value),
    ) else {
        return;
    };
    let mut raw = RawSettings::default();
    raw.add_bytes(Path::new("server.properties"), PROVIDERS)
        .expect("properties");
    raw.add_arguments(&[format!("{key}={value}")])
        .expect("an argument");
    let asked = std::cell::Cell::new(0_usize);
    raw.settle_in(&|_| {
        asked.set(asked.get() + 1);
        Some(HIDDEN.to_owned())
    });
    let put_in = raw.entries.last().expect("the argument").text();
    // A reference has seven letters at least: ${env:N} without its name.
    assert!(asked.get() <= value.len() / 7);
    assert!(put_in.len() <= value.len() + asked.get() * HIDDEN.len());
    let machine = Machine {
        host_name: "localhost".to_owned(),
        cores: 2,
        memory_bytes: 1 << 34,
    };
    let checked = Settings::judge(&raw, &machine);
    // What the operator wrote may be in a message, and may have the same letters.
    if asked.get() > 0 && !value.contains(['q', 'Q', 'z', 'Z']) {
        let said = format!("{raw:?} {:?} {:?}", checked.problems, checked.warnings);
        for part in HIDDEN.split([',', ';']) {
            assert!(!said.to_lowercase().contains(part), "{said}");
        }
    }
});
