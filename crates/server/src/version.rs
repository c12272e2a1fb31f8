//! Which program this is: the version and the commit it was built from, the same in `--version`, `forebay_build_info` and the
//! first line of the log. The commit is `debug` in a debug build and `unknown` where there was no git (see `build.rs`).

/// The version of the package.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit.
pub const COMMIT: &str = env!("FOREBAY_COMMIT");

/// Both, as `--version` has them.
pub const LONG: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("FOREBAY_COMMIT"), ")");
