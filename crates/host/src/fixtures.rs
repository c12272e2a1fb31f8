//! Hosts for tests, each a text file: `@ name` precedes the content of a file, `@ name -> target`
//! is a link.
//!
//! `vm` was recorded (`forebay tune record`); the others are written by hand from the documentation
//! of drivers and kernel.

use crate::fake::Fake;

/// Returns all hosts by name.
pub(crate) fn all() -> Vec<(&'static str, Fake)> {
    vec![
        ("two-sockets", two_sockets()),
        ("snc", snc()),
        ("cloud", cloud()),
        ("vm", vm()),
    ]
}

/// Two packages, two nodes, an ixgbe card at node 1 with full rings.
pub(crate) fn two_sockets() -> Fake {
    tree(include_str!("../tests/fixtures/two-sockets.tree"))
}

/// Two packages with two nodes each (SNC), an i40e card at node 2.
pub(crate) fn snc() -> Fake {
    tree(include_str!("../tests/fixtures/snc.tree"))
}

/// A cloud instance with an ena card that drops.
pub(crate) fn cloud() -> Fake {
    tree(include_str!("../tests/fixtures/cloud.tree"))
}

/// A virtual machine of two CPUs with a virtio card.
pub(crate) fn vm() -> Fake {
    tree(include_str!("../tests/fixtures/vm.tree"))
}

fn tree(text: &str) -> Fake {
    let fake = Fake::default();
    for part in text
        .split("\n@ ")
        .map(|part| part.strip_prefix("@ ").unwrap_or(part))
    {
        let (head, body) = part.split_once('\n').unwrap_or((part, ""));
        match head.split_once(" -> ") {
            Some((name, target)) => fake.set_link(name, target),
            None => fake.set(head, body),
        }
    }
    fake
}
