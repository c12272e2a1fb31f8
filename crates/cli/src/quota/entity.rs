//! Who a quota is for: a user, a client id, both together, or an address; by name or the default.
//!
//! Which combinations there are is up to the broker.

use anyhow::bail;
use clap::{Args, ValueEnum};
use serde::Serialize;

/// The types of entities.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum)]
pub(super) enum Kind {
    User,
    ClientId,
    Ip,
}

impl Kind {
    /// Returns the type as the protocol writes it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::ClientId => "client-id",
            Self::Ip => "ip",
        }
    }
}

/// Entities on a command line.
#[derive(Default, Debug, Args)]
pub(super) struct Entity {
    /// A user.
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// A client id.
    #[arg(long, value_name = "ID")]
    client_id: Option<String>,
    /// An address that clients connect from.
    #[arg(long, value_name = "ADDRESS")]
    ip: Option<String>,
    /// The default of a type: of those without a quota of their own; can be given many times.
    #[arg(long, value_enum, value_name = "TYPE")]
    default: Vec<Kind>,
}

impl Entity {
    /// Returns the types that are named, each with its name, or `None` for the default.
    pub(super) fn parts(&self) -> anyhow::Result<Vec<(Kind, Option<&str>)>> {
        let named = [
            (Kind::User, &self.user),
            (Kind::ClientId, &self.client_id),
            (Kind::Ip, &self.ip),
        ];
        let mut parts: Vec<(Kind, Option<&str>)> = Vec::new();
        for (kind, name) in named {
            parts.extend(name.as_deref().map(|name| (kind, Some(name))));
        }
        for &kind in &self.default {
            if parts.iter().any(|(other, _)| *other == kind) {
                let name = kind.name();
                bail!("--default {name}: an entity has one {name}");
            }
            parts.push((kind, None));
        }
        Ok(parts)
    }
}

/// A part of an entity in an answer.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub(super) struct Part {
    #[serde(rename = "type")]
    pub(super) kind: String,
    /// `None` is the default.
    pub(super) name: Option<String>,
}

/// Returns an entity as a table shows it.
pub(super) fn shown(parts: &[Part]) -> String {
    let parts = parts.iter().map(|part| match &part.name {
        Some(name) => format!("{}={name}", part.kind),
        None => format!("{} (default)", part.kind),
    });
    parts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entity_has_at_most_one_of_each_type() {
        let entity = Entity {
            client_id: Some("app".into()),
            default: vec![Kind::User],
            ..Entity::default()
        };
        let parts = entity.parts().unwrap();
        assert_eq!(parts, [(Kind::ClientId, Some("app")), (Kind::User, None)]);
        for default in [vec![Kind::ClientId], vec![Kind::Ip, Kind::Ip]] {
            let client_id = Some("app".into());
            let entity = Entity {
                client_id,
                default,
                ..Entity::default()
            };
            assert!(entity.parts().is_err(), "{entity:?}");
        }
    }

    #[test]
    fn a_default_is_told_from_a_name() {
        let part = |kind: &str, name: Option<&str>| Part {
            kind: kind.into(),
            name: name.map(str::to_owned),
        };
        let entity = [part("user", None), part("client-id", Some("app"))];
        assert_eq!(shown(&entity), "user (default), client-id=app");
    }
}
