//! Experiments: the questions (`design`), the comparisons (`modes`), the assignment of arms
//! (`assign`), the verdict (`decide`), and the execution (`run`, on this host: `host`).
//!
//! Everything but `host` is pure. Invariants: an assignment follows from a recorded seed; a verdict
//! follows from the figures alone, by the same rules for good and bad results.

pub mod assign;
pub mod decide;
pub mod design;
pub mod fleet;
pub mod host;
pub mod modes;
pub mod run;
pub mod sample;
