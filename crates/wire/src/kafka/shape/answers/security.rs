//! The shapes of answers about logins, ACLs, tokens and credentials.

use crate::kafka::shape::schema::{BLOB, Field, I8, I16, I32, I64, TEXT, each, field, list};

pub(super) const SASL_HANDSHAKE: &[Field] = &[field("error_code", I16), each("mechanisms", &TEXT)];

pub(super) const SASL_AUTHENTICATE: &[Field] = &[
    field("error_code", I16),
    field("error_message", TEXT),
    field("auth_bytes", BLOB),
    field("session_lifetime_ms", I64).since(1),
];

pub(super) const DESCRIBE_ACLS: &[Field] = &[
    field("throttle_time_ms", I32),
    field("error_code", I16),
    field("error_message", TEXT),
    list(
        "resources",
        &[
            field("resource_type", I8),
            field("resource_name", TEXT),
            field("pattern_type", I8),
            list(
                "acls",
                &[
                    field("principal", TEXT),
                    field("host", TEXT),
                    field("operation", I8),
                    field("permission_type", I8),
                ],
            ),
        ],
    ),
];

pub(super) const CREATE_ACLS: &[Field] = &[
    field("throttle_time_ms", I32),
    list(
        "results",
        &[field("error_code", I16), field("error_message", TEXT)],
    ),
];

pub(super) const DELETE_ACLS: &[Field] = &[
    field("throttle_time_ms", I32),
    list(
        "filter_results",
        &[
            field("error_code", I16),
            field("error_message", TEXT),
            list(
                "matching_acls",
                &[
                    field("error_code", I16),
                    field("error_message", TEXT),
                    field("resource_type", I8),
                    field("resource_name", TEXT),
                    field("pattern_type", I8),
                    field("principal", TEXT),
                    field("host", TEXT),
                    field("operation", I8),
                    field("permission_type", I8),
                ],
            ),
        ],
    ),
];

pub(super) const CREATE_DELEGATION_TOKEN: &[Field] = &[
    field("error_code", I16),
    field("principal_type", TEXT),
    field("principal_name", TEXT),
    field("token_requester_principal_type", TEXT).since(3),
    field("token_requester_principal_name", TEXT).since(3),
    field("issue_timestamp_ms", I64),
    field("expiry_timestamp_ms", I64),
    field("max_timestamp_ms", I64),
    field("token_id", TEXT),
    field("hmac", BLOB),
    field("throttle_time_ms", I32),
];

pub(super) const RENEW_DELEGATION_TOKEN: &[Field] = &[
    field("error_code", I16),
    field("expiry_timestamp_ms", I64),
    field("throttle_time_ms", I32),
];

pub(super) const EXPIRE_DELEGATION_TOKEN: &[Field] = &[
    field("error_code", I16),
    field("expiry_timestamp_ms", I64),
    field("throttle_time_ms", I32),
];

pub(super) const DESCRIBE_DELEGATION_TOKEN: &[Field] = &[
    field("error_code", I16),
    list(
        "tokens",
        &[
            field("principal_type", TEXT),
            field("principal_name", TEXT),
            field("token_requester_principal_type", TEXT).since(3),
            field("token_requester_principal_name", TEXT).since(3),
            field("issue_timestamp", I64),
            field("expiry_timestamp", I64),
            field("max_timestamp", I64),
            field("token_id", TEXT),
            field("hmac", BLOB),
            list(
                "renewers",
                &[field("principal_type", TEXT), field("principal_name", TEXT)],
            ),
        ],
    ),
    field("throttle_time_ms", I32),
];

pub(super) const DESCRIBE_USER_SCRAM_CREDENTIALS: &[Field] = &[
    field("throttle_time_ms", I32),
    field("error_code", I16),
    field("error_message", TEXT),
    list(
        "results",
        &[
            field("user", TEXT),
            field("error_code", I16),
            field("error_message", TEXT),
            list(
                "credential_infos",
                &[field("mechanism", I8), field("iterations", I32)],
            ),
        ],
    ),
];

pub(super) const ALTER_USER_SCRAM_CREDENTIALS: &[Field] = &[
    field("throttle_time_ms", I32),
    list(
        "results",
        &[
            field("user", TEXT),
            field("error_code", I16),
            field("error_message", TEXT),
        ],
    ),
];
