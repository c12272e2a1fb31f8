//! The classes of events, and the setting that chooses among them.
//!
//! Pure. The words are those of `audit.classes` and of the events themselves.

use wire::acl::Operation;

/// The word before an operation, for rights that clients have and use.
const ALLOWED: &str = "allowed:";

/// What an event is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AuditClass {
    /// A login that failed.
    AuthFailure,
    /// A login that succeeded.
    Auth,
    /// A right that a client asked for and does not have.
    Denied,
    /// A right that a client does not have and was given, because denials are only logged.
    WouldDeny,
    /// A right that a client has and asked for.
    Allowed,
    /// A change by an administrator.
    Admin,
}

impl AuditClass {
    /// All classes.
    pub const ALL: [Self; 6] = [
        Self::AuthFailure,
        Self::Auth,
        Self::Denied,
        Self::WouldDeny,
        Self::Allowed,
        Self::Admin,
    ];

    /// Returns the word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AuthFailure => "auth_failure",
            Self::Auth => "auth",
            Self::Denied => "denied",
            Self::WouldDeny => "would_deny",
            Self::Allowed => "allowed",
            Self::Admin => "admin",
        }
    }

    const fn bit(self) -> u8 {
        match self {
            Self::AuthFailure => 1,
            Self::Auth => 2,
            Self::Denied => 4,
            Self::WouldDeny => 8,
            Self::Allowed => 16,
            Self::Admin => 32,
        }
    }
}

/// The classes that an operator wants.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct AuditClasses {
    classes: u8,
    /// The operations of [`AuditClass::Allowed`], by their codes.
    allowed: u32,
}

impl AuditClasses {
    /// Reads the words of the setting; fails with the first word that is none.
    pub fn parse<'w>(words: impl IntoIterator<Item = &'w str>) -> Result<Self, &'w str> {
        let mut wanted = Self::default();
        for word in words {
            if let Some(operation) = word.strip_prefix(ALLOWED) {
                wanted.allow(Operation::parse(operation).ok_or(word)?);
                continue;
            }
            let mut all = AuditClass::ALL.into_iter();
            let class = all.find(|class| class.name() == word && *class != AuditClass::Allowed);
            wanted.classes |= class.ok_or(word)?.bit();
        }
        Ok(wanted)
    }

    fn allow(&mut self, operation: Operation) {
        self.classes |= AuditClass::Allowed.bit();
        let one = [operation];
        let operations = match operation {
            Operation::All => Operation::ALL,
            _ => &one,
        };
        for operation in operations {
            self.allowed |= bit(*operation);
        }
    }

    /// Returns true if the class is wanted.
    pub const fn has(self, class: AuditClass) -> bool {
        self.classes & class.bit() != 0
    }

    /// Returns true if uses of this right are wanted.
    pub const fn has_allowed(self, operation: Operation) -> bool {
        self.allowed & bit(operation) != 0
    }
}

const fn bit(operation: Operation) -> u32 {
    // The codes are below 31, which `wire::acl` asserts.
    1 << operation.code()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_the_setting_are_those_of_the_classes() {
        let words = ["auth_failure", "admin", "allowed:alter-configs"];
        let wanted = AuditClasses::parse(words).unwrap();
        for class in AuditClass::ALL {
            let is_wanted = matches!(
                class,
                AuditClass::AuthFailure | AuditClass::Admin | AuditClass::Allowed
            );
            assert_eq!(wanted.has(class), is_wanted, "{class:?}");
        }
        assert!(wanted.has_allowed(Operation::AlterConfigs));
        assert!(!wanted.has_allowed(Operation::Write));
        let all = AuditClasses::parse(["allowed:all"]).unwrap();
        assert!(Operation::ALL.iter().all(|one| all.has_allowed(*one)));
        for wrong in ["allowed", "allowed:", "allowed:fly", "Admin", ""] {
            assert_eq!(AuditClasses::parse(["auth", wrong]), Err(wrong));
        }
    }
}
