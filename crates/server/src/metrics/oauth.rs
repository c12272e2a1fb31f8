//! Counts of OAUTHBEARER: tokens that were accepted or refused, and the sets of keys by which they
//! are verified.
//!
//! Labels are listeners and our own words: a client can make none.

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct ListenerLabel {
    listener: Arc<str>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct CauseLabels {
    listener: Arc<str>,
    cause: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct ResultLabels {
    listener: Arc<str>,
    result: &'static str,
}

/// Counts of OAUTHBEARER; clones share them.
#[derive(Clone, Default, Debug)]
pub struct OauthMetrics {
    accepted: Family<ListenerLabel, Counter>,
    refused: Family<CauseLabels, Counter>,
    reads: Family<ResultLabels, Counter>,
    keys: Family<ListenerLabel, Gauge>,
    read_at: Family<ListenerLabel, Gauge>,
}

impl OauthMetrics {
    /// Registers them.
    pub fn register(&self, registry: &mut Registry) {
        let all = self.clone();
        let help = "Tokens of OAUTHBEARER that were accepted";
        registry.register("forebay_oauth_tokens_accepted", help, all.accepted);
        let help = "Tokens of OAUTHBEARER that were refused, by cause";
        registry.register("forebay_oauth_tokens_refused", help, all.refused);
        let help = "Sets of keys of identity providers that were read, or could not be";
        registry.register("forebay_oauth_key_reads", help, all.reads);
        let help = "Keys by which tokens of OAUTHBEARER are verified";
        registry.register("forebay_oauth_keys", help, all.keys);
        let help = "When the set of keys was last read, as Unix time";
        registry.register("forebay_oauth_keys_read_seconds", help, all.read_at);
    }

    /// Counts a token that was accepted.
    pub fn accepted(&self, listener: &Arc<str>) {
        self.accepted.get_or_create(&of(listener)).inc();
    }

    /// Counts a token that was refused.
    pub fn refused(&self, listener: &Arc<str>, cause: &'static str) {
        let listener = Arc::clone(listener);
        let labels = CauseLabels { listener, cause };
        self.refused.get_or_create(&labels).inc();
    }

    /// Counts a set that was read at this time, and shows its keys.
    pub fn read(&self, listener: &Arc<str>, keys: usize, unix_seconds: i64) {
        self.reads.get_or_create(&result(listener, "success")).inc();
        let keys = i64::try_from(keys).unwrap_or(i64::MAX);
        self.keys.get_or_create(&of(listener)).set(keys);
        self.read_at.get_or_create(&of(listener)).set(unix_seconds);
    }

    /// Counts a set that could not be read.
    pub fn read_failed(&self, listener: &Arc<str>) {
        self.reads.get_or_create(&result(listener, "failure")).inc();
    }

    /// Returns how many sets were read, and how many could not be.
    #[cfg(test)]
    pub(crate) fn reads(&self, listener: &Arc<str>) -> (u64, u64) {
        let count = |word| self.reads.get_or_create(&result(listener, word)).get();
        (count("success"), count("failure"))
    }
}

fn of(listener: &Arc<str>) -> ListenerLabel {
    ListenerLabel {
        listener: Arc::clone(listener),
    }
}

fn result(listener: &Arc<str>, result: &'static str) -> ResultLabels {
    ResultLabels {
        listener: Arc::clone(listener),
        result,
    }
}
