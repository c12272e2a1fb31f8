//! Counts of the admin endpoint: who was let in, and who was not.
//!
//! Labels are our own words: a client can make none.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct LoginLabels {
    auth: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct FailureLabels {
    cause: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct DenialLabels {
    operation: &'static str,
    enforced: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct ReloadLabels {
    result: &'static str,
}

/// The counts; clones share them.
#[derive(Clone, Default, Debug)]
pub struct AdminMetrics {
    logins: Family<LoginLabels, Counter>,
    failures: Family<FailureLabels, Counter>,
    denied: Family<DenialLabels, Counter>,
    reloads: Family<ReloadLabels, Counter>,
}

impl AdminMetrics {
    /// Creates and registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let all = metrics.clone();
        let help = "Requests to the admin endpoint whose credentials are right";
        registry.register("forebay_admin_logins", help, all.logins);
        let help = "Requests to the admin endpoint whose client is not known, by cause";
        registry.register("forebay_admin_logins_failed", help, all.failures);
        let help = "Rights that clients of the admin endpoint asked for and do not have";
        registry.register("forebay_admin_denied", help, all.denied);
        let help = "Files of tokens of the admin endpoint that were read again";
        registry.register("forebay_admin_token_reloads", help, all.reloads);
        metrics
    }

    /// Counts a request whose client is known.
    pub fn logged_in(&self, auth: &'static str) {
        self.logins.get_or_create(&LoginLabels { auth }).inc();
    }

    /// Counts a request whose client is not known.
    pub fn failed(&self, cause: &'static str) {
        self.failures.get_or_create(&FailureLabels { cause }).inc();
    }

    /// Counts a right that a client does not have.
    pub fn denied(&self, operation: &'static str, is_enforced: bool) {
        let enforced = if is_enforced { "true" } else { "false" };
        let labels = DenialLabels {
            operation,
            enforced,
        };
        self.denied.get_or_create(&labels).inc();
    }

    /// Counts a file of tokens that was read again.
    pub fn tokens_read(&self, is_taken: bool) {
        self.reloads.get_or_create(&reload(is_taken)).inc();
    }

    /// Returns how many files of tokens were not taken.
    #[cfg(test)]
    pub(crate) fn token_failures(&self) -> u64 {
        self.reloads.get_or_create(&reload(false)).get()
    }
}

fn reload(is_taken: bool) -> ReloadLabels {
    ReloadLabels {
        result: if is_taken { "success" } else { "failure" },
    }
}
