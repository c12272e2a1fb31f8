//! Hosts for tests, each a text file: `@ name` precedes the content of a file, `@ name -> target`
//! is a link.
//!
//! `vm` was recorded (`forebay tune record`). `two-sockets`, `snc` and `cloud` are no machines:
//! they are written by hand from the documentation of drivers and kernel, for the rules. The others
//! hold what the owners of real machines have published, and nothing else but that their cards are
//! up:
//!
//! - `x9drg`: processors, nodes, memory and cards of the Supermicro X9DRG-HF that the tests of
//!   hwloc describe in `tests/hwloc/xml/32em64t-2n8c2t-pci-normalio.xml`;
//! - `b200m4`: those of the Cisco UCS B200 M4 with cluster on die, described beside it in
//!   `28intel64-2p2g7c-CoDgroups.v1tov2.xml`;
//! - `eks`: the interrupts of a node of EC2 with three ENA cards, from the page
//!   `performance-kubernetes-cluster-aws-eks.md` of `ThingsBoard`'s documentation.

use crate::fake::Fake;

/// Returns all hosts by name.
pub(crate) fn all() -> Vec<(&'static str, Fake)> {
    vec![
        ("two-sockets", two_sockets()),
        ("snc", snc()),
        ("cloud", cloud()),
        ("vm", vm()),
        ("x9drg", x9drg()),
        ("b200m4", b200m4()),
        ("eks", eks()),
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

/// A Supermicro X9DRG-HF: two packages with two threads for each core, cards at node 1.
pub(crate) fn x9drg() -> Fake {
    tree(include_str!("../tests/fixtures/x9drg.tree"))
}

/// A Cisco UCS B200 M4: two packages of two nodes each (cluster on die), cards at node 0.
pub(crate) fn b200m4() -> Fake {
    tree(include_str!("../tests/fixtures/b200m4.tree"))
}

/// A node of EC2 with three ENA cards of four queues each.
pub(crate) fn eks() -> Fake {
    tree(include_str!("../tests/fixtures/eks.tree"))
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
