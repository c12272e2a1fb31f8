//! A settings file as a user may write it: parsed, resolved, every problem described.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use server::config::{RawSettings, Settings};
use server::machine::Machine;

fuzz_target!(|bytes: &[u8]| {
    let machine = Machine {
        host_name: "localhost".to_owned(),
        cores: 2,
        memory_bytes: 1 << 34,
    };
    let mut raw = RawSettings::default();
    if raw
        .add_bytes(Path::new("server.properties"), bytes)
        .is_err()
    {
        return;
    }
    match Settings::resolve(&raw, &machine) {
        Ok(resolved) => {
            resolved
                .warnings
                .iter()
                .for_each(|warning| drop(warning.to_string()));
        }
        Err(problems) => {
            assert!(!problems.is_empty());
            problems
                .iter()
                .for_each(|problem| drop(problem.to_string()));
        }
    }
});
