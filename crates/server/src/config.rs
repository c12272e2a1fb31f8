//! Configuration: Kafka's property names, from a file, the environment and the command line.
//!
//! `keys` is the one table of settings; `raw` reads text into `(key, value, origin)`, `providers`
//! put values in the place of references, `permissions` says who else can read secrets; `resolved`
//! validates once and fills typed settings; `impact` says what clients notice of a setting;
//! `startup` chooses what a start logs;
//! `effective` lists values with their origin; `reference` prints the table as a page. Precedence,
//! weakest first: embedded defaults, file, environment (`FOREBAY_LOG_DIRS` is `log.dirs`),
//! `key=value` arguments. It does not keep values that change while the broker runs: those are
//! metadata, in the broker.

mod address;
pub(crate) mod cpus;
pub mod effective;
mod entry;
pub mod impact;
pub mod keys;
mod permissions;
pub mod problem;
mod providers;
pub mod raw;
pub mod reference;
pub mod resolved;
pub mod startup;
mod values;

pub use address::Address;
pub use effective::EffectiveSetting;
pub use problem::{Effect, Problem, Warning};
pub use raw::{Origin, RawSettings};
pub use resolved::{
    AdminAuth, AdminSettings, CheckedSettings, DiskEngine, NetworkSettings, ResolvedSettings,
    Settings, TierSettings,
};
pub use startup::StartWarnings;
