//! Where the controller's service is, and who may ask it: a file of settings, and a login that is
//! in a file of its own or in the environment.

use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Deserialize;

/// The environment's name for the file of settings.
pub const PLACE: &str = "FOREBAY_REDFISH";
/// The environment's name for the login, `USER:PASSWORD`.
pub const LOGIN: &str = "FOREBAY_REDFISH_LOGIN";
/// The file of settings of this machine.
const OF_THIS_MACHINE: &str = "/etc/forebay/redfish.toml";
const BYTES_MAX: u64 = 64 << 10;

/// The content of the file.
#[derive(Clone, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct PlaceFile {
    /// `https://ADDRESS[:PORT]`; `http` only on this machine.
    url: String,
    /// Digest of the service's certificate, `sha256:..`.
    #[serde(default)]
    fingerprint: Option<String>,
    /// The system's path; needed if the controller has several.
    #[serde(default)]
    system: Option<String>,
    /// The file with the login.
    #[serde(default)]
    login: Option<PathBuf>,
}

/// A user and the password, never shown.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Login(pub(super) String);

impl fmt::Debug for Login {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("Login(..)")
    }
}

/// The service and what is needed to ask it.
#[derive(Clone, Debug)]
pub(crate) struct RedfishPlace {
    pub(super) host: String,
    pub(super) port: u16,
    /// Digest of the certificate; none without TLS.
    pub(super) fingerprint: Option<[u8; 32]>,
    pub(super) system: Option<String>,
    pub(super) login: Login,
}

/// Returns the place that the environment or this machine's file names; none without either.
pub(super) fn configured(is_this_machine: bool) -> anyhow::Result<Option<RedfishPlace>> {
    let file = match std::env::var_os(PLACE) {
        Some(file) => PathBuf::from(file),
        // A copy of a host is not the host whose controller this machine's file names.
        None if is_this_machine && Path::new(OF_THIS_MACHINE).exists() => {
            PathBuf::from(OF_THIS_MACHINE)
        }
        None => return Ok(None),
    };
    let read = || -> anyhow::Result<RedfishPlace> {
        let text = String::from_utf8(platform::bounded::file(&file, BYTES_MAX)?)?;
        let login = std::env::var(LOGIN).ok();
        place(&text, login, &file)
    };
    read().with_context(|| file.display().to_string()).map(Some)
}

/// Returns the place of a file's text.
pub(super) fn place(
    text: &str,
    login: Option<String>,
    beside: &Path,
) -> anyhow::Result<RedfishPlace> {
    let file: PlaceFile = toml::from_str(text)?;
    let (is_tls, rest) = match file.url.split_once("://") {
        Some(("https", rest)) => (true, rest),
        Some(("http", rest)) => (false, rest),
        _ => anyhow::bail!("url: {:?} is not like https://ADDRESS", file.url),
    };
    let rest = rest.trim_end_matches('/');
    anyhow::ensure!(
        !rest.is_empty() && !rest.contains(['/', '@', '?', '#']),
        "url: {:?} is not like https://ADDRESS",
        file.url
    );
    let (host, port) = match rest.rsplit_once(':') {
        // The colons of an address of version 6 are within brackets.
        Some((host, port)) if !port.ends_with(']') => {
            (host, port.parse().context("url: the port")?)
        }
        _ => (rest, if is_tls { 443 } else { 80 }),
    };
    let host = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .to_owned();
    let is_here = host == "localhost"
        || host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|ip| ip.is_loopback());
    anyhow::ensure!(
        is_tls || is_here,
        "url: without TLS the login would be readable on the way to {host}"
    );
    let fingerprint = file.fingerprint.as_deref().map(digest).transpose()?;
    anyhow::ensure!(
        !is_tls || fingerprint.is_some(),
        "fingerprint: without it nobody knows who gets the login: \
         openssl s_client -connect {host}:{port} </dev/null | openssl x509 -noout -fingerprint -sha256"
    );
    let login = match (login, &file.login) {
        (Some(login), _) => login,
        (None, Some(path)) => of_file(&beside.parent().unwrap_or(beside).join(path))?,
        (None, None) => anyhow::bail!("login: neither a file nor the environment's {LOGIN}"),
    };
    anyhow::ensure!(login.contains(':'), "the login is not USER:PASSWORD");
    Ok(RedfishPlace {
        host,
        port,
        fingerprint: fingerprint.filter(|_| is_tls),
        system: file.system,
        login: Login(login),
    })
}

/// Returns the login in a file, which only its owner may read.
fn of_file(path: &Path) -> anyhow::Result<String> {
    let read = || -> anyhow::Result<String> {
        let mode = std::fs::metadata(path)?.mode();
        let others = mode & 0o077;
        anyhow::ensure!(others == 0, "others may read it: chmod 600");
        let text = String::from_utf8(platform::bounded::file(path, BYTES_MAX)?)?;
        Ok(text.trim_end_matches(['\r', '\n']).to_owned())
    };
    read().with_context(|| format!("login: {}", path.display()))
}

/// Parses a digest, as Redfish tools and `openssl` show it.
fn digest(text: &str) -> anyhow::Result<[u8; 32]> {
    let digits = text
        .strip_prefix("sha256:")
        .unwrap_or(text)
        .replace(':', "");
    let wrong = || anyhow::anyhow!("fingerprint: {text:?} is no digest of SHA-256");
    anyhow::ensure!(digits.len() == 64 && digits.is_ascii(), wrong());
    let mut bytes = [0; 32];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).map_err(|_| wrong())?;
    }
    Ok(bytes)
}
