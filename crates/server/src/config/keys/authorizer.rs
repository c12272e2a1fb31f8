//! Settings of who may do what. The ACLs themselves are metadata.

use super::Key;

/// The one class that there is.
const STANDARD: &str = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";

pub(super) const KEYS: &[Key] = &[
    Key::string("authorizer.class.name", "")
        .one_of(&["", STANDARD])
        .doc(
            "Class that decides who may do what: Kafka's own, by the ACLs in the metadata. Empty: \
             every client may do everything.",
        ),
    Key::string("super.users", "").doc(
        "Principals that may do everything whatever ACLs there are, with semicolons between them: \
         `User:ada;User:bob`. Only with an authorizer.",
    ),
    Key::boolean("allow.everyone.if.no.acl.found", "false").doc(
        "Whether every client may do everything with a resource that no ACL is about. Only with an \
         authorizer.",
    ),
    Key::string("authorizer.mode", "enforce")
        .one_of(&["enforce", "log"])
        .ours()
        .doc(
            "What follows when a client may not do what it asks for: `enforce` refuses it, `log` \
             does it, and counts and logs that it would be refused. Only with an authorizer.",
        ),
];
