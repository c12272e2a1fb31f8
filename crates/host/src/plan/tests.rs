//! The reasons for which plans are refused.

use super::*;
use crate::fake::Fake;

fn host() -> Fake {
    Fake::new(&[
        ("sys/devices/system/cpu/online", "0-3"),
        ("proc/sys/net/core/somaxconn", "128"),
        ("proc/sys/vm/swappiness", "60"),
        (
            "ethtool/eth0/rings",
            "rx=256 rx_max=4096 tx=256 tx_max=4096",
        ),
    ])
}

fn plan_for(host: &str, items: &str) -> Plan {
    Plan::parse(&format!("version = 1\nhost = \"{host}\"\n{items}")).unwrap()
}

fn item(id: &str, want: &str, more: &str) -> String {
    let class = if id.ends_with("rings") { "L" } else { "O" };
    format!(
        "[[item]]\nid = \"{id}\"\nwant = {want}\nclass = \"{class}\"\nwhy = \"x\"\nconfidence = \"high\"\n{more}\n"
    )
}

fn allowed() -> OperatorLimits {
    OperatorLimits {
        class_max: Class::L,
        only: Vec::new(),
        take_over: Vec::new(),
    }
}

/// Returns the changes, or why there are none.
fn decide(fake: &Fake, items: &str, allowed: &OperatorLimits) -> Result<Vec<String>, Vec<String>> {
    let facts = Facts::read(fake);
    let plan = plan_for(&facts.fingerprint(), items);
    let evidence = BTreeMap::from([("listen.overflows".to_owned(), 7.0)]);
    let text = |change: &Change| format!("{}={}", change.item, change.want);
    match plan.changes(fake, &facts, &evidence, allowed) {
        Ok(changes) => Ok(changes.iter().map(text).collect()),
        Err(refusals) => Err(refusals.into_iter().map(|one| one.why).collect()),
    }
}

#[track_caller]
fn refused(items: &str, allowed: &OperatorLimits, why: &str) {
    let refusals = decide(&host(), items, allowed).unwrap_err();
    assert!(
        refusals.iter().any(|said| said.contains(why)),
        "{refusals:?}"
    );
}

#[test]
fn a_plan_becomes_changes_in_order() {
    let items = item(
        "sysctl.net.core.somaxconn",
        "4096",
        "evidence = \"listen.overflows > 0\"",
    ) + &item("net.eth0.rings", "{ rx = 512 }", "");
    let changes = decide(&host(), &items, &allowed()).unwrap();
    assert_eq!(
        changes,
        ["net.eth0.rings=rx=512", "sysctl.net.core.somaxconn=4096"]
    );
}

/// A boot option is checked, and the refusal says how an operator sets it.
#[test]
fn a_boot_option_is_in_effect_or_says_how() {
    let fake = host();
    let items = item("boot.nohz_full", "\"1-3\"", "") + &item("sysctl.vm.swappiness", "1", "");
    fake.set("etc/default/grub", "");
    let why = decide(&fake, &items, &allowed()).unwrap_err();
    assert!(why[0].contains("update-grub"), "{why:?}");
    fake.set("proc/cmdline", "quiet nohz_full=1,2,3");
    assert_eq!(
        decide(&fake, &items, &allowed()).unwrap(),
        ["sysctl.vm.swappiness=1"]
    );
    refused(
        &item("boot.mitigations", "\"off\"", ""),
        &allowed(),
        "none of the boot options",
    );
}

#[test]
fn only_what_is_named_is_changed() {
    let items =
        item("sysctl.net.core.somaxconn", "4096", "") + &item("sysctl.vm.swappiness", "1", "");
    let mut allowed = allowed();
    allowed.only = vec!["sysctl.vm.swappiness".to_owned()];
    assert_eq!(
        decide(&host(), &items, &allowed).unwrap(),
        ["sysctl.vm.swappiness=1"]
    );
}

#[test]
fn what_is_refused_says_why() {
    let some = allowed();
    refused(&item("sysctl.kernel.sysrq", "1", ""), &some, "no such knob");
    refused(
        &item("net.eth9.rings", "{ rx = 512 }", ""),
        &some,
        "cannot be read",
    );
    refused(
        &item("sysctl.vm.swappiness", "999", ""),
        &some,
        "outside of 0..200",
    );
    refused(
        &item("sysctl.vm.swappiness", "\"much\"", ""),
        &some,
        "no number",
    );
    refused(
        &item("sysctl.vm.swappiness", "[1]", ""),
        &some,
        "neither number, word nor fields",
    );
    refused(
        &item("net.eth0.rings", "{ rx_max = 9 }", ""),
        &some,
        "none of rx, tx",
    );
    let twice = item("sysctl.vm.swappiness", "1", "").repeat(2);
    refused(&twice, &some, "twice");
    let gone = "evidence = \"listen.overflows > 100\"";
    refused(
        &item("sysctl.net.core.somaxconn", "4096", gone),
        &some,
        "does not hold any more",
    );
    let unknown = "evidence = \"no.such.thing > 0\"";
    refused(
        &item("sysctl.net.core.somaxconn", "4096", unknown),
        &some,
        "is not measured here",
    );
    let opinion = item("sysctl.vm.swappiness", "1", "").replace("high", "experiment");
    refused(&opinion, &some, "only an experiment tells");
    let mut few = allowed();
    few.class_max = Class::F;
    refused(
        &item("net.eth0.rings", "{ rx = 512 }", ""),
        &few,
        "--class-max is F",
    );
    // A lower class in the file does not make a change cheaper.
    let lie = item("net.eth0.rings", "{ rx = 512 }", "").replace("\"L\"", "\"O\"");
    refused(&lie, &few, "--class-max is F");
    few.only = vec!["sysctl.x".to_owned()];
    refused("", &few, "no such item");
}

#[test]
fn settings_of_the_firmware_are_a_plan_of_their_own() {
    let fake = host();
    fake.set("firmware/cpu.snoop", "[early] home");
    let snoop = item("firmware.cpu.snoop", "\"home\"", "").replace("\"O\"", "\"B\"");
    let mut allowed = allowed();
    allowed.class_max = Class::B;
    let alone = decide(&fake, &snoop, &allowed).unwrap();
    assert_eq!(alone, ["firmware.cpu.snoop=home"]);
    let mixed = snoop.clone() + &item("sysctl.vm.swappiness", "1", "");
    let refusals = decide(&fake, &mixed, &allowed).unwrap_err();
    assert!(refusals[0].contains("a plan of their own"), "{refusals:?}");
    allowed.class_max = Class::L;
    let refusals = decide(&fake, &snoop, &allowed).unwrap_err();
    assert!(
        refusals[0].contains("a restart of the host"),
        "{refusals:?}"
    );
}

#[test]
fn what_destroys_data_is_never_applied() {
    let mut allowed = allowed();
    allowed.class_max = Class::D;
    let lie = item("sysctl.vm.swappiness", "1", "").replace("\"O\"", "\"D\"");
    refused(&lie, &allowed, "advice only");
}

#[test]
fn a_guard_is_part_of_the_plan_or_it_is_none() {
    let guard = "[guard]\ndrop_ppm_max = 50\nwindow = \"5m\"\n";
    let plan = plan_for("h", guard);
    assert_eq!(plan.guard.as_ref().unwrap().drop_ppm_max, Some(50.0));
    assert_eq!(Plan::parse(&plan.text().unwrap()).unwrap(), plan);
    for (text, why) in [
        ("[guard]\n", "neither"),
        ("[guard]\ndrops_max = 5\n", "unknown field"),
        ("[guard]\ndrop_ppm_max = 50\nwindow = \"soon\"\n", "window"),
    ] {
        let error = Plan::parse(&format!("version = 1\nhost = \"h\"\n{text}")).unwrap_err();
        assert!(format!("{error:#}").contains(why), "{error:#}");
    }
}

#[test]
fn a_plan_for_another_host_is_refused() {
    let fake = host();
    let facts = Facts::read(&fake);
    let plan = plan_for("sha256:00", "");
    let refusals = plan
        .changes(&fake, &facts, &BTreeMap::new(), &allowed())
        .unwrap_err();
    assert!(
        refusals[0].why.contains("the plan is for sha256:00"),
        "{refusals:?}"
    );
}

#[test]
fn what_somebody_else_sets_is_theirs_unless_taken() {
    let items = item("sysctl.vm.swappiness", "1", "");
    let fake = host();
    fake.set("etc/sysctl.d/99-db.conf", "vm.swappiness = 10");
    let refusals = decide(&fake, &items, &allowed()).unwrap_err();
    assert!(
        refusals[0].contains("/etc/sysctl.d/99-db.conf sets it"),
        "{refusals:?}"
    );
    let mut taking = allowed();
    taking.take_over = vec!["sysctl.vm.swappiness".to_owned()];
    assert_eq!(
        decide(&fake, &items, &taking).unwrap(),
        ["sysctl.vm.swappiness=1"]
    );
}

#[test]
fn a_file_makes_the_round_trip() {
    let items = item("net.eth0.rings", "{ rx = 512 }", "") + &item("sysctl.vm.swappiness", "1", "");
    let plan = plan_for("h", &items);
    assert_eq!(Plan::parse(&plan.text().unwrap()).unwrap(), plan);
    assert!(Plan::parse("version = 2\nhost = \"h\"\n").is_err());
    assert!(Plan::parse("version = 1\nhost = \"h\"\nother = 1\n").is_err());
}
