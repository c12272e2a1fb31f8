//! `apply`, `confirm`, `verify`, `undo`, `status`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use serde::Serialize;

use super::show::{say, table};
use super::{CommandPlace, Exit};
use crate::apply;
use crate::change::{self, Order};
use crate::counter::Counters;
use crate::facts::{Facts, topology};
use crate::firmware;
use crate::guard::Guard;
use crate::journal::store::transactions;
use crate::knob::{self, Class};
use crate::persist;
use crate::plan::{OperatorLimits, Plan, Refusal};
use crate::root::{Root, Tree as _};
use crate::transaction::TransactionStanding;
use crate::undo::{self, UndoneItem};
use crate::watch::{Verdict, Watch, WatchedItem};
use crate::{boot, evidence, watch, watchdog};

/// Limit on the size of a plan.
const PLAN_BYTES_MAX: u64 = 8 << 20;
/// Time between two looks at whether a transaction was confirmed.
const LOOK_MS: u64 = 200;

#[derive(Debug, Args)]
pub(super) struct ApplyArgs {
    /// The plan.
    plan: PathBuf,
    /// Time after which it is taken back unless it is confirmed.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = time)]
    confirm_within: Duration,
    /// Confirms it at once if everything works, but only until the next boot.
    #[arg(long)]
    until_reboot: bool,
    /// Only this item; may be given more than once.
    #[arg(long, value_name = "ID")]
    only: Vec<String>,
    #[command(flatten)]
    limits: Limits,
}

/// Limits on what may be done to the host.
#[derive(Debug, Args)]
pub(super) struct Limits {
    /// The most disruptive class allowed: O nothing, F a hiccup, L the link, P a restart of a
    /// process, B one of the host.
    #[arg(long, value_name = "CLASS", default_value = "F", value_parser = class)]
    class_max: Class,
    /// Takes an item over from its owner; may be given more than once.
    #[arg(long, value_name = "ID")]
    take_over: Vec<String>,
}

impl Limits {
    /// Returns the limits, for all items.
    pub(super) fn allowed(self) -> OperatorLimits {
        OperatorLimits {
            class_max: self.class_max,
            only: Vec::new(),
            take_over: self.take_over,
        }
    }
}

impl ApplyArgs {
    pub(super) fn run(self, place: &CommandPlace) -> anyhow::Result<Exit> {
        let (text, plan) = read(&self.plan)?;
        let facts = Facts::read(&place.root);
        if let Some(refusal) = not_here(place, &facts) {
            return refused(place, &[refusal]);
        }
        let evidence = evidence::of(&facts, &Counters::read(&place.root));
        let allowed = OperatorLimits {
            only: self.only,
            ..self.limits.allowed()
        };
        if let Some(why) = plan.guard.as_ref().and_then(Guard::problem_for_apply) {
            return refused(place, &[Refusal::whole(format!("guard: {why}"))]);
        }
        let changes = match plan.changes(&place.root, &facts, &evidence, &allowed) {
            Ok(changes) => changes,
            Err(refusals) => return refused(place, &refusals),
        };
        let within = u64::try_from(self.confirm_within.as_millis())?;
        let order = Order {
            plan: crate::hex::sha256(&text),
            host: plan.host,
            changes: &changes,
            // Also for changes that are kept at once: a kill in the middle would leave half of
            // them.
            confirm_within_ms: Some(within),
            taken: allowed.take_over,
            guard: plan.guard,
        };
        let watch = |id: &str| watchdog::start(&place.sysroot, &place.state, id);
        let report = match change::begin(&place.root, &place.state, order, watch)? {
            Ok(report) => report,
            Err(refusal) => return refused(place, &[refusal]),
        };
        if self.until_reboot && report.whole {
            let kept = change::confirm(&place.root, &place.state, &report.transaction, true)?;
            kept.map_err(|refusal| anyhow::anyhow!(refusal.why))?;
        }
        place.format.show(&report, || {
            let mut text = table(&report.applied.iter().map(row_of_applied).collect::<Vec<_>>());
            text.push_str(&table(&report.undone.iter().map(row_of_undone).collect::<Vec<_>>()));
            let id = &report.transaction;
            let then = match (report.whole, self.until_reboot) {
                (false, _) => format!("transaction {id}: taken back\n"),
                (true, true) => format!("transaction {id}: kept until the host starts anew\n"),
                (true, false) => {
                    let seconds = self.confirm_within.as_secs_f64();
                    format!("transaction {id}: taken back in {seconds} s unless `forebay tune confirm {id}`\n")
                }
            };
            text + &then
        })?;
        let waits = changes
            .iter()
            .any(|change| knob::is_of_firmware(&change.item));
        let is_left = report.whole && !self.until_reboot;
        if is_left && ends_with_this_process(place) && !is_kept(place, &report.transaction)? {
            say("nobody confirmed it: it was taken back");
            return Ok(Exit::Failed);
        }
        Ok(match () {
            () if !report.whole => Exit::Failed,
            () if waits => Exit::Reboot,
            () => Exit::Done,
        })
    }
}

/// Reapplies the confirmed changes when the host starts.
pub(super) fn boot(place: &CommandPlace, lived: bool, again: bool) -> anyhow::Result<Exit> {
    let facts = Facts::read(&place.root);
    if let Some(refusal) = not_here(place, &facts) {
        return refused(place, &[refusal]);
    }
    if lived {
        persist::lived(&place.root, &place.state)?;
        return Ok(Exit::Done);
    }
    if again {
        persist::again(&place.state)?;
    }
    let watch = |id: &str| watchdog::start(&place.sysroot, &place.state, id);
    for id in change::resume(&place.root, &place.state, watch)? {
        say(&format!(
            "{id} outlived the start, and waits for its confirmation again"
        ));
    }
    // A start that was killed between its record and the watchdog.
    let all = transactions(&place.state)?;
    for id in watchdog::orphans(&place.state, &boot::id(&place.root), &all) {
        watch(&id)?;
    }
    let outcome = persist::at_start(&place.root, &place.state, &facts, watch)?;
    if let persist::BootOutcome::Refused { refused: refusals } = &outcome {
        return refused(place, refusals);
    }
    place.format.show(&outcome, || match &outcome {
        persist::BootOutcome::Applied { report } => {
            let mut text = table(
                &report
                    .applied
                    .iter()
                    .map(row_of_applied)
                    .collect::<Vec<_>>(),
            );
            text.push_str(&table(
                &report.undone.iter().map(row_of_undone).collect::<Vec<_>>(),
            ));
            text
        }
        _ => "nothing is to be applied\n".to_owned(),
    })?;
    let failed = matches!(&outcome, persist::BootOutcome::Applied { report } if !report.whole);
    Ok(if failed { Exit::Failed } else { Exit::Done })
}

/// Returns the text of a file, and the plan in it.
pub(super) fn read(file: &Path) -> anyhow::Result<(String, Plan)> {
    let read = || -> anyhow::Result<(String, Plan)> {
        let text = String::from_utf8(platform::bounded::file(file, PLAN_BYTES_MAX)?)?;
        let plan = Plan::parse(&text)?;
        Ok((text, plan))
    };
    read().with_context(|| format!("reading {}", file.display()))
}

/// Returns why nothing can be applied from this process.
pub(super) fn not_here(place: &CommandPlace, facts: &Facts) -> Option<Refusal> {
    if !place.root.is_this_machine() {
        return None;
    }
    let status = place.root.read("proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let capabilities = effective
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0);
    unable(capabilities, facts.topology.container)
}

/// Returns what a process with these effective capabilities lacks.
fn unable(capabilities: u64, in_container: bool) -> Option<Refusal> {
    const NET_ADMIN: u64 = 1 << 12;
    const SYS_NICE: u64 = 1 << 23;
    for (bit, name) in [(NET_ADMIN, "CAP_NET_ADMIN"), (SYS_NICE, "CAP_SYS_NICE")] {
        if capabilities & bit == 0 {
            return Some(Refusal::whole(format!("this process lacks {name}")));
        }
    }
    let why = "this is a container, whose /proc/sys is not the host's: run it privileged with --sysroot /host";
    in_container.then(|| Refusal::whole(why))
}

/// Returns whether the watchdog would end with this command: it runs in a container that has been
/// given the root of its host, not a copy.
fn ends_with_this_process(place: &CommandPlace) -> bool {
    let is_live = place.root.read("proc/self/stat").is_ok();
    !place.root.is_this_machine() && is_live && topology::is_container(&Root::new("/"))
}

/// Waits until a transaction is confirmed or taken back; returns whether it is kept.
fn is_kept(place: &CommandPlace, id: &str) -> anyhow::Result<bool> {
    say(
        "the watchdog ends with this container, and waits in it: confirm it from another one, or from the host",
    );
    let boot = boot::id(&place.root);
    loop {
        let all = transactions(&place.state)?;
        let standing = all.iter().find(|one| one.id == id);
        match standing.map(|one| one.standing(&boot)) {
            Some(TransactionStanding::Open) => boot::wait_ms(LOOK_MS),
            standing => return Ok(standing == Some(TransactionStanding::Confirmed)),
        }
    }
}

pub(super) fn refused(place: &CommandPlace, refusals: &[Refusal]) -> anyhow::Result<Exit> {
    #[derive(Serialize)]
    struct Answer<'a> {
        refused: &'a [Refusal],
    }
    if place.format == super::Format::Json {
        place
            .format
            .show(&Answer { refused: refusals }, String::new)?;
    }
    for refusal in refusals {
        let item = refusal
            .item
            .as_ref()
            .map_or_else(String::new, |item| format!("{item}: "));
        say(&format!("refused: {item}{}", refusal.why));
    }
    Ok(Exit::Refused)
}

pub(super) fn confirm(place: &CommandPlace, id: &str) -> anyhow::Result<Exit> {
    match change::confirm(&place.root, &place.state, id, false)? {
        Ok(()) => Ok(Exit::Done),
        Err(refusal) => refused(place, &[refusal]),
    }
}

pub(super) fn verify(place: &CommandPlace) -> anyhow::Result<Exit> {
    let seen = watch::look(
        &place.root,
        &boot::id(&place.root),
        &transactions(&place.state)?,
    );
    place.format.show(&seen, || {
        let row = |one: &WatchedItem| {
            let found = one.found.clone().unwrap_or_default();
            let said = match one.verdict {
                Verdict::Same => "same".to_owned(),
                Verdict::Lost => format!("lost to a reset of the link: {found}"),
                Verdict::Drifted => format!("drifted: {found}"),
                Verdict::Gone => "gone".to_owned(),
                Verdict::Waiting => "comes into effect when the host starts again".to_owned(),
                Verdict::Unapplied => {
                    format!("kept, and not applied since the start (forebay tune boot): {found}")
                }
            };
            let WatchedItem { item, left, .. } = one.clone();
            vec![item, left, said, one.transaction.clone()]
        };
        table(&seen.iter().map(row).collect::<Vec<_>>())
    })?;
    let of_firmware = |one: &&WatchedItem| knob::is_of_firmware(&one.item);
    if seen
        .iter()
        .filter(of_firmware)
        .any(|one| one.verdict == Verdict::Drifted)
        && let Some(said) = place
            .root
            .text(firmware::SAID)
            .filter(|said| !said.is_empty())
    {
        say(&format!(
            "the controller says of the settings that it applied: {said}"
        ));
    }
    for one in seen
        .iter()
        .filter(of_firmware)
        .filter(|one| one.verdict == Verdict::Gone)
    {
        let read = knob::find(&place.root, &one.item).map(|knob| knob.read(&place.root));
        if let Some(Err(error)) = read {
            say(&format!("{}: {error}", one.item));
        }
    }
    let has = |is: &dyn Fn(Verdict) -> bool| seen.iter().any(|one| is(one.verdict));
    Ok(match () {
        () if has(&|verdict| !matches!(verdict, Verdict::Same | Verdict::Waiting)) => Exit::Drift,
        () if has(&|verdict| verdict == Verdict::Waiting) => Exit::Reboot,
        () => Exit::Done,
    })
}

/// Watches until the process is ended, which changes no setting.
pub(super) fn watch(place: &CommandPlace) -> anyhow::Result<Exit> {
    if let Some(refusal) = not_here(place, &Facts::read(&place.root)) {
        return refused(place, &[refusal]);
    }
    let mut watch = Watch::default();
    // A read error is reported once and retried.
    let mut failed = None;
    loop {
        let begin = boot::worked_us();
        match watch.look(&place.root, &place.state, boot::now_ms()) {
            Ok(told) => {
                failed = None;
                for id in watch.orphans(&place.root, &place.state) {
                    let started = watchdog::start(&place.sysroot, &place.state, &id);
                    say(&match started {
                        Ok(()) => format!("the watchdog of {id} was gone, and is started again"),
                        Err(error) => format!("the watchdog of {id} is gone: {error:#}"),
                    });
                }
                for one in &told {
                    place.format.line(one, || {
                        let found = one.seen.found.clone().unwrap_or_default();
                        format!(
                            "{}: {found}, not {}: {}",
                            one.seen.item, one.seen.left, one.done
                        )
                    })?;
                }
            }
            Err(error) => {
                let why = format!("{error:#}");
                if failed.as_ref() != Some(&why) {
                    say(&why);
                }
                failed = Some(why);
            }
        }
        let took = boot::worked_us().saturating_sub(begin);
        boot::wait_ms(Watch::wait_ms(took));
    }
}

pub(super) fn undo(place: &CommandPlace, which: change::UndoSelection) -> anyhow::Result<Exit> {
    let done = change::undo(&place.root, &place.state, which)?;
    let undone: Vec<&UndoneItem> = done.iter().flat_map(|(_, undone)| undone).collect();
    place.format.show(&undone, || {
        let rows: Vec<_> = undone.iter().map(|one| row_of_undone(one)).collect();
        if rows.is_empty() {
            "nothing is applied\n".to_owned()
        } else {
            table(&rows)
        }
    })?;
    let has = |is: fn(&undo::UndoOutcome) -> bool| undone.iter().any(|one| is(&one.outcome));
    Ok(match () {
        () if has(|outcome| matches!(outcome, undo::UndoOutcome::Refused { .. })) => Exit::Failed,
        () if has(|outcome| {
            matches!(
                outcome,
                undo::UndoOutcome::Drifted { .. } | undo::UndoOutcome::Gone { .. }
            )
        }) =>
        {
            Exit::Drift
        }
        () => Exit::Done,
    })
}

pub(super) fn status(place: &CommandPlace) -> anyhow::Result<Exit> {
    #[derive(Serialize)]
    struct Line {
        transaction: String,
        plan: String,
        at_ms: i64,
        standing: TransactionStanding,
        whole: bool,
        items: usize,
        #[serde(skip_serializing_if = "Option::is_none")]
        seconds_left: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        ended: Option<String>,
    }
    let boot = boot::id(&place.root);
    let line = |one: crate::transaction::Transaction| {
        let standing = one.standing(&boot);
        let open = standing == TransactionStanding::Open;
        let left = one
            .deadline(&boot)
            .map(|deadline| deadline.saturating_sub(boot::now_ms()) / 1_000);
        Line {
            standing,
            whole: one.whole,
            at_ms: one.at_ms,
            items: one.entries.len(),
            seconds_left: left.filter(|_| open),
            ended: one
                .damaged
                .clone()
                .or_else(|| one.alarm.clone())
                .or_else(|| one.closed.clone()),
            plan: one.plan,
            transaction: one.id,
        }
    };
    let lines: Vec<Line> = transactions(&place.state)?.into_iter().map(line).collect();
    place.format.show(&lines, || {
        let row = |line: &Line| {
            let left = line.seconds_left.map(|seconds| format!("{seconds} s left"));
            vec![
                line.transaction.clone(),
                page::date::utc(line.at_ms),
                format!("{:?}", line.standing).to_lowercase(),
                format!("{} items", line.items),
                left.or_else(|| line.ended.clone()).unwrap_or_default(),
            ]
        };
        table(&lines.iter().map(row).collect::<Vec<_>>())
    })?;
    Ok(Exit::Done)
}

fn row_of_applied(one: &apply::AppliedItem) -> Vec<String> {
    let said = match &one.outcome {
        apply::ApplyOutcome::Already => "already".to_owned(),
        apply::ApplyOutcome::Same => "same".to_owned(),
        apply::ApplyOutcome::Coerced { got } => format!("coerced to {got}"),
        apply::ApplyOutcome::Ignored { got } => format!("ignored: it is {got} still"),
        apply::ApplyOutcome::Denied { error } => format!("denied: {error}"),
    };
    vec![
        one.item.clone(),
        format!("{} -> {}", one.old, one.want),
        said,
    ]
}

fn row_of_undone(one: &UndoneItem) -> Vec<String> {
    let said = match &one.outcome {
        undo::UndoOutcome::Restored => "restored".to_owned(),
        undo::UndoOutcome::Untouched => "had its old value".to_owned(),
        undo::UndoOutcome::Drifted { found } => format!("left: somebody else made it {found}"),
        undo::UndoOutcome::Gone { error } => format!("gone: {error}"),
        undo::UndoOutcome::Refused { error } => format!("not restored: {error}"),
    };
    vec![one.item.clone(), format!("-> {}", one.old), said]
}

/// Parses a time such as `30s`, `5m`, `24h` or `500ms`.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let number: u64 = digits
        .parse()
        .map_err(|_| format!("{text:?} is no time: 30s, 5m, 24h"))?;
    let ms = match &text[digits.len()..] {
        "ms" => 1,
        "s" | "" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        unit => return Err(format!("{unit:?} is no unit: ms, s, m, h")),
    };
    number
        .checked_mul(ms)
        .map(Duration::from_millis)
        .ok_or_else(|| format!("{text} is too long"))
}

fn class(text: &str) -> Result<Class, String> {
    let known = [Class::O, Class::F, Class::L, Class::P, Class::B];
    let found = known.into_iter().find(|class| format!("{class:?}") == text);
    found.ok_or_else(|| format!("{text:?} is none of O, F, L, P, B"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_without_rights_or_in_a_container_is_refused() {
        let why = |capabilities, container| unable(capabilities, container).map(|one| one.why);
        let all = u64::MAX;
        assert_eq!(why(all, false), None);
        for (bit, name) in [(12, "CAP_NET_ADMIN"), (23, "CAP_SYS_NICE")] {
            let refused = why(all & !(1 << bit), false).unwrap();
            assert!(refused.contains(name), "{refused}");
        }
        assert!(why(all, true).unwrap().contains("--sysroot /host"));
    }

    #[test]
    fn times_have_units() {
        assert_eq!(time("5m"), Ok(Duration::from_mins(5)));
        assert_eq!(time("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(time("90"), Ok(Duration::from_secs(90)));
        for wrong in [
            "",
            "m",
            "5d",
            "-1s",
            "99999999999999999999s",
            "18446744073709551615h",
        ] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }
}
