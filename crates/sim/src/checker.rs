//! The checks of the promises, one file each.

pub(crate) mod lookups;
pub(crate) mod places;
pub(crate) mod reads;
pub(crate) mod recovered;
