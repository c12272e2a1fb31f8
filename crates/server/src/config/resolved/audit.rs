//! What is audited, and where to.
//!
//! Invariant: no setting about the audit is passed over in silence. Not here: whether the file can
//! be written, and where links lead, which the start finds out.

use std::path::PathBuf;
use std::time::Duration;

use broker::audit::{AuditClass, AuditClasses};

use super::super::problem::{Problem, Warning};
use super::super::values::Values;
use super::directories::normal;
use super::{milliseconds, size};
use crate::audit::AuditSettings;

const PATH: &str = "audit.path";
const CLASSES: &str = "audit.classes";
const REQUIRED: &str = "audit.required";
/// The value of [`PATH`] for the log of the process.
const LOG: &str = "log";

/// The settings that have an effect only with [`PATH`].
const DEPENDENT: [&str; 7] = [
    CLASSES,
    "audit.file.bytes",
    "audit.files",
    "audit.file.mode",
    "audit.events.per.second",
    "audit.repeat.interval.ms",
    REQUIRED,
];

/// Returns what is audited; `None` if nothing is.
pub(super) fn resolve(
    values: &Values,
    owned: &[PathBuf],
    (warnings, problems): (&mut Vec<Warning>, &mut Vec<Problem>),
) -> Option<AuditSettings> {
    let path = values.string(PATH);
    let classes = AuditClasses::parse(values.list(CLASSES)).unwrap_or_else(|wrong| {
        let allowed = format!(
            "must be some of auth_failure, auth, denied, would_deny, admin, allowed:<operation>; \
             {:?} is none",
            wire::text::cut(wrong, 100)
        );
        problems.push(values.problem(CLASSES, allowed));
        AuditClasses::default()
    });
    let required = values.is(REQUIRED);
    if required && (path.is_empty() || path == LOG) {
        problems.push(values.problem(REQUIRED, "needs a file in audit.path"));
    }
    if required && !classes.has(AuditClass::Admin) {
        let wrong = "needs the class admin in audit.classes, or no change is written down";
        problems.push(values.problem(REQUIRED, wrong));
    }
    if path.is_empty() {
        for key in DEPENDENT {
            if let Some(entry) = values.entry(key) {
                let why = "audit.path is empty: nothing is written".to_owned();
                warnings.push(Warning::of(entry, why).seen_by_clients("set audit.path"));
            }
        }
        return None;
    }
    let file = (path != LOG).then(|| PathBuf::from(&path));
    if file.as_ref().is_some_and(|file| !file.is_absolute()) {
        problems.push(values.problem(PATH, "must be an absolute path, `log`, or empty"));
    }
    let written = file.as_deref().map(normal);
    let is_within = |dir: &&PathBuf| {
        written
            .as_ref()
            .is_some_and(|file| file.starts_with(normal(dir)))
    };
    if let Some(dir) = owned.iter().find(is_within) {
        // A file of a partition would be one to write to.
        let wrong = format!("must not be within {}, a directory of data", dir.display());
        problems.push(values.problem(PATH, wrong));
    }
    let mode = u32::from_str_radix(&values.string("audit.file.mode"), 8);
    Some(AuditSettings {
        classes,
        path: file,
        file_bytes: values.int("audit.file.bytes").unsigned_abs(),
        files: size(values.int("audit.files")),
        // The table takes no other modes.
        mode: mode.unwrap_or(0o600),
        per_second: size(values.int("audit.events.per.second")),
        repeat: repeat(values),
        required,
    })
}

fn repeat(values: &Values) -> Duration {
    milliseconds(values.int("audit.repeat.interval.ms"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use wire::acl::Operation;

    use super::super::tests::{check_refused, check_warned, settings};
    use super::AuditClass;

    #[test]
    fn nothing_is_audited_unless_a_path_is_set() {
        assert_eq!(settings("").audit, None);
        let found = settings("audit.path=/var/log/audit.log\n").audit.unwrap();
        assert_eq!(found.path.as_deref(), Some(Path::new("/var/log/audit.log")));
        assert_eq!(
            (found.mode, found.files, found.required),
            (0o600, 10, false)
        );
        let wanted = |class| found.classes.has(class);
        assert!(wanted(AuditClass::WouldDeny) && wanted(AuditClass::Admin));
        assert!(!wanted(AuditClass::Auth) && !wanted(AuditClass::Allowed));
        let text = "audit.path=log\naudit.classes=auth,allowed:write\naudit.file.mode=0640\n";
        let found = settings(text).audit.unwrap();
        assert_eq!((found.path, found.mode), (None, 0o640));
        assert!(found.classes.has_allowed(Operation::Write));
    }

    #[test]
    fn a_setting_that_cannot_mean_what_it_says_is_refused_or_warned_of() {
        check_refused(
            "audit.path=log\naudit.required=true\n",
            "server.properties:2: audit.required=true: needs a file in audit.path",
        );
        check_refused(
            "audit.path=/var/log/a\naudit.classes=denied\naudit.required=true\n",
            "server.properties:3: audit.required=true: needs the class admin in audit.classes, or \
             no change is written down",
        );
        check_refused(
            "log.dirs=/data/one,/data/two\naudit.path=/data/two/t-0/00000000000000000000.log\n",
            "server.properties:2: audit.path=/data/two/t-0/00000000000000000000.log: must not be \
             within /data/two, a directory of data",
        );
        for (dirs, path) in [
            ("log.dirs=/data/one", "/var/../data/one/a"),
            ("log.dirs=/data/x/../one", "/data/one/./a"),
            (
                "storage.tiers=a,b\nstorage.tier.a.paths=/a\nstorage.tier.b.paths=/data/one",
                "/data/one/a",
            ),
        ] {
            let lines = dirs.lines().count() + 1;
            let dir = if dirs.contains("..") {
                "/data/x/../one"
            } else {
                "/data/one"
            };
            check_refused(
                &format!("{dirs}\naudit.path={path}\n"),
                &format!(
                    "server.properties:{lines}: audit.path={path}: must not be within {dir}, a \
                     directory of data"
                ),
            );
        }
        check_refused(
            "audit.path=audit.log\n",
            "server.properties:1: audit.path=audit.log: must be an absolute path, `log`, or empty",
        );
        check_refused(
            "audit.path=log\naudit.classes=auth,logins\n",
            "server.properties:2: audit.classes=auth,logins: must be some of auth_failure, auth, \
             denied, would_deny, admin, allowed:<operation>; \"logins\" is none",
        );
        check_warned(
            "audit.files=3\n",
            &["server.properties:1: audit.files: audit.path is empty: nothing is written"],
        );
    }
}
