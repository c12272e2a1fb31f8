//! What holds whatever is asked for: the search finds what looking at everything finds, and cost
//! follows the load.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fmt::Write as _;

use plan::catalogue::{Catalogue, Month};
use plan::load::Scenario;
use plan::search::{FoundFleet, PricedFleet, Problem};
use plan::software::Software;
use proptest::prelude::*;

fn today() -> Month {
    Month::new(2026, 11).unwrap()
}

/// A small catalogue of devices by chance.
#[derive(Clone, Debug)]
struct Chance {
    devices: Vec<(u8, u32, u32, u32, u32)>,
    cores: u32,
    server_usd: u32,
    network: u32,
}

fn chance() -> impl Strategy<Value = Chance> {
    let device = (0_u8..3, 1_u32..40, 1_u32..60, 1_u32..60, 1_u32..5000);
    let devices = prop::collection::vec(device, 1..4);
    (devices, 1_u32..64, 1_u32..20_000, 1_u32..40).prop_map(
        |(devices, cores, server_usd, network)| Chance {
            devices,
            cores,
            server_usd,
            network,
        },
    )
}

fn catalogue(chance: &Chance) -> Catalogue {
    let mut text = format!(
        "[[server]]\nid = \"s\"\ncores = {}\nslots = {{ flash = 2, disk = 2 }}\nmemory = [\"16 GB\", \"64 GB\"]\nmodule = \"m\"\nnetwork = \"{} Gb/s\"\nprice = {{ usd = {}, date = \"2026-10\", source = \"chance\" }}\n\
         [[memory]]\nid = \"m\"\ncapacity = \"16 GB\"\nprice = {{ usd = 100, date = \"2026-10\", source = \"chance\" }}\n",
        chance.cores, chance.network, chance.server_usd
    );
    for (at, (class, capacity, read, write, usd)) in chance.devices.iter().enumerate() {
        let class = ["pmem", "flash", "disk"][usize::from(*class)];
        let slot = if class == "disk" { "disk" } else { "flash" };
        // Writing to a text cannot fail.
        let _ = write!(
            text,
            "[[device]]\nid = \"d{at}\"\nclass = \"{class}\"\nslot = \"{slot}\"\ncapacity = \"{capacity} TB\"\nread = \"{read}00 MB/s\"\nwrite = \"{write}00 MB/s\"\niops = 1000\nprice = {{ usd = {usd}, date = \"2026-10\", source = \"chance\" }}\n"
        );
    }
    let mut all = Catalogue::read("chance", &text).unwrap();
    all.software = Catalogue::shipped().unwrap().software;
    all
}

/// A load by chance: peak, base, burst, retention, copies, groups.
#[derive(Clone, Debug)]
struct AskedLoad {
    peak: u32,
    base: u32,
    length: u32,
    gap: u32,
    hours: u32,
    copies: u32,
    groups: u32,
    lost: u32,
}

fn asked() -> impl Strategy<Value = AskedLoad> {
    (
        1_u32..400,
        0_u32..100,
        0_u32..300,
        1_u32..2000,
        1_u32..400,
        1_u32..4,
        0_u32..4,
        0_u32..3,
    )
        .prop_map(
            |(peak, base, length, gap, hours, copies, groups, lost)| AskedLoad {
                peak,
                base: base.min(peak),
                length,
                gap,
                hours,
                copies,
                groups,
                lost,
            },
        )
}

fn scenario(asked: &AskedLoad) -> Scenario {
    let burst = if asked.length > 0 {
        format!(
            "burst = {{ length = \"{} s\", interval = \"{} s\" }}\n",
            asked.length,
            asked.length + asked.gap
        )
    } else {
        String::new()
    };
    let text = format!(
        "name = \"chance\"\n[[load]]\nname = \"a\"\npeak = \"{}0 MB/s\"\nbase = \"{}0 MB/s\"\n{burst}size = \"10 KB\"\nbatch = \"960 KB\"\nretention = \"{} h\"\nreplication = {}\nfan_out = {}\n[goals]\nsurvive = {}\n[fleet]\ncluster_brokers_max = 20\n",
        asked.peak, asked.base, asked.hours, asked.copies, asked.groups, asked.lost
    );
    Scenario::read("chance", &text, &[]).unwrap()
}

/// Every mix, every number of clusters and brokers, one after the other.
fn by_looking_at_all(problem: &Problem<'_>) -> Option<PricedFleet> {
    let most = problem.scenario.fleet.cluster_brokers_max;
    let mut best: Option<PricedFleet> = None;
    for found in problem.all().unwrap() {
        let mix = problem.mix(&found.choice).unwrap();
        let holds = |clusters: u32, brokers: u32| {
            let flows = problem.flows(clusters);
            problem.fit(&flows, &mix, brokers).holds()
        };
        let clusters = (1..10_000).find(|clusters| holds(*clusters, most)).unwrap();
        let brokers = (1..=most)
            .find(|brokers| holds(clusters, *brokers))
            .unwrap();
        let found = FoundFleet {
            clusters,
            brokers,
            ..found
        };
        let priced = problem.price(&found).unwrap();
        if best.is_none_or(|best| priced.cost < best.cost) {
            best = Some(priced);
        }
    }
    best
}

fn forebay(catalogue: &Catalogue) -> Software {
    catalogue.software("forebay").unwrap().clone()
}

/// The least cost of a load on a catalogue.
fn cost(asked: &AskedLoad, catalogue: &Catalogue) -> Option<f64> {
    let scenario = scenario(asked);
    let software = forebay(catalogue);
    let problem = Problem::new(&scenario, catalogue, &software, today());
    problem.best().unwrap().map(|best| best.cost.0)
}

/// No worse than before, but for rounding.
fn is_no_more(one: Option<f64>, other: Option<f64>) -> bool {
    match (one, other) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(one), Some(other)) => one <= other * (1.0 + 1e-9),
    }
}

/// Keys of a plan, and values that a user may give them.
const KEYS: &[&str] = &[
    "load.peak",
    "load.messages",
    "load.size",
    "load.base",
    "load.average",
    "load.burst.length",
    "load.burst.interval",
    "load.batch",
    "load.compression",
    "load.fan_out",
    "load.lag",
    "load.catch_up.rate",
    "load.catch_up.age",
    "load.retention",
    "load.local_retention",
    "load.newest",
    "load.replication",
    "load.acks",
    "load.partitions",
    "load.consumers",
    "load.tier_min",
    "load.tier_max",
    "load.latency",
    "load.growth",
    "load.keyed.keys",
    "load.keyed.lookups",
    "goals.survive",
    "goals.recovery",
    "goals.rebuild_at_peak",
    "goals.fill",
    "goals.disk",
    "goals.cpu",
    "goals.years",
    "goals.threshold",
    "fleet.sites",
    "fleet.racks",
    "fleet.cluster_brokers_max",
    "fleet.brokers_max",
    "hardware.object",
    "hardware.tiers",
    "given.brokers",
    "cost.kwh_usd",
    "cost.support",
];

const VALUES: &[&str] = &[
    "0",
    "-1",
    "1",
    "2",
    "3",
    "0.5",
    "1e30",
    "nan",
    "inf",
    "0 GB/s",
    "1 B/s",
    "3 GB/s",
    "1e15 B/s",
    "0 s",
    "1 ms",
    "61 s",
    "5 d",
    "20 years",
    "1 B",
    "240 KB",
    "1 PB",
    "1 /s",
    "1e9 /s",
    "forever",
    "rack",
    "site",
    "s3",
    "bulk",
    "fast",
    "all",
    "true",
    "4000000000",
    "\"",
    "[]",
    "{}",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn whatever_is_set_is_answered_or_named(
        changes in prop::collection::vec((0..KEYS.len(), 0..VALUES.len()), 1..5),
        old in any::<bool>(),
    ) {
        let mut set: Vec<String> = changes.iter().map(|(key, value)| format!("{}={}", KEYS[*key], VALUES[*value])).collect();
        if old {
            set.push("goals.survive=rack".to_owned());
        }
        match Scenario::read("burst", plan::load::shipped("burst").unwrap(), &set) {
            Err(problem) => prop_assert!(!problem.to_string().is_empty()),
            Ok(scenario) => {
                let shipped = Catalogue::shipped().unwrap();
                let solved = plan::answer::solve(&scenario, None, &shipped, today(), plan::answer::Depth::Whole);
                if let Ok(plan) = solved {
                    let text = plan::emit::text::plan(&plan, true);
                    prop_assert!(!text.contains("NaN"), "{set:?}\n{text}");
                    for (name, text) in plan::emit::files(&plan) {
                        prop_assert!(!text.contains("NaN"), "{name} {set:?}");
                    }
                    if let Some(chosen) = &plan.chosen {
                        let all_hold = chosen.uses.iter().all(|used| used.share <= 1.0 + 1e-6);
                        prop_assert!(all_hold, "{set:?}: {:?}", chosen.uses);
                    }
                }
            }
        }
    }

    #[test]
    fn the_search_finds_what_looking_at_everything_finds(asked in asked(), chance in chance()) {
        let (scenario, catalogue) = (scenario(&asked), catalogue(&chance));
        for id in ["forebay", "kafka", "kafka-synced"] {
            let software = catalogue.software(id).unwrap().clone();
            let problem = Problem::new(&scenario, &catalogue, &software, today());
            let (fast, slow) = (problem.best().unwrap(), by_looking_at_all(&problem));
            prop_assert_eq!(fast.map(|best| best.cost), slow.map(|best| best.cost), "{}", id);
        }
    }

    #[test]
    fn more_is_never_cheaper(asked in asked(), chance in chance(), which in 0..5) {
        let catalogue = catalogue(&chance);
        let mut more = asked.clone();
        match which {
            0 => more.peak += 50,
            1 => more.hours *= 2,
            2 => more.copies += 1,
            3 => more.groups += 1,
            _ => more.lost += 1,
        }
        prop_assert!(is_no_more(cost(&asked, &catalogue), cost(&more, &catalogue)), "{:?}", more);
    }

    #[test]
    fn a_longer_burst_is_never_cheaper(asked in asked(), chance in chance()) {
        prop_assume!(asked.length > 0);
        let catalogue = catalogue(&chance);
        let more = AskedLoad { length: asked.length * 2, ..asked.clone() };
        prop_assert!(is_no_more(cost(&asked, &catalogue), cost(&more, &catalogue)));
    }

    #[test]
    fn a_dearer_part_is_never_cheaper_and_one_more_device_never_dearer(asked in asked(), chance in chance()) {
        let all = catalogue(&chance);
        let dearer = all.with_price_times("d0", 2.0);
        prop_assert!(is_no_more(cost(&asked, &all), cost(&asked, &dearer)));
        let mut less = all.clone();
        less.device.pop();
        if !less.device.is_empty() {
            prop_assert!(is_no_more(cost(&asked, &all), cost(&asked, &less)));
        }
    }

    #[test]
    fn more_brokers_carry_what_fewer_do(asked in asked(), chance in chance(), brokers in 1_u32..40) {
        let (scenario, catalogue) = (scenario(&asked), catalogue(&chance));
        let software = forebay(&catalogue);
        let problem = Problem::new(&scenario, &catalogue, &software, today());
        for found in problem.all().unwrap() {
            let mix = problem.mix(&found.choice).unwrap();
            let flows = problem.flows(1);
            let holds = |brokers: u32| problem.fit(&flows, &mix, brokers).holds();
            prop_assert!(!holds(brokers) || holds(brokers + 1));
        }
    }

    #[test]
    fn an_answer_is_the_same_on_every_run(asked in asked(), chance in chance()) {
        let (scenario, catalogue) = (scenario(&asked), catalogue(&chance));
        let solved = || {
            let plan = plan::answer::solve(&scenario, None, &catalogue, today(), plan::answer::Depth::Whole).unwrap();
            (serde_json::to_string(&plan).unwrap(), plan::emit::text::plan(&plan, true))
        };
        prop_assert_eq!(solved(), solved());
    }
}
