//! One token: a JWT in its compact form, its signature, and what its claims say.
//!
//! The order is one of trust: the header says which key is to be looked for, the signature comes
//! next, and only what is signed is read further. As in Kafka `exp` and `iat` have to be there, and
//! the names of the claims of user and scope are settings. Unlike there, times are whole numbers, a
//! token without `kid` needs a set in which one key alone fits, and a token that says it was issued
//! later than now is refused.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use broker::session::{TokenFault, TokenOwner};
use wire::acl::Principal;
use wire::sasl::check_user;
use wire::sasl::oauthbearer::TOKEN_BYTES_MAX;

use super::algorithm::Algorithm;
use super::json::{Json, Object};
use super::keys::{ID_BYTES_MAX, KeySet, NoKey};

/// Most values of a header or of claims: each takes two bytes at least, and some memory.
const VALUES_MAX: usize = 2000;
/// The last second of the year 9999.
const LATEST_S: i64 = 253_402_300_799;

/// What is expected of tokens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expectations {
    /// The issuer; `None` for any.
    pub issuer: Option<String>,
    /// Audiences: a token has to name one of them; without any, tokens name none.
    // Bounded: the settings.
    pub audiences: Vec<String>,
    /// The claim that names the user.
    pub subject_claim: String,
    /// The claim that lists what the token is for.
    pub scope_claim: String,
    /// How far clocks may be apart.
    pub skew_ms: i64,
}

/// Why a token is refused.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct RefusedToken {
    pub(super) fault: TokenFault,
    /// The id of a key that may be in a newer set.
    pub(super) unknown_key: Option<String>,
}

impl From<TokenFault> for RefusedToken {
    fn from(fault: TokenFault) -> Self {
        Self {
            fault,
            unknown_key: None,
        }
    }
}

/// Judges a token.
pub(super) fn judge(
    token: &str,
    keys: &KeySet,
    expected: &Expectations,
    wall_ms: i64,
) -> Result<TokenOwner, RefusedToken> {
    if token.len() > TOKEN_BYTES_MAX {
        return Err(TokenFault::TooLong.into());
    }
    let (signed, signature) = token.rsplit_once('.').ok_or(TokenFault::Form)?;
    let (header, claims) = signed.split_once('.').ok_or(TokenFault::Form)?;
    let (header, claims) = (decoded(header)?, decoded(claims)?);
    let signature = decoded(signature)?;
    let Header { algorithm, key } = Header::of(&header)?;
    let key = keys.find(key.as_deref(), algorithm).map_err(|why| {
        let fault = match why {
            NoKey::Unknown => TokenFault::UnknownKey,
            NoKey::OtherAlgorithm => TokenFault::OtherAlgorithm,
            NoKey::Unnamed => TokenFault::UnnamedKey,
        };
        RefusedToken {
            fault,
            unknown_key: key.filter(|_| why == NoKey::Unknown),
        }
    })?;
    if !key.has_signed(algorithm, signed.as_bytes(), &signature) {
        return Err(TokenFault::Signature.into());
    }
    Ok(judge_claims(&claims, expected, wall_ms)?)
}

/// Judges claims that are signed.
pub(super) fn judge_claims(
    claims: &[u8],
    expected: &Expectations,
    wall_ms: i64,
) -> Result<TokenOwner, TokenFault> {
    let claims = Json::object(claims, VALUES_MAX).ok_or(TokenFault::Claims)?;
    owner(&claims, expected, wall_ms)
}

fn decoded(part: &str) -> Result<Vec<u8>, TokenFault> {
    let bytes = URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenFault::Form)?;
    // Another dot would be here, too: the alphabet has none.
    (!bytes.is_empty()).then_some(bytes).ok_or(TokenFault::Form)
}

/// What is read of a header. Keys and places of keys in it (jwk, jku, x5c, x5u) are not.
struct Header {
    algorithm: Algorithm,
    key: Option<String>,
}

impl Header {
    fn of(bytes: &[u8]) -> Result<Self, TokenFault> {
        let members = Json::object(bytes, VALUES_MAX).ok_or(TokenFault::Header)?;
        // What has to be understood, and is not.
        if members.contains_key("crit") || members.contains_key("enc") {
            return Err(TokenFault::Header);
        }
        let name = members.get("alg").and_then(Json::text);
        let name = name.ok_or(TokenFault::Header)?;
        let key = match members.get("kid") {
            None => None,
            Some(Json::Text(id)) if id.len() <= ID_BYTES_MAX => Some(id.clone()),
            Some(_) => return Err(TokenFault::Header),
        };
        Ok(Self {
            algorithm: Algorithm::from_name(name).ok_or(TokenFault::Algorithm)?,
            key,
        })
    }
}

/// Returns whose the claims are, if they are what is expected at this time.
fn owner(claims: &Object, expected: &Expectations, wall_ms: i64) -> Result<TokenOwner, TokenFault> {
    let expires_ms = times(claims, expected.skew_ms, wall_ms)?;
    if let Some(issuer) = &expected.issuer
        && claims.get("iss").and_then(Json::text) != Some(issuer)
    {
        return Err(TokenFault::Issuer);
    }
    check_audience(claims, &expected.audiences)?;
    check_scope(claims.get(&expected.scope_claim))?;
    let name = claims.get(&expected.subject_claim).and_then(Json::text);
    let name = name.map(trimmed).filter(|name| is_of_user(name));
    Ok(TokenOwner {
        name: name.ok_or(TokenFault::Subject)?.to_owned(),
        expires_ms,
    })
}

/// Returns true if a token may be of a user of this name. That of clients that have not shown who
/// they are is none: it has the rights that an operator gives to listeners without a login.
fn is_of_user(name: &str) -> bool {
    check_user(name).is_ok() && name != Principal::anonymous().name()
}

/// Takes the space off that Kafka takes off, and no more: a name with another kind of space (such
/// as U+00A0) around it is that of another user.
fn trimmed(text: &str) -> &str {
    text.trim_matches(|letter: char| letter.is_ascii_whitespace())
}

/// Checks the times; returns when the token expires.
fn times(claims: &Object, skew_ms: i64, wall_ms: i64) -> Result<i64, TokenFault> {
    let time = |name: &str| match claims.get(name) {
        None => Ok(None),
        Some(Json::Integer(seconds)) if (0..=LATEST_S).contains(seconds) => {
            Ok(Some(seconds.saturating_mul(1000)))
        }
        Some(_) => Err(TokenFault::Times),
    };
    let expires = time("exp")?.ok_or(TokenFault::Times)?;
    let issued = time("iat")?.ok_or(TokenFault::Times)?;
    let begins = time("nbf")?.unwrap_or(issued).max(issued);
    if expires < begins {
        return Err(TokenFault::Order);
    }
    if wall_ms.saturating_sub(skew_ms) >= expires {
        return Err(TokenFault::Expired);
    }
    if wall_ms.saturating_add(skew_ms) < begins {
        return Err(TokenFault::Early);
    }
    assert!(
        expires <= LATEST_S.saturating_mul(1000),
        "a time is checked"
    );
    Ok(expires)
}

/// Checks for whom the token is. As in Kafka, one with an audience is refused where the settings
/// expect none.
fn check_audience(claims: &Object, expected: &[String]) -> Result<(), TokenFault> {
    let is_expected = |one: &Json| {
        let one = one.text();
        expected.iter().any(|known| Some(known.as_str()) == one)
    };
    let fits = match claims.get("aud") {
        None => expected.is_empty(),
        Some(Json::List(all)) => {
            all.iter().all(|one| one.text().is_some()) && all.iter().any(is_expected)
        }
        Some(one) => is_expected(one),
    };
    fits.then_some(()).ok_or(TokenFault::Audience)
}

/// Checks that a scope is one, as in Kafka: text, or a list of different texts, none blank.
fn check_scope(scope: Option<&Json>) -> Result<(), TokenFault> {
    let texts: Vec<&str> = match scope {
        None => return Ok(()),
        Some(Json::Text(text)) => vec![text],
        Some(Json::List(all)) => {
            let texts: Option<Vec<&str>> = all.iter().map(Json::text).collect();
            texts.ok_or(TokenFault::Scope)?
        }
        Some(_) => return Err(TokenFault::Scope),
    };
    let mut texts: Vec<&str> = texts.into_iter().map(trimmed).collect();
    let count = texts.len();
    texts.sort_unstable();
    texts.dedup();
    let is_one = texts.len() == count && !texts.iter().any(|text| text.is_empty());
    is_one.then_some(()).ok_or(TokenFault::Scope)
}

#[cfg(test)]
mod tests;
