//! The token of a client that logs in by OAUTHBEARER, from the properties of Java's clients or of
//! librdkafka, or from options of a JAAS line.
//!
//! Options of the line that are ours: `token.file` and `token.env`. Invariant: no error shows a
//! secret, or any part of a JAAS line.

use std::collections::BTreeMap;
use std::sync::Arc;

use wire::sasl::Secret;
use wire::sasl::jaas::Entry;

use super::Tls;
use crate::error::ClientError;
use crate::http::{HttpUrl, file_of_url};
use crate::token::{TokenProvider, TokenSource, URL};

const JAAS: &str = "sasl.jaas.config";
const ID: &str = "sasl.oauthbearer.client.credentials.client.id";
const SECRET: &str = "sasl.oauthbearer.client.credentials.client.secret";
/// What options of a JAAS line begin with that are sent along with the token.
const EXTENSION: &str = "extension_";

/// A token's place, and what is sent along with it.
pub(super) type TokenLogin = (TokenSource, BTreeMap<String, String>);

/// The properties as they were given.
#[derive(Clone, Default, Debug)]
pub(super) struct RawOauth {
    url: Option<String>,
    id: Option<String>,
    secret: Option<Secret<String>>,
    scope: Option<String>,
    /// librdkafka's: the certificates that a provider is verified with.
    authority: Option<String>,
}

impl RawOauth {
    /// Takes a property; returns false if it is another.
    pub(super) fn set(&mut self, key: &str, value: &str) -> bool {
        let text = || Some(value.to_owned()).filter(|value| !value.is_empty());
        match key {
            URL => self.url = text(),
            ID | "sasl.oauthbearer.client.id" => self.id = text(),
            SECRET | "sasl.oauthbearer.client.secret" => self.secret = text().map(Secret::new),
            "sasl.oauthbearer.scope" => self.scope = text(),
            "https.ca.location" => self.authority = text(),
            // They say what is done here anyway.
            "sasl.oauthbearer.method" | "sasl.login.callback.handler.class" => {}
            _ => return false,
        }
        true
    }

    /// Returns where the token is.
    pub(super) fn resolve(self, line: Option<&Entry>) -> Result<TokenLogin, ClientError> {
        let option = |name: &str| Some(line?.option(name)?.expose().clone());
        let file = option("token.file").map(|path| TokenSource::File(path.into()));
        let environment = option("token.env").map(TokenSource::Environment);
        let at_url = match self.url.clone() {
            Some(url) => Some(self.at_url(&url, line)?),
            None => None,
        };
        let mut given = [file, environment, at_url].into_iter().flatten();
        let Some(source) = given.next() else {
            let reason = "a login by OAUTHBEARER needs it, or an option token.file or token.env in \
                          sasl.jaas.config";
            return Err(ClientError::invalid(URL, reason));
        };
        if given.next().is_some() {
            let reason = format!("token.file, token.env and {URL} name several tokens");
            return Err(ClientError::invalid(JAAS, reason));
        }
        let names = line.into_iter().flat_map(Entry::names);
        let extensions = names.filter_map(|name| {
            let key = name.strip_prefix(EXTENSION)?;
            Some((key.to_owned(), option(name)?))
        });
        Ok((source, extensions.collect()))
    }

    fn at_url(self, url: &str, line: Option<&Entry>) -> Result<TokenSource, ClientError> {
        if let Some(path) = file_of_url(url) {
            let path = path.map_err(|why| ClientError::invalid(URL, why))?;
            return Ok(TokenSource::File(path));
        }
        let url = HttpUrl::parse(url);
        let url = url.map_err(|problem| {
            ClientError::invalid(URL, format!("{problem}, or be a file (file:///path)"))
        })?;
        let option = |name: &str| Some(line?.option(name)?.clone());
        let missing = |key: &str, of_line: &str| {
            let reason = format!("{URL} needs it, or {of_line} in {JAAS}");
            ClientError::invalid(key, reason)
        };
        let id = self
            .id
            .or_else(|| Some(option("clientId")?.expose().clone()));
        let secret = self.secret.or_else(|| option("clientSecret"));
        let scope = self
            .scope
            .or_else(|| Some(option("scope")?.expose().clone()));
        let id = id.ok_or_else(|| missing(ID, "clientId"))?;
        let secret = secret.ok_or_else(|| missing(SECRET, "clientSecret"))?;
        let tls = if url.is_tls() {
            let names = line.into_iter().flat_map(Entry::names);
            let options = names.filter(|name| name.starts_with("ssl."));
            let options =
                options.filter_map(|name| Some((name, line?.option(name)?.expose().as_str())));
            let authority = self.authority.as_deref();
            let authority = authority.map(|path| ("ssl.ca.location", path));
            Some(Tls::of_properties(options.chain(authority))?)
        } else {
            None
        };
        let provider = TokenProvider::new(url, (&id, &secret), scope, tls);
        Ok(TokenSource::Provider(Arc::new(provider)))
    }
}
