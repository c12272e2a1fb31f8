//! A hundred worlds. `FOREBAY_SIM_SEED=n` runs world n alone, `FOREBAY_SIM_SEEDS=n` as many from 0 on.

use sim::report::Counts;

fn from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is no number: {text}")),
    )
}

#[test]
fn a_hundred_worlds_keep_their_promises() {
    let seeds = match from_environment("FOREBAY_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..from_environment("FOREBAY_SIM_SEEDS").unwrap_or(100),
    };
    let mut counts = Counts::default();
    let mut violations = Vec::new();
    for seed in seeds.clone() {
        match sim::run(seed, None) {
            Ok(report) => counts.add(&report.counts),
            Err(violation) => violations.push(violation.to_string()),
        }
    }
    assert!(
        violations.is_empty(),
        "{}\nagain, one of them: FOREBAY_SIM_SEED=n cargo test -p forebay-sim",
        violations.join("\n")
    );
    println!("{counts:?}");
    if seeds.end - seeds.start < 100 {
        return;
    }
    // The worlds are worth something only if all of this happens in them.
    for (what, count) in [
        ("acknowledged", counts.acknowledged),
        ("duplicates", counts.duplicates),
        ("read", counts.read),
        ("refused", counts.refused),
        ("truncated", counts.truncated),
        ("retained", counts.retained),
        ("stops", counts.stops),
        ("kills", counts.kills),
        ("crashes", counts.crashes),
        ("failed", counts.failed),
        ("lost", counts.lost),
        ("damaged", counts.damaged),
    ] {
        assert!(count > 0, "nothing was {what} in all the worlds");
    }
}
