//! Experiments on simulated hosts.

use super::*;
use crate::statistics::random::Random;

/// A host with given drops in each arm, which records what was done to it.
struct MadeHost {
    random: Random,
    control: f64,
    test: f64,
    noise: f64,
    arm: Arm,
    changes: usize,
    blocks: usize,
    alarm_in_test: bool,
    /// Whether packets are lost, and answers late, with the change.
    harms: bool,
    /// The number of a block, from 1.
    fails_in: usize,
}

fn made(control: f64, test: f64) -> MadeHost {
    MadeHost {
        random: Random::new(5),
        control,
        test,
        noise: 0.1,
        arm: Arm::Control,
        changes: 0,
        blocks: 0,
        alarm_in_test: false,
        harms: false,
        fails_in: 0,
    }
}

impl World for MadeHost {
    fn enter(&mut self, arm: Arm) -> anyhow::Result<()> {
        self.changes += usize::from(arm != self.arm);
        self.arm = arm;
        Ok(())
    }

    fn leave(&mut self) -> anyhow::Result<()> {
        self.enter(Arm::Control)
    }

    fn block(&mut self) -> anyhow::Result<Block> {
        self.blocks += 1;
        anyhow::ensure!(self.blocks != self.fails_in, "the load failed");
        if self.alarm_in_test && self.arm == Arm::Test {
            return Ok(Block::Alarm("7 acknowledged records are lost".to_owned()));
        }
        let mean = if self.arm == Arm::Test {
            self.test
        } else {
            self.control
        };
        let drops = mean * (self.random.normal() * self.noise).exp();
        Ok(Block::Figures(BlockFigures::from([
            ("drops".to_owned(), drops),
            ("rate".to_owned(), 1e6),
            (
                DROPPED.to_owned(),
                if self.harms && self.arm == Arm::Test {
                    100.0
                } else {
                    1.0
                },
            ),
            (RECEIVED.to_owned(), 1e6),
            (
                "produce_p99_ms".to_owned(),
                if self.harms && self.arm == Arm::Test {
                    9.0
                } else {
                    5.0
                },
            ),
        ])))
    }
}

fn design(more: &str) -> Design {
    let text = format!(
        "version = 1\nplan = \"p\"\nseed = 3\npairs = 8\nblock_ms = 1\n[[primary]]\nname = \"drops\"\n{more}\n[[guard]]\nname = \"rate\"\nbetter = \"more\"\n"
    );
    Design::parse(&text).unwrap()
}

#[test]
fn what_helps_is_adopted_and_the_host_is_as_before() {
    let mut host = made(3_500.0, 0.0);
    let result = run(&design(""), &mut host);
    assert_eq!(result.verdict, Verdict::Adopt, "{}", result.why);
    assert_eq!(host.arm, Arm::Control);
    assert_eq!(result.samples.len(), 32);
    assert!(result.samples.iter().filter(|one| one.same).count() == 16);
    assert!(
        result.why.contains("benefit 9") || result.why.contains("benefit 100"),
        "{}",
        result.why
    );
}

/// The change helps only where the load is high, and that is where it is asked about.
#[test]
fn peaks_are_the_pairs_with_the_most_load_of_the_arm_without_the_change() {
    let more = "peak = true\n[[primary]]\nname = \"drops\"\n";
    let text = format!(
        "version = 1\nplan = \"p\"\nseed = 3\npairs = 12\nblock_ms = 1\npeak = {{ top_share = 0.5 }}\n\
         [[primary]]\nname = \"drops\"\n{more}"
    );
    let design = Design::parse(&text).unwrap();
    let mut samples = Vec::new();
    for pair in 0..12_usize {
        let is_peak = pair % 2 == 1;
        for arm in [Arm::Control, Arm::Test] {
            let load = if is_peak { 9e6 } else { 1e6 };
            // The change takes packets away, so that its own load would choose other pairs.
            let load = if arm == Arm::Test { 1e7 - load } else { load };
            let helps = is_peak && arm == Arm::Test;
            let drops = if helps { 1.0 } else { 100.0 + pair as f64 };
            let figures =
                BlockFigures::from([("drops".to_owned(), drops), (RECEIVED.to_owned(), load)]);
            samples.push(Sample {
                pair,
                arm,
                same: false,
                figures,
            });
        }
    }
    let found = figures(&design, &design.primary, &samples, false);
    assert_eq!(found[0].name, "drops in peaks");
    assert_eq!((found[0].pairs.len(), found[1].pairs.len()), (6, 12));
    assert!(found[0].pairs.iter().all(|(_, test)| *test < 2.0));
    let (_, effects) = judge(&design, &samples, false).unwrap();
    assert!(effects[0].benefit.low > 0.9, "{effects:?}");
    assert_eq!(counted(&design, &design.primary[0]), 6);
}

#[test]
fn what_does_nothing_is_not_adopted() {
    let result = run(&design(""), &mut made(3_500.0, 3_500.0));
    assert!(
        matches!(result.verdict, Verdict::NoBenefit | Verdict::Inconclusive),
        "{}",
        result.why
    );
}

#[test]
fn harm_ends_it_and_is_taken_back() {
    let mut host = made(10.0, 3_500.0);
    let mut design = design("");
    design.pairs = 40;
    design.pairs_of_same = Some(4);
    let result = run(&design, &mut host);
    assert_eq!(result.verdict, Verdict::Harmful);
    assert_eq!(host.arm, Arm::Control);
    assert!(host.blocks < 8 + 2 * 12, "{} blocks", host.blocks);
}

#[test]
fn an_alarm_ends_it_at_once() {
    let mut host = made(10.0, 10.0);
    host.alarm_in_test = true;
    let result = run(&design(""), &mut host);
    assert_eq!(result.verdict, Verdict::Harmful);
    assert!(result.why.contains("acknowledged records"));
    assert_eq!(host.arm, Arm::Control);
    assert!(host.blocks <= 18, "{}", host.blocks);
}

#[test]
fn what_it_could_not_see_is_not_begun() {
    let mut host = made(3_500.0, 0.0);
    host.noise = 1.0;
    let result = run(&design("goal = 0.2"), &mut host);
    assert_eq!(result.verdict, Verdict::Inconclusive);
    assert!(
        result.why.contains("takes") && result.why.contains("pairs"),
        "{}",
        result.why
    );
    assert_eq!(host.changes, 0, "nothing was changed");
}

#[test]
fn what_is_not_measured_is_an_error_and_nothing_is_left_changed() {
    let mut other = design("");
    other.guard[0].name = "nothing".to_owned();
    let mut host = made(10.0, 10.0);
    let error = run(&other, &mut host).failed.unwrap();
    assert!(error.contains("nothing was not measured"), "{error}");
    assert_eq!(host.arm, Arm::Control);
}

#[test]
fn what_was_measured_before_an_error_is_kept() {
    let mut host = made(10.0, 10.0);
    host.fails_in = 20;
    let result = run(&design(""), &mut host);
    assert_eq!(result.failed.as_deref(), Some("the load failed"));
    assert_eq!(result.verdict, Verdict::Inconclusive);
    assert_eq!(result.samples.len(), 19);
    assert_eq!(host.arm, Arm::Control);
}

/// A block with the change that loses more than the plan's guard allows is the last one.
#[test]
fn the_guard_of_the_plan_ends_it_at_once() {
    for (guard, why) in [
        ("drop_ppm_max = 50.0", "of a million packets"),
        ("p99_ratio_max = 1.5", "p99_ms: the 99th percentile"),
    ] {
        let mut host = made(10.0, 10.0);
        host.harms = true;
        let mut design = design("");
        design.plan_guard = Some(toml::from_str(guard).unwrap());
        let result = run(&design, &mut host);
        assert_eq!(result.verdict, Verdict::Harmful, "{}", result.why);
        assert!(result.why.contains(why), "{}", result.why);
        assert_eq!(host.arm, Arm::Control);
        assert!(host.blocks <= 18, "{}", host.blocks);
    }
}
