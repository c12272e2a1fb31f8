//! Settings of the firmware, by logical names (`firmware.cpu.snoop`); each value comes into effect
//! when the host starts again. Which names a machine has, its controller says
//! ([`crate::firmware`]).

use super::{Class, Form, Knob, is_plain};
use crate::firmware::DIR;
use crate::root::Tree;

/// Returns the knob of a logical name.
pub(super) fn find(rest: &str) -> Option<Knob> {
    let file = format!("{DIR}/{rest}");
    is_plain(rest).then(|| Knob::new(format!("firmware.{rest}"), file, Form::Word, Class::B))
}

/// Returns the knobs of the names that the controller has.
pub(super) fn all(tree: &dyn Tree) -> Vec<Knob> {
    let names = tree.names(DIR);
    names.iter().filter_map(|name| find(name)).collect()
}
