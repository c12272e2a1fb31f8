//! Charts and the page around them, for the reports of measurements, tuning and planning.
//!
//! Invariants: everything is a pure function from values to text; a page is one file that loads
//! nothing and is readable without a script; whatever the values, no mark is outside its frame, and
//! a value that is not a number is never printed as one; text is never taken as markup.
//! It knows nothing of what is measured: a series has a number, which gives its colour.

#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "figures on paper are rounded: none has 52 significant bits"
)]
#![cfg_attr(
    test,
    allow(
        clippy::float_cmp,
        reason = "tests compare figures that are exact by their making"
    )
)]

pub mod bars;
pub mod chart;
pub mod date;
pub mod escape;
pub mod frame;
pub mod label;
pub mod number;
pub mod scale;
pub mod svg;
