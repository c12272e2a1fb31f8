//! Settings of config providers: values that are in files or in the environment.

use super::{ConfigKind, Key};

pub(super) const KEYS: &[Key] = &[
    Key::list("config.providers", "").doc(
        "Names of config providers, which put values in the place of references in other settings: \
         `${file:/run/secrets/tls.properties:password}` of one that is called `file`, \
         `${env:NAME}`, `${directory:/run/secrets:password}`. A reference that leads nowhere refuses \
         the start. Values that clients set while the broker runs are taken as they are.",
    ),
    Key::of("config.providers.<name>.class", ConfigKind::Class, "").unset().doc(
        "Where the provider of that name looks, as Kafka's classes do: \
         `org.apache.kafka.common.config.provider.FileConfigProvider` (a file of properties), \
         `..DirectoryConfigProvider` (a file for each key) or `..EnvVarConfigProvider` (the \
         environment). Other classes cannot be loaded.",
    ),
    Key::list("config.providers.<name>.param.allowed.paths", "").unset().doc(
        "Absolute paths of what a provider of files or directories may read, with all below them. \
         Unset: everything that the process may read.",
    ),
    Key::string("config.providers.<name>.param.allowlist.pattern", "").unset().doc(
        "Regular expression for whole names of variables that a provider of the environment may \
         read. Unset: all.",
    ),
];
