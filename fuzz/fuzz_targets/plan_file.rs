//! A plan as a user may write it: read, solved where it is small, every answer written down, every
//! problem described.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plan::answer::{Depth, solve};
use plan::catalogue::{Catalogue, Month};
use plan::emit;
use plan::load::Scenario;

fuzz_target!(|text: &str| {
    let scenario = match Scenario::read("plan.toml", text, &[]) {
        Ok(scenario) => scenario,
        Err(problem) => {
            assert!(!problem.to_string().is_empty());
            return;
        }
    };
    let catalogue = Catalogue::shipped().expect("what is shipped reads");
    let today = Month::new(2026, 11).expect("a month");
    match solve(&scenario, None, &catalogue, today, Depth::Whole) {
        Ok(plan) => {
            drop(emit::text::plan(&plan, true));
            drop(emit::files(&plan));
        }
        Err(refused) => assert!(!refused.to_string().is_empty()),
    }
});
