//! What the policy is told by settings.

/// Settings of the policy, named as `storage.migrate.*`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PolicySettings {
    /// `threshold`: the share of a tier above which sealed segments move down; `None` (-1) switches movement off.
    pub threshold: Option<f64>,
    /// `hysteresis`: this far below the threshold segments of lower tiers move up.
    pub hysteresis: f64,
    /// `reserve`: share of a tier that sealed segments leave to the active ones, whatever else holds.
    pub reserve: f64,
    /// `threads`: moves at a time, over all shards. The gatherer of the view makes free slots of it.
    pub threads: usize,
    /// `bytes.per.second`: bound of all moves together; `None` is without.
    pub bytes_per_second: Option<u64>,
    /// `residency.ms`: a segment stays at least this long on a tier it was moved to.
    pub residency_ms: u64,
    /// `heat.ms`: a segment read within this time does not move down.
    pub heat_ms: u64,
    /// `horizon.ms`: a tier that is full within this time begins to move earlier.
    pub horizon_ms: u64,
}

impl PolicySettings {
    /// The embedded defaults, which `storage.migrate.*` have too.
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
