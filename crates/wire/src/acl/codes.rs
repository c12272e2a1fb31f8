//! The numbered values of ACLs: types of resources, types of patterns, operations, permissions.
//!
//! Each has Kafka's code and Kafka's name. Kafka numbers three more: UNKNOWN is 0, ANY is 1 and
//! MATCH is 2 for patterns. Those are no values here, because no ACL should hold them: `acl/raw.rs`
//! turns their codes into filters or errors. Stored ACLs of later releases may hold other codes
//! ([`StoredCode`]).

use std::fmt;

/// The code of ANY, for all four.
pub(super) const ANY: i8 = 1;

macro_rules! coded {
    ($(
        $(#[$meta:meta])*
        $name:ident {
            $($(#[$value_meta:meta])* $value:ident = $code:literal $text:literal;)*
        }
    )*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $name {
            $($(#[$value_meta])* $value,)*
        }

        const _: () = {
            $(assert!(
                $code > ANY && $code < i32::BITS - 1,
                "a code stands for something definite, and can be a bit of authorized operations"
            );)*
        };

        impl $name {
            /// All values, in the order of their codes.
            pub const ALL: &[Self] = &[$(Self::$value,)*];

            /// Returns Kafka's code.
            pub const fn code(self) -> i8 {
                match self {
                    $(Self::$value => $code,)*
                }
            }

            /// Returns the value with this code; `None` for an unknown one, and for ANY and MATCH.
            pub const fn from_code(code: i8) -> Option<Self> {
                match code {
                    $($code => Some(Self::$value),)*
                    _ => None,
                }
            }

            /// Returns Kafka's name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $text,)*
                }
            }

            /// Reads a name: `DESCRIBE_CONFIGS`, `DescribeConfigs` and `describe-configs` are the
            /// same.
            pub fn parse(text: &str) -> Option<Self> {
                let mut all = Self::ALL.iter();
                all.find(|value| squeezed(value.name()).eq(squeezed(text))).copied()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.pad(self.name())
            }
        }

        impl StoredCode<$name> {
            /// Reads a stored code; every code is one.
            pub const fn from_code(code: i8) -> Self {
                match $name::from_code(code) {
                    Some(value) => Self::Known(value),
                    None => Self::Unknown(code),
                }
            }

            /// Returns the code, as it was stored.
            pub const fn code(self) -> i8 {
                match self {
                    Self::Known(value) => value.code(),
                    Self::Unknown(code) => code,
                }
            }
        }

        impl fmt::Display for StoredCode<$name> {
            fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    Self::Known(value) => value.fmt(to),
                    Self::Unknown(code) => write!(to, "UNKNOWN({code})"),
                }
            }
        }
    )*};
}

/// What the code in a stored ACL stands for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum StoredCode<T> {
    /// This.
    Known(T),
    /// Nothing that this release knows: a value of a later release, or UNKNOWN or ANY, which no
    /// request of a client can store.
    Unknown(i8),
}

impl<T: Copy + PartialEq> StoredCode<T> {
    /// Returns what the code stands for, if that is known.
    pub fn known(self) -> Option<T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Unknown(_) => None,
        }
    }

    /// Returns true when the code stands for `value`.
    pub fn is(self, value: T) -> bool {
        self.known() == Some(value)
    }
}

impl<T> From<T> for StoredCode<T> {
    fn from(value: T) -> Self {
        Self::Known(value)
    }
}

coded! {
    /// What an ACL protects.
    ResourceType {
        /// A topic, by name.
        Topic = 2 "TOPIC";
        /// A group, by its id.
        Group = 3 "GROUP";
        /// The cluster, whose name is [`super::CLUSTER_NAME`].
        Cluster = 4 "CLUSTER";
        /// A transactional id.
        TransactionalId = 5 "TRANSACTIONAL_ID";
        /// A delegation token, by its id.
        DelegationToken = 6 "DELEGATION_TOKEN";
        /// A user, as `type:name`, for whom others ask for tokens.
        User = 7 "USER";
    }

    /// How the name of an ACL is compared with the name of a resource.
    PatternType {
        /// It is the name; `*` is every name.
        Literal = 3 "LITERAL";
        /// The resource's name begins with it.
        Prefixed = 4 "PREFIXED";
    }

    /// What a client does with a resource.
    Operation {
        /// Every operation.
        All = 2 "ALL";
        /// Read records, or offsets of a group.
        Read = 3 "READ";
        /// Write records.
        Write = 4 "WRITE";
        /// Create it.
        Create = 5 "CREATE";
        /// Delete it, or records of it.
        Delete = 6 "DELETE";
        /// Change it.
        Alter = 7 "ALTER";
        /// See that it exists, and what it is.
        Describe = 8 "DESCRIBE";
        /// Requests between brokers.
        ClusterAction = 9 "CLUSTER_ACTION";
        /// See its settings.
        DescribeConfigs = 10 "DESCRIBE_CONFIGS";
        /// Change its settings.
        AlterConfigs = 11 "ALTER_CONFIGS";
        /// Write with an idempotent producer.
        IdempotentWrite = 12 "IDEMPOTENT_WRITE";
        /// Make tokens for a user.
        CreateTokens = 13 "CREATE_TOKENS";
        /// See tokens of a user.
        DescribeTokens = 14 "DESCRIBE_TOKENS";
        /// Take part in a transaction that others coordinate.
        TwoPhaseCommit = 15 "TWO_PHASE_COMMIT";
    }

    /// Whether an ACL permits or forbids.
    PermissionType {
        /// It forbids, whatever permits.
        Deny = 2 "DENY";
        /// It permits.
        Allow = 3 "ALLOW";
    }
}

/// Returns the letters of a name, without the marks between its words.
fn squeezed(name: &str) -> impl Iterator<Item = char> {
    let letters = name.chars().filter(|letter| !matches!(letter, '_' | '-'));
    letters.map(|letter| letter.to_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_are_those_of_kafka() {
        let operations: Vec<(i8, &str)> = Operation::ALL
            .iter()
            .map(|operation| (operation.code(), operation.name()))
            .collect();
        let expected = [
            "ALL",
            "READ",
            "WRITE",
            "CREATE",
            "DELETE",
            "ALTER",
            "DESCRIBE",
            "CLUSTER_ACTION",
            "DESCRIBE_CONFIGS",
            "ALTER_CONFIGS",
            "IDEMPOTENT_WRITE",
            "CREATE_TOKENS",
            "DESCRIBE_TOKENS",
            "TWO_PHASE_COMMIT",
        ];
        assert_eq!(operations, (2..).zip(expected).collect::<Vec<_>>());
        assert_eq!(ResourceType::TransactionalId.code(), 5);
        assert_eq!(ResourceType::User.code(), 7);
        assert_eq!(PatternType::Literal.code(), 3);
        assert_eq!(PermissionType::Deny.code(), 2);
    }

    #[test]
    fn every_code_and_every_name_is_read_back() {
        for code in i8::MIN..=i8::MAX {
            if let Some(operation) = Operation::from_code(code) {
                assert_eq!(operation.code(), code);
                assert_eq!(Operation::parse(&operation.to_string()), Some(operation));
            }
            if let Some(resource) = ResourceType::from_code(code) {
                assert_eq!(resource.code(), code);
                assert_eq!(ResourceType::parse(resource.name()), Some(resource));
            }
        }
        // UNKNOWN, ANY, and MATCH of patterns.
        assert_eq!(Operation::from_code(0), None);
        assert_eq!(ResourceType::from_code(1), None);
        assert_eq!(PatternType::from_code(2), None);
    }

    #[test]
    fn a_stored_code_stays_what_it_is() {
        for code in i8::MIN..=i8::MAX {
            let operation = StoredCode::<Operation>::from_code(code);
            assert_eq!(operation.code(), code);
            assert_eq!(operation.known(), Operation::from_code(code));
        }
        let read = StoredCode::<Operation>::from_code(3);
        assert!(read.is(Operation::Read) && read == Operation::Read.into());
        assert_eq!(read.to_string(), "READ");
        let later = StoredCode::<PermissionType>::from_code(9);
        assert_eq!(later.to_string(), "UNKNOWN(9)");
    }

    #[test]
    fn names_are_read_as_people_write_them() {
        for text in ["IDEMPOTENT_WRITE", "IdempotentWrite", "idempotent-write"] {
            assert_eq!(Operation::parse(text), Some(Operation::IdempotentWrite));
        }
        assert_eq!(
            ResourceType::parse("TransactionalId"),
            Some(ResourceType::TransactionalId)
        );
        for text in ["", "any", "UNKNOWN", "writ", "READ "] {
            assert_eq!(Operation::parse(text), None, "{text}");
        }
    }
}
