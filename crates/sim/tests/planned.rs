//! Plans beside the policy itself: bursts and gaps by the planner's closed form, and by the real
//! policy of tiers on the fluid of `storage::tier::fluid`, for loads by chance.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use planner::catalogue::{Catalogue, Month};
use planner::load::Scenario;
use planner::quantity::Seconds;
use planner::search::Problem;
use storage::tier::fluid::{Fluid, LogLayout, MB};
use storage::tier::policy::{PolicySettings, decide};

/// As many loads.
const SEEDS: u64 = 200;

/// How far the closed form may be off.
const TOLERANCE: f64 = 0.1;

/// A load and tiers by chance. Rates are MB/s.
#[derive(Debug)]
struct Chance {
    capacity_mb: u64,
    segment_mb: u64,
    threshold: f64,
    peak: u64,
    drain: u64,
    base: u64,
}

impl Chance {
    fn draw(seed: u64) -> Self {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut below = |bound: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 33) % bound
        };
        let capacity_mb = 8_000 + below(20_000);
        let drain = 100 + below(300);
        let threshold = [0.3, 0.4, 0.5, 0.6, 0.7][usize::try_from(below(5)).unwrap()];
        // Where the planner does not warn: two segments or more in the hysteresis, twenty-four or
        // more in what a burst may take.
        let most = share(capacity_mb, 0.025).min(share(capacity_mb, (1.0 - threshold) / 24.0));
        let segment_mb = (most / (1 + below(2))).max(16);
        Self {
            capacity_mb,
            segment_mb,
            threshold,
            peak: drain * (2 + below(7)) + below(drain),
            drain,
            base: drain * (10 + below(50)) / 100,
        }
    }

    /// What the planner says: how long a burst lasts, and how long the gap after one of `length`
    /// is.
    fn planned(&self, length: f64) -> (f64, f64) {
        let text = format!(
            "name = \"chance\"\n[[load]]\nname = \"a\"\npeak = \"{} MB/s\"\nbase = \"{} MB/s\"\nburst = {{ length = \"{length} s\", interval = \"100000 s\" }}\nretention = \"1 d\"\nreplication = 1\n\
             [goals]\nsurvive = 0\ndisk = 1.0\nthreshold = {}\n[hardware]\nservers = [\"s\"]\ndevices = [\"fast\", \"bulk\"]\ntiers = 2\n\
             [[catalogue.server]]\nid = \"s\"\ncores = 8\nslots = {{ f = 1, b = 1 }}\nmemory = [\"8 GB\"]\nnetwork = \"100 GB/s\"\n\
             [[catalogue.device]]\nid = \"fast\"\nclass = \"flash\"\nslot = \"f\"\ncapacity = \"{} MB\"\nread = \"100 GB/s\"\nwrite = \"100 GB/s\"\n\
             [[catalogue.device]]\nid = \"bulk\"\nclass = \"disk\"\nslot = \"b\"\ncapacity = \"1000 TB\"\nread = \"{} MB/s\"\nwrite = \"{} MB/s\"\n",
            self.peak, self.base, self.threshold, self.capacity_mb, self.drain, self.drain
        );
        let scenario = Scenario::read("chance", &text, &[]).unwrap();
        let mut catalogue = Catalogue::shipped().unwrap();
        catalogue.overlay(scenario.catalogue.clone());
        let software = catalogue.software("forebay").unwrap().clone();
        let today = Month::new(2026, 11).unwrap();
        let problem = Problem::new(&scenario, &catalogue, &software, today);
        let found = problem.first_mix().unwrap();
        let mix = problem.mix(&found).unwrap();
        let flows = problem.flows(1);
        let balance = problem.fit(&flows, &mix, 1).balance().unwrap();
        (
            balance.surge().lasts().0,
            balance.gap(Seconds(length)).lasts().0,
        )
    }

    /// The policy in balance at the threshold.
    fn settled(&self) -> Fluid {
        let settings = PolicySettings {
            threshold: Some(self.threshold),
            bytes_per_second: Some(self.drain * MB),
            residency_ms: 1000,
            heat_ms: 0,
            ..PolicySettings::DEFAULTS
        };
        let cut = LogLayout {
            logs: 4,
            segment_bytes: self.segment_mb * MB,
        };
        let capacities = [self.capacity_mb * MB, 1_000_000_000 * MB];
        let mut fluid = Fluid::cut(settings, &capacities, decide, cut);
        fluid.retention_mb = self.capacity_mb * 5 / 4;
        fluid.fill_with_sealed(share(self.capacity_mb, self.threshold));
        fluid.run_for(30.0, whole(self.base)).unwrap();
        fluid
    }
}

#[expect(clippy::cast_precision_loss, reason = "megabytes")]
fn whole(value: u64) -> f64 {
    value as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "megabytes"
)]
fn share(of: u64, share: f64) -> u64 {
    (whole(of) * share) as u64
}

#[track_caller]
fn near(what: &str, planned: f64, simulated: f64, chance: &Chance, seed: u64) {
    assert!(
        (simulated / planned - 1.0).abs() < TOLERANCE,
        "seed {seed}: {what}: planned {planned:.1} s, the policy took {simulated:.1} s; {chance:?}"
    );
}

#[test]
fn bursts_and_gaps_are_as_planned() {
    for seed in 1..=SEEDS {
        let chance = Chance::draw(seed);
        let (lasts, _) = chance.planned(1.0);
        let mut fluid = chance.settled();
        let mut seconds = 0.0;
        while fluid.spilled_mb() < 0.1 {
            fluid.run_for(0.1, whole(chance.peak)).unwrap();
            seconds += 0.1;
        }
        near("burst", lasts, seconds, &chance, seed);
        // A burst of nearly that length, and how long its bytes take to leave.
        let length = (lasts * 0.8).round().max(1.0);
        let (_, gap) = chance.planned(length);
        let mut fluid = chance.settled();
        let level = whole(chance.capacity_mb) * chance.threshold;
        fluid.run_for(length, whole(chance.peak)).unwrap();
        let mut seconds = 0.0;
        while fluid.used_mb(0) > level && seconds < gap * 2.0 {
            fluid.run_for(0.1, whole(chance.base)).unwrap();
            seconds += 0.1;
        }
        near("gap", gap, seconds, &chance, seed);
    }
}

#[test]
fn nothing_spills_where_the_plan_says_so_and_something_where_it_is_too_long_by_far() {
    for seed in 1..=SEEDS {
        let chance = Chance::draw(seed);
        let (lasts, _) = chance.planned(1.0);
        let mut fluid = chance.settled();
        fluid.run_for(lasts * 0.85, whole(chance.peak)).unwrap();
        assert!(
            fluid.spilled_mb() < 0.1,
            "seed {seed}: {} MB spilled; {chance:?}",
            fluid.spilled_mb()
        );
        let mut fluid = chance.settled();
        fluid.run_for(lasts * 1.15, whole(chance.peak)).unwrap();
        assert!(
            fluid.spilled_mb() > 0.1,
            "seed {seed}: nothing spilled; {chance:?}"
        );
    }
}
