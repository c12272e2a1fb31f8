//! One partition's log. Its mechanisms: the indexes of a segment, the leader epochs, the producers.

pub mod epoch_cache;
pub mod indexes;
pub mod offset_index;
pub mod producer_state;
pub mod time_index;
pub mod txn_index;
