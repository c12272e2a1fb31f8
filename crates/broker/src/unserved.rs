//! What metadata hold that this broker keeps for the way back to Kafka, and neither serves nor
//! enforces as Kafka does: ACLs, users, settings of logins, share groups, replicas on other
//! brokers, remote storage.
//!
//! Whether ACLs and users are among it follows from the settings ([`EnforcedMetadata`]). A start
//! logs each of them once, and `forebay config check --data` shows them. Pure: from an image to
//! findings. Not here: groups in `__consumer_offsets` (`group::unserved`), and settings whose text
//! cannot be read (`unread_settings`).

use wire::acl::{AclBinding, PermissionType, UnplacedAcl, unlike_kafka};
use wire::records::offsets::UnservedKind;
use wire::text::cut;
use wire::types::NodeId;

use crate::image::{Image, PartitionImage, ResourceType};
use crate::listener_stores::store_setting_of;
use crate::names::{SHARE_STATE_TOPIC, SUPPORTED_FEATURES};
use crate::options::EnforcedMetadata;
use crate::topic_config::is_of_security;

/// Longest example, in bytes: its name may be long.
const EXAMPLE_BYTES_MAX: usize = 100;

/// One thing that is kept, and neither served nor enforced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnservedItem {
    /// Its name for programs.
    pub kind: &'static str,
    /// What clients notice.
    pub what: &'static str,
    /// What an operator does about it.
    pub advice: &'static str,
    /// How many there are, at least one.
    pub count: usize,
    /// True if there are more than were counted.
    pub is_cut: bool,
    /// One of them, by its name as stored; the beginning, if it is long.
    pub example: String,
}

/// Returns what the metadata hold and node `node` neither serves nor enforces.
pub fn unserved(image: &Image, node: NodeId, enforced: EnforcedMetadata) -> Vec<UnservedItem> {
    let all = [
        acls(image).filter(|_| !enforced.acls),
        unknown_acls(image).filter(|_| enforced.acls),
        other_hosts(image).filter(|_| enforced.acls),
        users(image).filter(|_| !enforced.users),
        logins(image, node),
        share_groups(image),
        remote_topics(image),
        replicas_elsewhere(image, node),
        partitions_elsewhere(image, node),
    ];
    all.into_iter().flatten().collect()
}

/// Returns the finalized features that this broker does not know, with their levels.
///
/// It keeps them, and does not tell clients of them. Kafka sets some of them for every new cluster,
/// so they are no sign that anybody uses what they stand for.
pub fn unknown_features(image: &Image) -> Vec<(&str, i16)> {
    let is_known = |name: &str| SUPPORTED_FEATURES.iter().any(|(known, ..)| *known == name);
    let features = image.features().iter();
    let unknown = features.filter(|(name, _)| !is_known(name));
    unknown
        .map(|(name, level)| (name.as_str(), *level))
        .collect()
}

/// One of the ACLs, as far as it is understood.
enum SomeAcl<'a> {
    Placed(&'a AclBinding),
    Unplaced(UnplacedAcl),
}

fn acls(image: &Image) -> Option<UnservedItem> {
    let acls = image.acls();
    let placed = acls.iter().map(|(_, acl)| SomeAcl::Placed(acl));
    let unplaced = acls.unplaced().map(|(_, acl)| SomeAcl::Unplaced(acl));
    found(
        "acls",
        "ACLs are kept and not enforced: every client may do everything",
        "set authorizer.class.name to enforce them, or let nobody else reach the port \
         (docs/security-now.md)",
        placed.chain(unplaced),
        |acl| match acl {
            SomeAcl::Placed(acl) => {
                let does = match acl.effect() {
                    PermissionType::Allow => "allowed",
                    PermissionType::Deny => "denied",
                };
                format!("{} {does} on {}", acl.principal, acl.pattern.name)
            }
            SomeAcl::Unplaced(acl) => acl.to_string(),
        },
    )
}

fn unknown_acls(image: &Image) -> Option<UnservedItem> {
    let acls = image.acls().iter().map(|(_, acl)| acl);
    found(
        "acls-not-understood",
        "ACLs hold something that is not known here: a permission that is not known forbids, an \
         operation that is not known is none that clients ask for, and a principal without colon \
         is nobody",
        "delete those that nobody needs (docs/security-now.md)",
        acls.filter(|acl| !acl.is_understood()),
        ToString::to_string,
    )
}

fn other_hosts(image: &Image) -> Option<UnservedItem> {
    let acls = image.acls().iter().map(|(_, acl)| &**acl);
    found(
        "acls-unlike-kafka",
        "ACLs permit something to other clients than in Kafka, because hosts are compared as \
         addresses",
        "write addresses of IPv6 as Kafka does, without :: (docs/security-now.md)",
        unlike_kafka(acls),
        |(acl, _)| acl.to_string(),
    )
}

fn users(image: &Image) -> Option<UnservedItem> {
    let mut names: Vec<&str> = image
        .scram()
        .keys()
        .map(|(name, _)| name.as_str())
        .collect();
    names.dedup();
    found(
        "users",
        "users are kept and nobody is asked for a password: every client is ANONYMOUS",
        "let nobody else reach the port (docs/security-now.md)",
        names.into_iter(),
        str::to_owned,
    )
}

/// Settings by which a Kafka would log clients in, or encrypt, whatever its file says.
fn logins(image: &Image, node: NodeId) -> Option<UnservedItem> {
    let node = node.0.to_string();
    let of = |resource: &str| image.settings(ResourceType::BROKER, resource);
    let set = of(&node).into_iter().chain(of("")).flatten();
    found(
        "login-settings",
        "settings of logins and TLS in the metadata are not heeded: those of the file hold, with its \
         passwords and keys",
        "write them into the file, and delete them from the metadata (kafka-configs.sh --delete-config)",
        set.map(|(name, _)| name)
            .filter(|name| is_of_security(name) && store_setting_of(name).is_none()),
        // Not the value, which may be a secret.
        String::clone,
    )
}

fn share_groups(image: &Image) -> Option<UnservedItem> {
    let is_share = |group: &&str| {
        let settings = image.settings(ResourceType::GROUP, group);
        settings.is_some_and(|settings| settings.keys().any(|key| key.starts_with("share.")))
    };
    let state = image.topic_by_name(SHARE_STATE_TOPIC);
    let state = state.map(|topic| ("topic", topic.name.as_ref()));
    let configured = image.configured(ResourceType::GROUP).filter(is_share);
    let signs = configured.map(|group| ("group", group)).chain(state);
    groups(UnservedKind::Share, signs, |(sort, name)| {
        format!("{sort} {name}")
    })
}

/// Returns what there is to say about groups of a kind that is not served; `signs` are what shows
/// that there are some, and `words` describes one.
pub fn groups<T>(
    kind: UnservedKind,
    signs: impl Iterator<Item = T>,
    words: impl FnOnce(T) -> String,
) -> Option<UnservedItem> {
    match kind {
        UnservedKind::Share => found(
            "share-groups",
            "share groups were used and are not served: their consumers are refused",
            "move their consumers to consumer groups; where they were is kept for Kafka",
            signs,
            words,
        ),
        UnservedKind::Streams => found(
            "streams-groups",
            "streams groups were used and are not served: their members are refused",
            "let Kafka Streams use classic groups (group.protocol=classic); where they were is kept for Kafka",
            signs,
            words,
        ),
    }
}

fn remote_topics(image: &Image) -> Option<UnservedItem> {
    let is_remote = |topic: &&str| {
        let value = image.setting(ResourceType::TOPIC, topic, "remote.storage.enable");
        value.is_some_and(|value| value.trim().eq_ignore_ascii_case("true"))
    };
    found(
        "remote-storage",
        "topics have records in remote storage, which are not served: only what is in log.dirs is",
        "read what is still needed of them while Kafka serves it",
        image.configured(ResourceType::TOPIC).filter(is_remote),
        str::to_owned,
    )
}

fn replicas_elsewhere(image: &Image, node: NodeId) -> Option<UnservedItem> {
    let has_others = |partition: &PartitionImage| {
        partition.replicas.contains(&node.0) && partition.replicas.len() > 1
    };
    found(
        "other-replicas",
        "partitions have replicas on other brokers: this one serves its own alone, and copies nothing to them",
        "give each topic one replica, on this broker, before the move (docs/moving-from-kafka.md)",
        partitions(image, has_others),
        partition_name,
    )
}

fn partitions_elsewhere(image: &Image, node: NodeId) -> Option<UnservedItem> {
    let is_elsewhere = |partition: &PartitionImage| !partition.replicas.contains(&node.0);
    found(
        "not-here",
        "partitions have no replica on this broker: they are not served",
        "move a replica here before the move (docs/moving-from-kafka.md), or delete the topics",
        partitions(image, is_elsewhere),
        partition_name,
    )
}

/// Returns the partitions for which `is_one` holds, each as its topic and its index.
fn partitions<'a>(
    image: &'a Image,
    is_one: impl Fn(&PartitionImage) -> bool + Copy + 'a,
) -> impl Iterator<Item = (&'a str, i32)> + 'a {
    image.topics().flat_map(move |topic| {
        let partitions = topic.partitions.iter();
        let those = partitions.filter(move |(_, partition)| is_one(partition));
        those.map(move |(index, _)| (topic.name.as_ref(), *index))
    })
}

fn partition_name((topic, index): (&str, i32)) -> String {
    format!("{topic}-{index}")
}

/// Counts what there is, and describes the first of it in `words`; `None` for nothing.
fn found<T>(
    kind: &'static str,
    what: &'static str,
    advice: &'static str,
    mut all: impl Iterator<Item = T>,
    words: impl FnOnce(T) -> String,
) -> Option<UnservedItem> {
    let example = words(all.next()?);
    let begins = cut(&example, EXAMPLE_BYTES_MAX);
    Some(UnservedItem {
        kind,
        what,
        advice,
        count: all.count().saturating_add(1),
        is_cut: false,
        example: if begins.len() < example.len() {
            format!("{begins}...")
        } else {
            example
        },
    })
}

#[cfg(test)]
mod tests;
