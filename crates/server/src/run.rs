//! The broker as `forebay serve` runs it.
//!
//! Invariant: not generic. The broker and its storage are generic over the platform, so they are
//! compiled where their types are named: once, in this library, and not again in each program that
//! uses it.

use crate::assemble::BrokerAssembly;
use crate::config::Settings;
use crate::media;
use crate::serve;

/// Serves a broker until a signal ends it.
pub fn broker(settings: Settings) -> anyhow::Result<()> {
    media::use_small_pages(&settings);
    serve::run(settings, |prepared| Ok(BrokerAssembly::new(prepared)))
}
