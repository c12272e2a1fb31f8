//! Project chores, run as `cargo xtask <chore>`.
//!
//! - `tidy`: checks what the compiler and clippy do not see: crate edges, licences, sizes, names,
//!   dead files, text rules.
//! - `tidy --shrink`: lowers the entries of the ratchets to what was measured, and drops those
//!   that are no longer needed. It never adds one: an exception is written by hand, with its
//!   reason.
//! - `words`: prints every word and name that the ratchet on wording counts.
//! - `structure`: prints figures of the structure of the code: asserts, methods of types, circles
//!   of files.
//! - `guard`: counts the instructions of the hot paths and compares them with the recorded counts;
//!   `guard --record` records them.

mod guard;
mod metadata;
mod source;
mod structure;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask tidy [--shrink] | words | structure | guard [--record]";

fn main() -> anyhow::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["tidy"] => tidy::run(false),
        ["tidy", "--shrink"] => tidy::run(true),
        ["words"] => tidy::print_words(),
        ["structure"] => structure::run(),
        ["guard"] => guard::run(false),
        ["guard", "--record"] => guard::run(true),
        _ => {
            eprintln!("{USAGE}");
            Ok(ExitCode::FAILURE)
        }
    }
}
