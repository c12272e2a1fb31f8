//! What a client connects with.

use std::fmt;
use std::sync::Arc;

use rustls::ClientConfig;

use crate::problem::{Opened, TlsProblem};
use crate::settings::ClientTlsSettings;

/// Trusted certificates of a client, and its own key if it has one, as one set that never changes.
pub struct ClientTls {
    config: Arc<ClientConfig>,
}

impl ClientTls {
    /// Opens the stores and checks that they fit. Reads files, so it blocks.
    pub fn open(settings: &ClientTlsSettings) -> Result<Opened<Self>, TlsProblem> {
        let _ = settings;
        Err(TlsProblem {
            setting: "security.protocol".into(),
            file: None,
            why: "TLS is not there yet".into(),
            advice: "use PLAINTEXT".into(),
        })
    }

    /// Returns the configuration for `rustls::ClientConnection::new`.
    pub fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.config)
    }
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("ClientTls").finish_non_exhaustive()
    }
}
