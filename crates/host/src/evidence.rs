//! The measured values of a host by name, on which rules fire and against which an item's evidence
//! is checked.
//!
//! Evidence is a condition such as `listen.overflows > 0`, so that a reader of a plan sees when it
//! no longer holds. Pure.

use std::collections::BTreeMap;

use crate::counter::Counters;
use crate::facts::Facts;

/// Returns all measured values: totals since the start of the host, or of a span of time.
pub fn of(facts: &Facts, counters: &Counters) -> BTreeMap<String, f64> {
    let mut evidence: BTreeMap<String, f64> = BTreeMap::new();
    for (name, value) in &counters.0 {
        evidence.insert(name.clone(), *value as f64);
    }
    let share = |part: &str, whole: &str| {
        let (part, whole) = (counters.of(part)?, counters.of(whole)?);
        (whole > 0).then(|| part as f64 / whole as f64)
    };
    if let Some(share) = share("softnet.squeezed", "softnet.processed") {
        evidence.insert("softnet.squeezed_share".to_owned(), share);
    }
    let softirq = facts.topology.online.iter();
    let softirq =
        softirq.filter_map(|cpu| share(&format!("cpu{cpu}.softirq"), &format!("cpu{cpu}.ticks")));
    if let Some(most) = softirq.reduce(f64::max) {
        evidence.insert("cpu.softirq_share_max".to_owned(), most);
    }
    evidence.insert("cpus".to_owned(), facts.topology.online.len() as f64);
    if let Some(uptime_us) = facts.topology.uptime_us.filter(|uptime| *uptime > 0) {
        for (name, waited) in &counters.0 {
            if let Some(pressure) = name
                .strip_suffix("_us")
                .filter(|name| name.starts_with("pressure."))
            {
                let share = *waited as f64 / uptime_us as f64;
                evidence.insert(format!("{pressure}_share"), share);
            }
        }
    }
    for nic in &facts.nics {
        let name = &nic.name;
        evidence.insert(
            format!("net.{name}.ring_drops"),
            counters.ring_drops(name) as f64,
        );
        evidence.insert(format!("net.{name}.rx_queues"), nic.rx_queues as f64);
        if let Some((now, most)) = nic.rx_ring {
            evidence.insert(
                format!("net.{name}.ring_share"),
                f64::from(now) / f64::from(most),
            );
        }
        if let Some(imbalance) = imbalance(nic) {
            evidence.insert(format!("net.{name}.imbalance"), imbalance);
        }
    }
    evidence
}

/// Returns how unevenly a card's queues are used.
///
/// This is the share of interrupts that would have to move for all queues to have the same number.
/// None if there are fewer than two queues, or almost no interrupts.
fn imbalance(nic: &crate::facts::net::Nic) -> Option<f64> {
    const TIMES_MIN: u64 = 1_000;
    let times: Vec<u64> = nic
        .interrupts
        .iter()
        .filter(|one| one.queue.starts_with("rx"))
        .map(|one| one.times)
        .collect();
    let all = times
        .iter()
        .fold(0_u64, |all, times| all.saturating_add(*times));
    if times.len() < 2 || all < TIMES_MIN {
        return None;
    }
    let even = all as f64 / times.len() as f64;
    let over: f64 = times
        .iter()
        .map(|times| (*times as f64 - even).max(0.0))
        .sum();
    Some(over / all as f64)
}

/// Checks that a condition holds; the error is the reason why it does not.
pub fn holds(condition: &str, evidence: &BTreeMap<String, f64>) -> Result<(), String> {
    let words: Vec<&str> = condition.split_ascii_whitespace().collect();
    let [name, operator, number] = words.as_slice() else {
        return Err(format!(
            "evidence {condition:?} is not NAME OPERATOR NUMBER"
        ));
    };
    let number: f64 = number
        .parse()
        .map_err(|_| format!("evidence {condition:?} has no number"))?;
    let Some(value) = evidence.get(*name) else {
        return Err(format!(
            "its evidence {condition:?}: {name} is not measured here"
        ));
    };
    let holds = match *operator {
        ">" => *value > number,
        ">=" => *value >= number,
        "<" => *value < number,
        "<=" => *value <= number,
        _ => return Err(format!("evidence {condition:?} has no operator")),
    };
    if holds {
        return Ok(());
    }
    Err(format!(
        "its evidence {condition:?} does not hold any more: it is {value}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_holds_or_says_why_not() {
        let evidence = BTreeMap::from([("a.b".to_owned(), 2.5)]);
        for condition in ["a.b > 2", "a.b >= 2.5", "a.b < 3", "a.b <= 2.5"] {
            assert_eq!(holds(condition, &evidence), Ok(()), "{condition}");
        }
        for condition in ["a.b > 2.5", "a.c > 0", "a.b = 2.5", "a.b", "a.b > x", ""] {
            assert!(holds(condition, &evidence).is_err(), "{condition}");
        }
    }
}
