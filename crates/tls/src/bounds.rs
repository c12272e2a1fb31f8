//! How much of a store is taken: what is beyond is refused, and so is a longer chain of a client.

/// Longest chain of a key, and of a client.
pub(crate) const CHAIN_MAX: usize = 10;
/// Most keys of a store.
pub(crate) const KEYS_MAX: usize = 16;
/// Most trusted certificates.
pub(crate) const TRUSTED_MAX: usize = 2000;
