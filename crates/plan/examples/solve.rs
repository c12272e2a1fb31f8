//! Solves a shipped scenario and prints it: `cargo run -p forebay-plan --example solve -- NAME
//! KEY=VALUE..`.

use std::io::Write as _;

use plan::answer::{Depth, solve};
use plan::catalogue::{Catalogue, Month};
use plan::load::{Scenario, shipped};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().ok_or("which scenario?")?;
    let set: Vec<String> = arguments.collect();
    let text = shipped(&name).ok_or("no such scenario")?;
    let today = Month::new(2026, 11).ok_or("no month")?;
    for (variant, scenario) in Scenario::variants(&name, text, &set)? {
        let plan = solve(
            &scenario,
            variant,
            &Catalogue::shipped()?,
            today,
            Depth::Whole,
        )?;
        std::io::stdout().write_all(plan::emit::text::plan(&plan, true).as_bytes())?;
    }
    Ok(())
}
