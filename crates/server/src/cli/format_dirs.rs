//! `forebay format`: formats the log directories of a new node, as `kafka-storage.sh format` does,
//! with the first users of SCRAM.
//!
//! The first user could else be made only through a listener that asks for no login. Users are in
//! `bootstrap.checkpoint`, with which the first start begins the metadata log. Invariants: a
//! directory in which something is stays as it is, and none is formatted beside it; the files that
//! make directories formatted are written last. Not here: new disks beside formatted ones
//! (`serve --format-new-log-dirs`).

use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use broker::controller::offline;
use clap::Args;
use platform::lock::{DirLock, LOCK_FILE};
use platform::os::random_bytes;
use storage::checkpoint::meta_properties::{self, MetaProperties};
use wire::sasl::scram::{Credential, ITERATIONS_MIN, ScramHash, salt};
use wire::sasl::{Mechanism, Secret, check_user};
use wire::text::EscapedText;
use wire::types::{NodeId, TimestampMs, Uuid, uuid_to_base64};

use super::metadata::{sync_dir, write};
use crate::config::{ResolvedSettings, Settings};
use crate::machine::Machine;
use crate::wall::wall_ms;

/// Names that an empty directory may have: what file systems and this command leave.
const EMPTY_HAS: [&str; 3] = [LOCK_FILE, "lost+found", "bootstrap.checkpoint"];

/// Of a node that is not told another, as at a first start.
const NODE_ID: i32 = 1;

/// Arguments of `forebay format`.
#[derive(Debug, Args)]
pub(super) struct FormatArgs {
    /// File with settings, in Kafka's server.properties syntax: log.dirs, node.id, cluster.id.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Id of the new cluster [default: cluster.id, else a new one].
    #[arg(long, short = 't', value_name = "ID")]
    cluster_id: Option<String>,
    /// A first user, such as SCRAM-SHA-512=[name=root,password-file=FILE], with iterations=N or
    /// salt=BASE64 if wanted, or with saltedpassword=BASE64 instead of a file. The file - is
    /// standard input; can be given many times.
    #[arg(long, value_name = "USER")]
    add_scram: Vec<String>,
    /// Settings; they override the environment and the file.
    #[arg(value_name = "KEY=VALUE")]
    settings: Vec<String>,
}

impl FormatArgs {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let raw = super::raw_of(self.config.as_deref(), &self.settings)?;
        // The start warns of what it will run with.
        let ResolvedSettings { settings, .. } =
            Settings::resolve(&raw, &Machine::read()).map_err(|found| super::wrong(&found))?;
        let users = self.add_scram.iter().map(|text| user_of(text));
        let users = users.collect::<anyhow::Result<Vec<_>>>()?;
        let cluster_id = self.cluster_id.clone().or(settings.cluster_id);
        let cluster_id = cluster_id.unwrap_or_else(|| uuid_to_base64(random_id()));
        ensure!(!cluster_id.is_empty(), "the id of a cluster is not empty");
        let node_id = NodeId(settings.node_id.unwrap_or(NODE_ID));
        let dirs = &settings.log_dirs;
        let mut locks = Vec::new();
        for dir in dirs {
            platform::os::create_dir(dir).with_context(|| format!("creating {}", dir.display()))?;
            locks.push(DirLock::acquire(dir)?);
            check_empty(dir)?;
        }
        // Where a start makes the metadata log of a new node.
        let home = dirs.first().context("log.dirs names no directory")?;
        let (name, bytes) = offline::first_users(&users)?;
        write(&home.join(name), &bytes)?;
        sync_dir(home)?;
        let mut text = String::new();
        // The one with the users last: without its identity none of the others is taken for that
        // of a node that has been started.
        for dir in dirs.iter().rev() {
            let meta = MetaProperties {
                cluster_id: cluster_id.clone(),
                node_id,
                directory_id: Some(random_id()),
                journal: None,
            };
            let bytes = meta_properties::encode(&meta, TimestampMs(wall_ms()));
            write(&dir.join(meta_properties::FILE), &bytes)?;
            sync_dir(dir)?;
            let (cluster_id, node) = (EscapedText(&cluster_id), node_id.0);
            let dir = dir.display();
            let _ = writeln!(text, "{dir}: formatted for node {node} of {cluster_id}");
        }
        for (user, credential) in &users {
            let mechanism = Mechanism::Scram(credential.hash()).name();
            let _ = writeln!(text, "user {}: {mechanism}", EscapedText(user));
        }
        super::print(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Refuses a directory in which something is.
fn check_empty(dir: &Path) -> anyhow::Result<()> {
    let shown = dir.display();
    match fs::symlink_metadata(dir.join(meta_properties::FILE)) {
        Ok(_) => bail!(
            "{shown} is formatted already; `forebay user set NAME --data-dir {shown}` sets the \
             password of a user there"
        ),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("reading {shown}")),
    }
    let listed = fs::read_dir(dir).with_context(|| format!("reading {shown}"))?;
    for entry in listed {
        let name = entry
            .with_context(|| format!("reading {shown}"))?
            .file_name();
        let is_known = EMPTY_HAS.iter().any(|known| name == *known);
        let name = name.to_string_lossy();
        ensure!(is_known, "{shown} is not empty: {}", EscapedText(&name));
    }
    Ok(())
}

/// Reads a user as an argument names one: a mechanism, and what belongs to it in brackets.
fn user_of(text: &str) -> anyhow::Result<(String, Credential)> {
    const FORM: &str = "--add-scram takes SCRAM-SHA-512=[name=..,password-file=..]";
    let (mechanism, rest) = text.split_once('=').context(FORM)?;
    let hash = match mechanism {
        "SCRAM-SHA-256" => ScramHash::Sha256,
        "SCRAM-SHA-512" => ScramHash::Sha512,
        _ => bail!("--add-scram takes SCRAM-SHA-256 or SCRAM-SHA-512"),
    };
    let inner = rest.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    let mut given = GivenUser::default();
    for part in inner.context(FORM)?.split(',') {
        // What has no name may be part of a password.
        let (key, value) = part.split_once('=').context(FORM)?;
        let place = match key {
            "name" => &mut given.name,
            "password" => &mut given.password,
            "password-file" => &mut given.file,
            "saltedpassword" => &mut given.salted,
            "salt" => &mut given.salt,
            "iterations" => &mut given.iterations,
            _ => bail!("{FORM}, saltedpassword=, salt= and iterations="),
        };
        ensure!(place.is_none(), "--add-scram names {key} twice");
        *place = Some(value);
    }
    given.credential(hash)
}

/// What an argument says of a user.
#[derive(Default)]
struct GivenUser<'a> {
    name: Option<&'a str>,
    password: Option<&'a str>,
    file: Option<&'a str>,
    salted: Option<&'a str>,
    salt: Option<&'a str>,
    iterations: Option<&'a str>,
}

impl GivenUser<'_> {
    fn credential(&self, hash: ScramHash) -> anyhow::Result<(String, Credential)> {
        let name = self.name.context("--add-scram needs name=")?;
        check_user(name)?;
        let iterations = self.iterations.map_or(Ok(ITERATIONS_MIN), str::parse);
        let iterations = iterations.context("iterations= is no number")?;
        let decoded = |text: Option<&str>| text.map(|text| STANDARD.decode(text)).transpose();
        let salt_given = decoded(self.salt).context("salt= is no base64")?;
        let credential = match (self.password, self.file, self.salted) {
            (None, None, Some(salted)) => {
                let salted = STANDARD.decode(salted).map(Secret::new);
                let salted = salted.context("saltedpassword= is no base64")?;
                let salt = salt_given.context("saltedpassword= needs salt=")?;
                let iterations = i32::try_from(iterations).context("too many iterations")?;
                Credential::of_salted(hash, &salt, iterations, salted.expose())?
            }
            (Some(_), None, None) | (None, Some(_), None) => {
                let password = if let Some(password) = self.password {
                    super::complain(
                        "a password in an argument is there for every user of the machine to \
                         read: password-file= takes it from a file, or from standard input",
                    );
                    Secret::new(password.to_owned())
                } else {
                    let file = self.file.filter(|file| *file != "-").map(Path::new);
                    cli::read_password(file, name)?
                };
                let salt = salt_given.unwrap_or_else(|| salt(random_bytes()));
                Credential::derive(hash, &password, &salt, iterations)?
            }
            _ => bail!("--add-scram needs one of password-file= and saltedpassword="),
        };
        Ok((name.to_owned(), credential))
    }
}

/// Returns a new id, of the form that tools take for no option.
fn random_id() -> Uuid {
    loop {
        let id = Uuid::from_bytes(random_bytes());
        if !uuid_to_base64(id).starts_with('-') {
            return id;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_read_as_kafkas_tool_reads_one() {
        let (name, made) =
            user_of("SCRAM-SHA-256=[name=ada,password=pencil,salt=c2FsdHk=,iterations=8192]")
                .unwrap();
        let pencil = Secret::new("pencil".to_owned());
        let same = Credential::derive(ScramHash::Sha256, &pencil, b"salty", 8192).unwrap();
        assert_eq!((name.as_str(), made.salt()), ("ada", &b"salty"[..]));
        assert_eq!(made.keys().stored, same.keys().stored);
        let salted = wire::sasl::scram::salted_password(ScramHash::Sha256, &pencil, b"salty", 8192);
        let salted = STANDARD.encode(salted.expose());
        let text = format!(
            "SCRAM-SHA-256=[name=ada,saltedpassword={salted},salt=c2FsdHk=,iterations=8192]"
        );
        let (_, again) = user_of(&text).unwrap();
        assert_eq!(again.keys().stored, same.keys().stored);
    }

    #[test]
    fn what_makes_no_user_is_refused_without_what_may_be_a_password() {
        for text in [
            "hunter2",
            "PLAIN=[name=ada,password=hunter2]",
            "SCRAM-SHA-256=name=ada,password=hunter2",
            "SCRAM-SHA-256=[name=ada,hunter2]",
            "SCRAM-SHA-256=[name=ada]",
            "SCRAM-SHA-256=[password=hunter2]",
            "SCRAM-SHA-256=[name=ada,password=hunter2,password=hunter2]",
            "SCRAM-SHA-256=[name=ada,password=hunter2,saltedpassword=hunter2]",
            "SCRAM-SHA-256=[name=ada,saltedpassword=hunter2,salt=c2FsdHk=]",
            "SCRAM-SHA-256=[name=ada,password=hunter2,iterations=1]",
            "SCRAM-SHA-256=[name=ada,password=hunter2,iterations=99999999999]",
            "SCRAM-SHA-256=[name=,password=hunter2]",
            "SCRAM-SHA-256=[name=ada,password=,iterations=4096]",
            "SCRAM-SHA-256=[hunter2=ada]",
        ] {
            let refused = user_of(text).map(|(name, _)| name).unwrap_err();
            assert!(!format!("{refused:#}").contains("hunter2"), "{refused:#}");
        }
    }

    #[test]
    fn only_an_empty_directory_is_formatted() {
        let dir = tempfile::tempdir().unwrap();
        for name in EMPTY_HAS {
            fs::write(dir.path().join(name), "").unwrap();
        }
        check_empty(dir.path()).unwrap();
        fs::write(dir.path().join("orders-0"), "").unwrap();
        let refused = check_empty(dir.path()).unwrap_err().to_string();
        assert!(refused.contains("orders-0"), "{refused}");
        fs::write(dir.path().join(meta_properties::FILE), "").unwrap();
        let refused = check_empty(dir.path()).unwrap_err().to_string();
        assert!(refused.contains("user set NAME --data-dir"), "{refused}");
    }
}
