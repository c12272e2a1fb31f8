//! Experiments: what is asked (`design`), of what (`modes`), who gets the change (`assign`), what the figures say of it (`decide`), and how it is
//! carried out (`run`, on this host: `host`).
//!
//! All but `host` is pure. Invariants: an assignment follows from a seed that is recorded; a verdict follows from figures
//! alone, and the same rules hold for good and bad news.

pub mod assign;
pub mod decide;
pub mod design;
pub mod fleet;
pub mod host;
pub mod modes;
pub mod run;
pub mod sample;
