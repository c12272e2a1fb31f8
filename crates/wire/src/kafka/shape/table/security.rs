//! The shapes of requests about authentication and authorization: SASL, credentials, tokens, ACLs.
//!
//! Facts of the protocol, as in [`super`]. Not here: decoding.

use crate::kafka::shape::schema::{BLOB, Field, I8, I32, I64, TEXT, field, list};

pub(super) const SASL_HANDSHAKE: &[Field] = &[field("mechanism", TEXT)];

pub(super) const SASL_AUTHENTICATE: &[Field] = &[field("auth_bytes", BLOB)];

pub(super) const DESCRIBE_USER_SCRAM_CREDENTIALS: &[Field] =
    &[list("users", &[field("name", TEXT)])];

pub(super) const ALTER_USER_SCRAM_CREDENTIALS: &[Field] = &[
    list("deletions", &[field("name", TEXT), field("mechanism", I8)]),
    list(
        "upsertions",
        &[
            field("name", TEXT),
            field("mechanism", I8),
            field("iterations", I32),
            field("salt", BLOB),
            field("salted_password", BLOB),
        ],
    ),
];

/// A filter for ACLs: a whole request, and an element of another.
pub(super) const ACL_FILTER: &[Field] = &[
    field("resource_type_filter", I8),
    field("resource_name_filter", TEXT),
    field("pattern_type_filter", I8),
    field("principal_filter", TEXT),
    field("host_filter", TEXT),
    field("operation", I8),
    field("permission_type", I8),
];

pub(super) const CREATE_ACLS: &[Field] = &[list(
    "creations",
    &[
        field("resource_type", I8),
        field("resource_name", TEXT),
        field("resource_pattern_type", I8),
        field("principal", TEXT),
        field("host", TEXT),
        field("operation", I8),
        field("permission_type", I8),
    ],
)];

pub(super) const DELETE_ACLS: &[Field] = &[list("filters", ACL_FILTER)];

const PRINCIPAL: &[Field] = &[field("principal_type", TEXT), field("principal_name", TEXT)];

pub(super) const CREATE_DELEGATION_TOKEN: &[Field] = &[
    field("owner_principal_type", TEXT).since(3),
    field("owner_principal_name", TEXT).since(3),
    list("renewers", PRINCIPAL),
    field("max_lifetime_ms", I64),
];

/// A token and a time, for renewal or expiry of the token.
pub(super) const DELEGATION_TOKEN_TIME: &[Field] = &[field("hmac", BLOB), field("period_ms", I64)];

pub(super) const DESCRIBE_DELEGATION_TOKEN: &[Field] = &[list("owners", PRINCIPAL)];
