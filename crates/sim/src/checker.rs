//! The promises, one file each.

pub(crate) mod lookups;
pub(crate) mod reads;
pub(crate) mod recovered;
