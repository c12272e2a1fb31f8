//! Which listeners are opened, and the addresses that clients get for them.
//!
//! A listener for controllers is not opened: the controller is in this process.

use broker::session::SecurityProtocol;

use super::super::address::Address;
use super::super::problem::{Problem, Warning};
use super::super::values::Values;
use super::login::Protocols;
use crate::machine::Machine;

/// Returns the listeners to open, the advertised address of each, in the same order, and what each
/// speaks.
pub(super) fn resolve(
    values: &Values,
    machine: &Machine,
    problems: &mut Vec<Problem>,
) -> (Vec<Address>, Vec<Address>, Protocols) {
    let mut listeners = addresses(values, "listeners", problems);
    let names: Vec<String> = listeners.iter().map(|l| l.listener.clone()).collect();
    listeners.retain(|listener| !is_controllers(values, &listener.listener));
    if listeners.is_empty() && !names.is_empty() {
        problems.push(values.problem("listeners", "must hold one that is not for controllers"));
    }
    let protocols = protocols(values, &listeners, problems);
    check_ports(values, &listeners, problems);
    if let Some(first) = values.text("inter.broker.listener.name") {
        let first = first.to_ascii_uppercase();
        match listeners
            .iter()
            .position(|listener| listener.listener == first)
        {
            Some(at) => listeners[..=at].rotate_right(1),
            None => problems
                .push(values.problem("inter.broker.listener.name", "must be one of listeners")),
        }
    }
    let advertised = advertised(values, &listeners, &names, machine, problems);
    (listeners, advertised, protocols)
}

/// Warns about settings of listeners that do not exist. Those of the admin endpoint are not its
/// business, if there is one that has them.
pub(super) fn check_named(values: &Values, has_admin: bool, warnings: &mut Vec<Warning>) {
    let listeners = values.list("listeners");
    let listeners: Vec<_> = listeners
        .iter()
        .filter_map(|text| Some(Address::parse(text)?.listener.to_ascii_lowercase()))
        .collect();
    for (listener, entry) in values.of_listeners() {
        let is_of_admin = has_admin && listener == super::admin::LISTENER;
        if !is_of_admin && !listeners.iter().any(|name| name == listener) {
            let why = format!(
                "has no effect: no listener is called {listener} (listeners: {})",
                listeners.join(", ")
            );
            let advice =
                "name one of the listeners, in lower case: as it stands, it holds for none";
            warnings.push(Warning::of(entry, why).seen_by_clients(advice));
        }
    }
}

fn is_controllers(values: &Values, name: &str) -> bool {
    values
        .list("controller.listener.names")
        .iter()
        .any(|other| other.eq_ignore_ascii_case(name))
}

/// Reads a list of addresses, in which each name may occur once.
fn addresses(values: &Values, key: &str, problems: &mut Vec<Problem>) -> Vec<Address> {
    let mut read: Vec<Address> = Vec::new();
    for text in values.list(key) {
        match Address::parse(text) {
            None => {
                let allowed = format!("{text} must be NAME://host:port");
                problems.push(values.problem(key, allowed));
            }
            Some(address) if read.iter().any(|other| other.listener == address.listener) => {
                let allowed = format!("names {} twice", address.listener);
                problems.push(values.problem(key, allowed));
            }
            Some(address) => read.push(address),
        }
    }
    read
}

fn protocols(values: &Values, listeners: &[Address], problems: &mut Vec<Problem>) -> Protocols {
    const KEY: &str = "listener.security.protocol.map";
    let map: Vec<(String, &str)> = values
        .list(KEY)
        .iter()
        .filter_map(|pair| pair.split_once(':'))
        .map(|(name, protocol)| (name.trim().to_ascii_uppercase(), protocol.trim()))
        .collect();
    if map.len() != values.list(KEY).len() {
        problems.push(values.problem(KEY, "must be NAME:PROTOCOL pairs"));
    }
    let mut all = Protocols::new();
    for Address { listener, .. } in listeners {
        let told = map.iter().filter(|(name, _)| name == listener);
        let mut told = told.map(|(_, protocol)| *protocol);
        match told.next() {
            None => problems.push(values.problem(KEY, format!("must name listener {listener}"))),
            // Kafka takes the last one; the operator who wrote both may mean either.
            Some(first) if told.any(|other| !other.eq_ignore_ascii_case(first)) => {
                let allowed = format!("maps listener {listener} twice, and not to the same");
                problems.push(values.problem(KEY, allowed));
            }
            Some(protocol) => {
                let mut all_known = SecurityProtocol::ALL.into_iter();
                let known = all_known.find(|it| it.name().eq_ignore_ascii_case(protocol));
                if let Some(known) = known {
                    all.insert(listener.clone(), known);
                } else {
                    let names = SecurityProtocol::ALL.map(SecurityProtocol::name).join(", ");
                    let allowed =
                        format!("listener {listener} maps to {protocol}, which is none of {names}");
                    problems.push(values.problem(KEY, allowed));
                }
            }
        }
    }
    all
}

fn check_ports(values: &Values, listeners: &[Address], problems: &mut Vec<Problem>) {
    for (at, listener) in listeners.iter().enumerate() {
        let same = |other: &Address| (&other.host, other.port) == (&listener.host, listener.port);
        if listener.port != 0 && listeners[..at].iter().any(same) {
            let allowed = format!("{} has the address of another", listener.listener);
            problems.push(values.problem("listeners", allowed));
        }
    }
}

fn advertised(
    values: &Values,
    listeners: &[Address],
    names: &[String],
    machine: &Machine,
    problems: &mut Vec<Problem>,
) -> Vec<Address> {
    const KEY: &str = "advertised.listeners";
    let told = addresses(values, KEY, problems);
    for address in told.iter().filter(|told| !names.contains(&told.listener)) {
        problems.push(values.problem(KEY, format!("{} is not in listeners", address.listener)));
    }
    let mut advertised = Vec::new();
    for listener in listeners {
        let mut address = listener.clone();
        if let Some(told) = told.iter().find(|told| told.listener == listener.listener) {
            address = told.clone();
        } else if values.is_given(KEY) {
            problems.push(values.problem(KEY, format!("must hold {} too", listener.listener)));
        }
        if address.host.is_empty() {
            address.host.clone_from(&machine.host_name);
        }
        if ["0.0.0.0", "::"].contains(&address.host.as_str()) {
            let allowed = format!(
                "must say where {} is reached: {} is no address to connect to",
                address.listener, address.host
            );
            problems.push(values.problem(KEY, allowed));
        }
        advertised.push(address);
    }
    advertised
}
