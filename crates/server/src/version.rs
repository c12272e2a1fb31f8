//! The version of this program and the commit it was built from.
//!
//! `--version`, `forebay_build_info` and the first line of the log show the same. The commit is
//! `debug` in a debug build and `unknown` in a build without git (see `build.rs`).

/// The version of the package.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit.
pub const COMMIT: &str = env!("BUILD_COMMIT");

/// Version and commit, as `--version` prints them.
pub const LONG: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("BUILD_COMMIT"), ")");
