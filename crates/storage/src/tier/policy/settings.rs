//! The settings of the policy.

/// Settings of the policy, named after `storage.migrate.*`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PolicySettings {
    /// `threshold`: the share of a tier above which sealed segments are demoted; `None` (-1) turns
    /// movement off.
    pub threshold: Option<f64>,
    /// `hysteresis`: how far below the threshold a tier must be before segments are promoted to it.
    pub hysteresis: f64,
    /// `reserve`: the share of a tier that sealed segments always leave to the active ones.
    pub reserve: f64,
    /// `threads`: the concurrent moves of all shards; they determine the free slots in the view.
    pub threads: usize,
    /// `bytes.per.second`: the bound of all moves together; `None` means no limit.
    pub bytes_per_second: Option<u64>,
    /// `residency.ms`: a segment stays at least this long on a tier it was moved to.
    pub residency_ms: u64,
    /// `heat.ms`: a segment read within this time is not demoted.
    pub heat_ms: u64,
    /// `horizon.ms`: a tier that will be full within this time begins to demote earlier.
    pub horizon_ms: u64,
}

impl PolicySettings {
    /// The built-in defaults, which are also those of `storage.migrate.*`.
    pub const DEFAULTS: Self = Self {
        threshold: Some(0.5),
        hysteresis: 0.05,
        reserve: 0.05,
        threads: 1,
        bytes_per_second: None,
        residency_ms: 60_000,
        heat_ms: 60_000,
        horizon_ms: 30_000,
    };
}
