//! Frequency and clock. Frequencies belong to policies, not to cores: setting them by core skips
//! siblings.

use super::{Class, Form, Knob, is_plain};
use crate::root::Tree;

const CPU: &str = "sys/devices/system/cpu";
const OF_POLICIES: &[&str] = &["governor", "epp"];

/// Returns the knob of `POLICY.governor`, `POLICY.epp`, `boost` or `clocksource`.
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
        _ => return None,
    };
    Some(Knob::new(format!("cpu.{rest}"), file, form, Class::O))
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
    ids.filter_map(|id| find(&id)).collect()
}
