//! How commands reach the admin endpoint of a broker: where it is, whether it speaks TLS, and who
//! the client is.
//!
//! ```text
//! forebay tier --admin https://broker-1:9644 --admin-config admin.properties status
//! ```
//!
//! The file has properties by the names of Kafka's clients: `ssl.*`, and the user by
//! `sasl.jaas.config` or `sasl.username` and `sasl.password`; or a token by `admin.token.file`.
//!
//! Invariants: the file in a profile is for the endpoint of that profile; no password or token is
//! an argument, in a message, in a file that others may read, or sent over a network without TLS.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use client::{SettingsBuilder, Tls};
use platform::bounded;
use wire::sasl::Secret;

use crate::command_config::CommandConfig;
use crate::profile::{self, Profile};
use crate::show::say;

/// The endpoint if neither an option nor the profile names one.
const DEFAULT_ADMIN: &str = "127.0.0.1:9644";
/// The longest file of a token.
const TOKEN_BYTES_MAX: u64 = 64 << 10;
/// The property that names it.
const TOKEN_FILE: &str = "admin.token.file";
/// Properties that are passwords, or have one.
const PASSWORDS: [&str; 3] = ["sasl.jaas.config", "sasl.password", "ssl.key.password"];
/// Bits of a file's mode that let others than its owner read it.
const READ_BY_OTHERS: u32 = 0o044;

/// Options of the commands that ask the admin endpoint.
#[derive(Debug, Args)]
pub struct AdminArgs {
    /// Admin endpoint of the broker, with https:// if it speaks TLS [default: the profile's, else
    /// 127.0.0.1:9644].
    #[arg(long, value_name = "[https://]HOST:PORT", global = true)]
    admin: Option<String>,
    /// File (0600) of properties: ssl.* for TLS, sasl.jaas.config or admin.token.file for who the
    /// client is [default: the profile's].
    #[arg(long, value_name = "FILE", global = true)]
    admin_config: Option<PathBuf>,
    /// Profile to take the endpoint from, instead of the one in use.
    #[arg(long, value_name = "NAME", global = true)]
    profile: Option<String>,
}

/// An endpoint, and how to reach it.
#[derive(Clone, Debug)]
pub struct AdminTarget {
    /// Its host and port.
    pub address: String,
    /// Its host, as its certificate names it.
    pub host: String,
    /// TLS, if it speaks that.
    pub tls: Option<Tls>,
    /// The value of the header that says who the client is.
    pub authorization: Option<Secret<String>>,
}

impl AdminArgs {
    /// Returns the endpoint to ask; a broken file of profiles does not matter with `--admin`.
    pub fn target(&self) -> anyhow::Result<AdminTarget> {
        let profile = match (&self.admin, &self.profile) {
            (Some(_), None) => Profile::default(),
            (Some(_), Some(name)) => profile::selected(Some(name))?,
            (None, name) => profile::with_admin(name.as_deref())?,
        };
        let told = self.admin.as_deref().or(profile.admin.as_deref());
        let file = self.admin_config.as_deref();
        let file = file.or(profile.admin_config.as_deref());
        target(told.unwrap_or(DEFAULT_ADMIN), file)
    }
}

/// Reads what an endpoint and a file of properties say.
fn target(told: &str, file: Option<&Path>) -> anyhow::Result<AdminTarget> {
    let (is_tls, rest) = match told.split_once("://") {
        None => (false, told),
        Some(("http", rest)) => (false, rest),
        Some(("https", rest)) => (true, rest),
        Some((scheme, _)) => {
            bail!("{scheme}://: the admin endpoint is https://HOST:PORT or HOST:PORT")
        }
    };
    let address = rest.trim_end_matches('/').to_owned();
    let (host, _) = address.rsplit_once(':').unwrap_or((&address, ""));
    let host = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .to_owned();
    let config = match file {
        Some(file) => CommandConfig::read(file)?,
        None => CommandConfig::default(),
    };
    if let Some(file) = file.filter(|_| PASSWORDS.iter().any(|key| config.value(key).is_some())) {
        check_mode(file)?;
    }
    let (tls, authorization) = resolved(&config, is_tls)?;
    if authorization.is_some() && !is_tls && !is_loopback(&host) {
        bail!(
            "a password or a token would cross the network in clear text: name the endpoint as \
             https://{address}"
        );
    }
    Ok(AdminTarget {
        address,
        host,
        tls,
        authorization,
    })
}

/// Returns TLS, if it is spoken, and the value of the header that says who the client is.
fn resolved(
    config: &CommandConfig,
    is_tls: bool,
) -> anyhow::Result<(Option<Tls>, Option<Secret<String>>)> {
    // A client of Kafka's requests reads the properties, and connects nowhere.
    let mut builder = SettingsBuilder::new(DEFAULT_ADMIN)?;
    let unknown = config.apply(&mut builder)?;
    let unknown: Vec<_> = unknown
        .into_iter()
        .filter(|key| *key != TOKEN_FILE)
        .collect();
    if !unknown.is_empty() {
        say(&config.without_meaning(&unknown));
    }
    let given = |key: &str| config.value(key).is_some();
    let logs_in = given("sasl.jaas.config") || given("sasl.username");
    if logs_in && !given("sasl.mechanism") && !given("sasl.mechanisms") {
        builder.set("sasl.mechanism", "PLAIN")?;
    }
    // The endpoint says whether TLS is spoken, whatever listeners of the same broker speak.
    let protocol = match (is_tls, logs_in) {
        (true, true) => "SASL_SSL",
        (true, false) => "SSL",
        (false, true) => "SASL_PLAINTEXT",
        (false, false) => "PLAINTEXT",
    };
    builder.set("security.protocol", protocol)?;
    let settings = builder.finish();
    let settings = settings.map_err(|error| config.blamed(error))?;
    for warning in &settings.warnings {
        say(warning);
    }
    let has_token = settings
        .client
        .login
        .as_ref()
        .is_some_and(|login| login.token.is_some());
    ensure!(
        !has_token,
        "the admin endpoint takes no tokens of OAUTHBEARER: {TOKEN_FILE} names one of its own"
    );
    let login = settings.client.login.map(|login| {
        let pair = Secret::new(format!("{}:{}", login.user, login.password.expose()));
        Secret::new(format!("Basic {}", STANDARD.encode(pair.expose())))
    });
    let token = match config.value(TOKEN_FILE) {
        Some(path) => Some(token(Path::new(path.expose().as_str()))?),
        None => None,
    };
    ensure!(
        login.is_none() || token.is_none(),
        "{TOKEN_FILE} and a user are both given: one says who the client is"
    );
    Ok((settings.client.tls, login.or(token)))
}

fn token(path: &Path) -> anyhow::Result<Secret<String>> {
    let named = || format!("{TOKEN_FILE}={}", path.display());
    check_mode(path)?;
    let bytes = Secret::new(bounded::file(path, TOKEN_BYTES_MAX).with_context(named)?);
    let text = std::str::from_utf8(bytes.expose())
        .unwrap_or_default()
        .trim();
    let is_token = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    ensure!(
        is_token,
        "{}: it must have one token, and nothing else",
        named()
    );
    Ok(Secret::new(format!("Bearer {text}")))
}

/// Refuses a file with a secret that others may read.
fn check_mode(path: &Path) -> anyhow::Result<()> {
    let metadata = fs::metadata(path).with_context(|| path.display().to_string())?;
    let mode = metadata.permissions().mode() & 0o777;
    let path = path.display();
    // A pipe is what a shell makes of the output of another program.
    ensure!(
        !metadata.is_file() || mode & READ_BY_OTHERS == 0,
        "{path}: others than its owner may read it, and it has a secret (mode {mode:04o}): chmod \
         600 {path}"
    );
    Ok(())
}

fn is_loopback(host: &str) -> bool {
    let address = host.parse::<IpAddr>();
    address.map_or(host.eq_ignore_ascii_case("localhost"), |it| {
        it.to_canonical().is_loopback()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(dir: &tempfile::TempDir, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn an_endpoint_has_a_scheme_or_none() {
        for (told, address, host) in [
            ("a:1", "a:1", "a"),
            ("http://a:1/", "a:1", "a"),
            ("[::1]:9644", "[::1]:9644", "::1"),
        ] {
            let found = target(told, None).unwrap();
            assert_eq!((&*found.address, &*found.host), (address, host));
            assert!(found.tls.is_none() && found.authorization.is_none());
        }
        assert!(target("https://a:1", None).unwrap().tls.is_some());
        assert!(target("ftp://a:1", None).is_err());
    }

    #[test]
    fn a_user_or_a_token_says_who_the_client_is() {
        let dir = tempfile::tempdir().unwrap();
        let jaas = "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule \
                    required username=\"ada\" password=\"pen\";\n";
        let user = write(&dir, "user", jaas, 0o600);
        let shown = |told: &str, file: &Path| {
            let found = target(told, Some(file)).unwrap().authorization;
            found.map(|it| it.expose().clone())
        };
        assert_eq!(
            shown("localhost:1", &user).as_deref(),
            Some("Basic YWRhOnBlbg==")
        );
        assert_eq!(
            shown("https://a:1", &user).as_deref(),
            Some("Basic YWRhOnBlbg==")
        );
        let token = write(&dir, "token", "hunter2hunter2hunter2\n", 0o600);
        let line = format!("admin.token.file={}\n", token.display());
        let bearer = write(&dir, "bearer", &line, 0o644);
        let expected = Some("Bearer hunter2hunter2hunter2");
        assert_eq!(shown("https://a:1", &bearer).as_deref(), expected);
        let both = write(&dir, "both", &format!("{line}{jaas}"), 0o600);
        assert!(target("https://a:1", Some(&both)).is_err());
    }

    #[test]
    fn no_secret_is_sent_in_clear_text_or_read_from_a_file_that_others_may_read() {
        let dir = tempfile::tempdir().unwrap();
        let text = "sasl.username=ada\nsasl.password=hunter2\n";
        let sound = write(&dir, "sound", text, 0o600);
        let said = target("a:1", Some(&sound)).unwrap_err().to_string();
        assert!(
            said.contains("https://a:1") && !said.contains("hunter"),
            "{said}"
        );
        let open = write(&dir, "open", text, 0o644);
        let said = target("https://a:1", Some(&open)).unwrap_err().to_string();
        assert!(
            said.contains("chmod 600") && !said.contains("hunter"),
            "{said}"
        );
        let token = write(&dir, "token", "hunter2hunter2hunter2", 0o644);
        let line = format!("admin.token.file={}\n", token.display());
        let bearer = write(&dir, "bearer", &line, 0o600);
        let said = target("https://a:1", Some(&bearer))
            .unwrap_err()
            .to_string();
        assert!(
            said.contains("chmod 600") && !said.contains("hunter"),
            "{said}"
        );
        let found = target("https://a:1", Some(&sound)).unwrap();
        assert!(!format!("{found:?}").contains("hunter"));
    }
}
