//! Tiers in, one description or named problems out.

use storage::tier::policy::PolicySettings;
use storage::tier::{Capacity, Medium, Safety};

use super::tests::{check_refused, check_warned, settings};
use super::*;

const TWO: &str =
    "storage.tiers=fast,bulk\nstorage.tier.fast.paths=/a,/b\nstorage.tier.bulk.paths=/c\n";

fn tiers(text: &str) -> TierSettings {
    settings(text).tiers.unwrap()
}

fn two(text: &str) -> String {
    format!("{TWO}{text}")
}

/// Checks `text` after the settings of two tiers.
fn check_refused_of_two(text: &str, expect: &str) {
    check_refused(&two(text), &format!("server.properties:4: {expect}"));
}

/// Name, medium, and paths with their capacities, of a tier.
type TierSummary = (String, Medium, Vec<(PathBuf, Capacity)>);

fn described(settings: &TierSettings) -> Vec<TierSummary> {
    let tiers = settings.tiers.iter();
    tiers
        .map(|tier| {
            let paths = tier.paths.iter();
            let paths = paths.map(|path| (path.dir.clone(), path.capacity));
            (tier.name.to_string(), tier.medium, paths.collect())
        })
        .collect()
}

#[test]
fn without_tiers_the_log_directories_are_all_there_is() {
    assert_eq!(settings("log.dirs=/a").tiers, None);
    assert_eq!(settings("log.channel.type=file").tiers, None);
}

#[test]
fn tiers_are_described_by_name_and_the_first_are_the_log_directories() {
    let settings = settings(&two(
        "storage.tier.fast.capacity=10GiB, 80%\nstorage.tier.fast.medium=dax\n\
         storage.tier.fast.durability=volatile\nstorage.tier.bulk.write.bytes.per.second=5\n",
    ));
    assert_eq!(settings.log_dirs, [PathBuf::from("/a"), "/b".into()]);
    let tiers = settings.tiers.as_ref().unwrap();
    let fast = vec![
        ("/a".into(), Capacity::Bytes(10 << 30)),
        ("/b".into(), Capacity::Percent(80)),
    ];
    let bulk = vec![("/c".into(), Capacity::Whole)];
    assert_eq!(
        described(tiers),
        [
            ("fast".into(), Medium::Dax, fast),
            ("bulk".into(), Medium::File, bulk)
        ]
    );
    assert_eq!(tiers.tiers[0].safety, Safety::Volatile);
    assert_eq!(tiers.tiers[1].write_bytes_per_second, Some(5));
    assert_eq!(tiers.policy, PolicySettings::DEFAULTS);
    let broker = settings.broker_options(NodeId(1), &[]);
    assert_eq!(broker.log_dirs, settings.log_dirs);
    assert_eq!(broker.tiers, [Arc::from("fast"), Arc::from("bulk")]);
}

#[test]
fn capacities_have_units() {
    let capacity = |text: &str| {
        let settings = tiers(&two(&format!("storage.tier.bulk.capacity={text}")));
        settings.tiers[1].paths[0].capacity
    };
    assert_eq!(capacity("1234"), Capacity::Bytes(1234));
    assert_eq!(capacity("500GB"), Capacity::Bytes(500_000_000_000));
    assert_eq!(capacity("2 TiB"), Capacity::Bytes(2 << 40));
    assert_eq!(capacity("-1"), Capacity::Whole);
    assert_eq!(capacity("whole"), Capacity::Whole);
    for wrong in [
        "0",
        "-2",
        "10G",
        "101%",
        "0%",
        "1.5GB",
        "99999999999TB",
        "much",
    ] {
        check_refused_of_two(
            &format!("storage.tier.bulk.capacity={wrong}"),
            &format!(
                "storage.tier.bulk.capacity={wrong}: must be whole, -1, a share like 80%, \
                 or bytes like 500000000000, 500GB, 465GiB; at least 1"
            ),
        );
    }
}

#[test]
fn what_a_tier_cannot_be_is_refused() {
    check_refused_of_two(
        "storage.tier.fast.medium=tape",
        "storage.tier.fast.medium=tape: must be one of file, dax",
    );
    check_refused_of_two(
        "storage.tier.fats.medium=file",
        "storage.tier.fats.medium=file: must be of a tier in storage.tiers=fast,bulk",
    );
    check_refused_of_two(
        "storage.tier.fast.capacity=1GB,2GB,3GB",
        "storage.tier.fast.capacity=1GB,2GB,3GB: must be one value, or one for each of 2 paths",
    );
    check_refused_of_two(
        "log.dirs=/elsewhere",
        "log.dirs=/elsewhere: must be left out, or paths of the first tier \
         (storage.tier.fast.paths): what is in other directories would not be found",
    );
    check_refused_of_two(
        "storage.migrate.threshold=-0.5",
        "storage.migrate.threshold=-0.5: must be -1 or a number from 0 to 1",
    );
    check_refused_of_two(
        "storage.migrate.hysteresis=0.6",
        "storage.migrate.hysteresis=0.6: must be at most storage.migrate.threshold=0.5",
    );
    check_refused_of_two(
        "cordoned.log.dirs=/c,/d",
        "cordoned.log.dirs=/c,/d: must be *, or some of /a, /b, /c",
    );
    check_refused(
        "storage.tier.fast.paths=/a",
        "server.properties:1: storage.tier.fast.paths=/a: \
         must be left out, or fast be named in storage.tiers",
    );
    check_refused(
        "storage.tiers=fast,bulk\nstorage.tier.fast.paths=/a",
        "default: storage.tier.bulk.paths=: must be set: storage.tiers names bulk",
    );
    check_refused(
        "storage.tiers=fast,bulk\nstorage.tier.fast.paths=/a\nstorage.tier.bulk.paths=/a/b",
        "server.properties:3: storage.tier.bulk.paths=/a/b: \
         /a/b must not be, or lie in, or hold another path of a tier, as it does with /a",
    );
    check_refused(
        "storage.tiers=Fast\nstorage.tier.Fast.paths=/a",
        "server.properties:1: storage.tiers=Fast: \
         must be different names of lower-case letters, digits and -",
    );
    check_refused(
        "storage.tiers=.",
        "server.properties:1: storage.tiers=.: must be different names of lower-case letters, digits and -",
    );
    check_warned(
        "storage.tier.fast.path=/a",
        &[
            "server.properties:1: storage.tier.fast.path: unknown key, is storage.tier.<name>.paths meant?",
        ],
    );
}

#[test]
fn movement_is_off_at_minus_one() {
    let settings = tiers(&two(
        "storage.migrate.threshold=-1\nstorage.migrate.bytes.per.second=1000\n\
         storage.migrate.threads=3\nlog.pmem.pool.ratio=0.25",
    ));
    assert_eq!(settings.policy.threshold, None);
    assert_eq!(settings.policy.bytes_per_second, Some(1000));
    assert_eq!(
        (settings.policy.threads, settings.pool.ratio.to_string()),
        (3, "0.25".into())
    );
}

#[test]
fn the_names_of_the_newer_pafka_make_tiers() {
    let settings = settings(
        "log.dirs=/tmp/kafka-logs\nlog.channel.type=tiered\nstorage.tiers.types=PMEM,HDD\n\
         storage.tiers.first.paths=/pmem0,/pmem1\nstorage.tiers.first.sizes=107374182400,-1\n\
         storage.tiers.second.paths=/hdd\nstorage.migrate.threshold=0.6\nstorage.migrate.threads=2\n\
         log.preallocate=true\nlog.pmem.pool.ratio=0.9",
    );
    assert_eq!(
        settings.log_dirs,
        [PathBuf::from("/pmem0"), "/pmem1".into()]
    );
    let tiers = settings.tiers.unwrap();
    let first = vec![
        ("/pmem0".into(), Capacity::Bytes(100 << 30)),
        ("/pmem1".into(), Capacity::Whole),
    ];
    let second = vec![("/hdd".into(), Capacity::Whole)];
    assert_eq!(
        described(&tiers),
        [
            ("pmem".into(), Medium::Dax, first),
            ("hdd".into(), Medium::File, second)
        ]
    );
    assert_eq!(
        (tiers.policy.threshold, tiers.policy.threads),
        (Some(0.6), 2)
    );
    check_refused(
        "log.channel.type=tiered\nstorage.tiers.first.paths=/a",
        "default: storage.tiers.second.paths=: must be set where log.channel.type=tiered",
    );
    check_refused(
        "log.channel.type=tiered\nstorage.tiers.types=NVME\nstorage.tiers.first.paths=/a\n\
         storage.tiers.second.paths=/b",
        "server.properties:2: storage.tiers.types=NVME: \
         must be two different ones of PMEM, NVME, SSD, HDD: the first tier, the second",
    );
    check_refused_of_two(
        "storage.tiers.first.paths=/x",
        "storage.tiers.first.paths=/x: must be left out where storage.tiers names the tiers",
    );
}

#[test]
fn the_names_of_the_older_pafka_make_tiers() {
    let mix = tiers("log.channel.type=mix\nstorage.pmem.size=21474836480\nstorage.hdd.path=/data");
    let pmem = vec![("/pmem".into(), Capacity::Bytes(20 << 30))];
    let hdd = vec![("/data".into(), Capacity::Whole)];
    assert_eq!(
        described(&mix),
        [
            ("pmem".into(), Medium::Dax, pmem),
            ("hdd".into(), Medium::File, hdd)
        ]
    );
    let alone = tiers("log.channel.type=pmem\nstorage.pmem.path=/mnt/pmem/kafka/");
    let path = vec![("/mnt/pmem/kafka/".into(), Capacity::Whole)];
    assert_eq!(described(&alone), [("pmem".into(), Medium::Dax, path)]);
}
