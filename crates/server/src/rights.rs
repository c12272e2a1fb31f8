//! What the metadata say of users and rights at one moment, for decisions outside of the shards.
//!
//! Immutable. Not here: decisions (`admin::access`), and how the metadata change (`broker`).

use std::sync::Arc;

use broker::image::{Acls, Image, ScramTable};

/// Users and rights.
#[derive(Clone, Debug)]
pub struct RightsImage {
    /// ACLs.
    pub acls: Arc<Acls>,
    /// Credentials of SCRAM users.
    pub users: Arc<ScramTable>,
}

impl RightsImage {
    /// Takes those of an image.
    pub fn of(image: &Image) -> Self {
        Self {
            acls: Arc::clone(image.acls()),
            users: Arc::clone(image.scram()),
        }
    }
}
