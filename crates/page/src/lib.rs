//! Charts and the page around them: what the reports of measurements, tuning and planning are drawn with.
//!
//! Invariants: pure, from values to text; a page is one file that needs nothing from outside and no script to be
//! read; whatever the values, no mark is outside of its frame and nothing that is not a number is printed as one; no
//! text is ever markup. It knows nothing of what is measured: series have numbers, and so colours.

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
