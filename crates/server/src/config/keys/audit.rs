//! Settings of the audit file. None of them is Kafka's, which has two loggers instead.

use super::Key;

pub(super) const KEYS: &[Key] = &[
    Key::string("audit.path", "").ours().doc(
        "File of audit lines (docs/audit.md), one JSON object each: who logged in or failed to, what \
         was denied, what administrators changed. `log`: they go to the log of the process, under \
         the target `audit`. Empty: nothing is written.",
    ),
    Key::list("audit.classes", "auth_failure,denied,would_deny,admin")
        .ours()
        .doc(
            "What is written: `auth_failure` and `auth` (logins), `denied` (rights that clients lack), \
             `would_deny` (the same with authorizer.mode=log), `admin` (changes by administrators), \
             and `allowed:<operation>` (rights that clients have and use, such as `allowed:write`).",
        ),
    Key::long("audit.file.bytes", "67108864")
        .min(65536)
        .ours()
        .doc("Size at which audit.path is renamed to `<path>.1`, and a new file is begun."),
    Key::int("audit.files", "10")
        .range(2, 1000)
        .ours()
        .doc("Audit files that are kept, audit.path included; beyond them the oldest goes."),
    Key::string("audit.file.mode", "0600")
        .one_of(&["0600", "0640"])
        .ours()
        .doc("Mode of audit files: 0640 lets the group of the process read them."),
    Key::int("audit.events.per.second", "1000")
        .range(1, 10_000)
        .ours()
        .doc(
            "New audit lines of each class in a second; an address has a quarter of them. What is \
             beyond is counted. Changes by administrators have no such bound.",
        ),
    Key::long("audit.repeat.interval.ms", "60000")
        .range(1000, 86_400_000)
        .ours()
        .doc(
            "A right that the same principal asks for on the same resource from the same address has \
             one line in this time, with how often it did.",
        ),
    Key::boolean("audit.required", "false").ours().doc(
        "Whether a start needs the audit file, and changes of the metadata are refused \
         (POLICY_VIOLATION) while it cannot be written. Needs a file in audit.path.",
    ),
];
