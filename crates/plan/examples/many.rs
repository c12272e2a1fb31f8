//! How long a whole plan with about a million mixes takes: `cargo run -p forebay-plan --example
//! many`; `best` is one search, `all` looks at each mix, `count` only counts them. Times are the
//! caller's (`time`).

use std::fmt::Write as _;
use std::io::Write as _;

use plan::answer::Depth;
use plan::catalogue::{Catalogue, Month};
use plan::load::{Scenario, shipped};
use plan::search::Problem;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let which = std::env::args().nth(1).unwrap_or_default();
    let mut text = String::new();
    for at in 0..16 {
        let (usd, capacity) = (500 + at * 700, 2 + at * 3);
        writeln!(
            text,
            "[[device]]\nid = \"f{at}\"\nclass = \"flash\"\nslot = \"nvme\"\ncapacity = \"{capacity} TB\"\nread = \"{} GB/s\"\nwrite = \"{} GB/s\"\ndwpd = 3\nprice = {{ usd = {usd}, date = \"2026-10\", source = \"example\" }}",
            3 + at,
            1 + at / 2
        )?;
        writeln!(
            text,
            "[[device]]\nid = \"b{at}\"\nclass = \"disk\"\nslot = \"sata\"\ncapacity = \"{} TB\"\nread = \"{} MB/s\"\nwrite = \"{} MB/s\"\nprice = {{ usd = {}, date = \"2026-10\", source = \"example\" }}",
            8 + at * 2,
            200 + at * 10,
            200 + at * 10,
            150 + at * 60
        )?;
    }
    let mut catalogue = Catalogue::shipped()?;
    catalogue.overlay(Catalogue::read("many", &text)?);
    let changes = ["load.messages=100 K/s".to_owned()];
    let text = shipped("car-ingest").ok_or("no scenario")?;
    let scenario = Scenario::read("many", text, &changes)?;
    let software = catalogue.software("forebay").ok_or("no software")?.clone();
    let today = Month::new(2026, 11).ok_or("no month")?;
    let problem = Problem::new(&scenario, &catalogue, &software, today);
    let said = match which.as_str() {
        "count" => format!("{} mixes\n", problem.mixes()),
        "all" => format!("{} mixes carry it\n", problem.all()?.len()),
        "best" => format!("{:?}\n", problem.best()?),
        _ => {
            let plan = plan::answer::solve(&scenario, None, &catalogue, today, Depth::Whole)?;
            plan::emit::text::plan(&plan, false)
        }
    };
    std::io::stdout().write_all(said.as_bytes())?;
    Ok(())
}
