//! Frequency, idle states and clock. Frequencies belong to policies, not to cores: setting them by
//! core skips siblings. Idle states belong to CPUs: either a state is switched off, or a CPU gets a
//! bound on the time in which it has to work again (the kernel's power management, where 0 is no
//! bound).

use super::{Class, Form, Knob, is_plain};
use crate::root::Tree;

const CPU: &str = "sys/devices/system/cpu";
const OF_POLICIES: &[&str] = &["governor", "epp"];

/// Largest bound on the time in which a CPU works again.
const LATENCY_US_MAX: i64 = 1_000_000;

/// Returns the knob of `POLICY.governor`, `POLICY.epp`, `cpu0.latency_us`, `cpu0.state2.off`,
/// `boost` or `clocksource`.
pub(super) fn find(rest: &str) -> Option<Knob> {
    let (file, form) = match rest.rsplit_once('.') {
        None if rest == "boost" => (format!("{CPU}/cpufreq/boost"), Form::Number(0, 1)),
        None if rest == "clocksource" => (
            "sys/devices/system/clocksource/clocksource0/current_clocksource".to_owned(),
            Form::Word,
        ),
        Some((policy, name)) if policy.starts_with("policy") && is_plain(policy) => {
            let file = match name {
                "governor" => "scaling_governor",
                "epp" => "energy_performance_preference",
                _ => return None,
            };
            (format!("{CPU}/cpufreq/{policy}/{file}"), Form::Word)
        }
        Some((cpu, "latency_us")) if is_numbered(cpu, "cpu") => (
            format!("{CPU}/{cpu}/power/pm_qos_resume_latency_us"),
            Form::Number(0, LATENCY_US_MAX),
        ),
        Some((place, "off")) => {
            let (cpu, state) = place.split_once('.')?;
            if !is_numbered(cpu, "cpu") || !is_numbered(state, "state") {
                return None;
            }
            (
                format!("{CPU}/{cpu}/cpuidle/{state}/disable"),
                Form::Number(0, 1),
            )
        }
        _ => return None,
    };
    Some(Knob::new(format!("cpu.{rest}"), file, form, Class::O))
}

fn is_numbered(name: &str, word: &str) -> bool {
    let number = name.strip_prefix(word).unwrap_or_default();
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the ids of all CPUs that have idle states.
fn of_idle(tree: &dyn Tree) -> Vec<String> {
    let mut ids = Vec::new();
    for cpu in tree
        .names(CPU)
        .iter()
        .filter(|name| is_numbered(name, "cpu"))
    {
        let states = tree.names(&format!("{CPU}/{cpu}/cpuidle"));
        if states.is_empty() {
            continue;
        }
        ids.push(format!("{cpu}.latency_us"));
        let states = states.iter().filter(|name| is_numbered(name, "state"));
        ids.extend(states.map(|state| format!("{cpu}.{state}.off")));
    }
    ids
}

/// Returns the knobs of all policies, and the host's own.
pub(super) fn all(tree: &dyn Tree) -> Vec<Knob> {
    let policies = tree.names(&format!("{CPU}/cpufreq"));
    let of_policies = policies.iter().filter(|name| name.starts_with("policy"));
    let ids = of_policies.flat_map(|policy| {
        OF_POLICIES
            .iter()
            .map(move |name| format!("{policy}.{name}"))
    });
    let ids = ids.chain(["boost", "clocksource"].map(str::to_owned));
    let ids = ids.chain(of_idle(tree));
    ids.filter_map(|id| find(&id)).collect()
}
