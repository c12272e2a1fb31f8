//! Names of users within messages of SCRAM and OAUTHBEARER, and the header (of "GS2", RFC 5801)
//! with which both begin: `n,,` or `n,a=name,`.
//!
//! In names `,` is `=2C` and `=` is `=3D`. Kafka takes names of ASCII characters only; here they
//! are UTF-8, as the RFC has it, and, as in Kafka, no preparation (`SASLprep`) changes them.

use std::borrow::Cow;

use super::Refusal;
use super::refusal::check_length;

/// Maximum bytes of a name, as long as one that the metadata keep.
pub(super) const NAME_BYTES_MAX: usize = 1024;
/// The header of our clients: no channel binding, no other identity.
pub(super) const HEADER: &str = "n,,";

/// A message that begins with the header.
#[derive(Debug)]
pub(super) struct HeadedMessage<'a> {
    /// The header, with its last comma.
    pub(super) header: &'a str,
    /// Who the client wants to be, if it says so.
    pub(super) authzid: Option<String>,
    /// What comes after the header.
    pub(super) rest: &'a str,
}

impl<'a> HeadedMessage<'a> {
    pub(super) fn parse(message: &'static str, text: &'a str) -> Result<Self, Refusal> {
        let malformed = |rule| Refusal::Malformed { message, rule };
        let mut parts = text.splitn(3, ',');
        let (Some(binding), Some(authzid), Some(rest)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(malformed("it does not begin with a header"));
        };
        match binding {
            "n" => {}
            // Kafka refuses both. For `y`, with which a client says that it could if the server
            // could, RFC 5802 has servers without channel binding go on.
            "y" => return Err(Refusal::ChannelBinding),
            _ if binding.starts_with("p=") => return Err(Refusal::ChannelBinding),
            _ => return Err(malformed("it does not begin with a header")),
        }
        let authzid = match authzid.strip_prefix("a=") {
            Some(name) => Some(decoded(message, name)?),
            None if authzid.is_empty() => None,
            None => return Err(malformed("the header has no authorization id")),
        };
        let header_bytes = text.len() - rest.len();
        // Bounded: `rest` is a suffix of `text`.
        let (header, _) = text.split_at(header_bytes);
        assert!(
            header.ends_with(','),
            "the header ends where the rest begins"
        );
        Ok(Self {
            header,
            authzid,
            rest,
        })
    }
}

/// Returns a name as it stands in a message.
pub(super) fn encoded(name: &str) -> String {
    let encoded = name.replace('=', "=3D").replace(',', "=2C");
    assert!(!encoded.contains(','), "a name is one attribute");
    encoded
}

/// Returns the name for which `text` stands.
pub(super) fn decoded(message: &'static str, text: &str) -> Result<String, Refusal> {
    let malformed = |rule| Refusal::Malformed { message, rule };
    let mut parts = text.split('=');
    let mut name = parts.next().map_or(Cow::Borrowed(""), Cow::Borrowed);
    for part in parts {
        let (sign, rest) = if let Some(rest) = part.strip_prefix("2C") {
            (",", rest)
        } else if let Some(rest) = part.strip_prefix("3D") {
            ("=", rest)
        } else {
            return Err(malformed("a name has `=` that is neither =2C nor =3D"));
        };
        let name = name.to_mut();
        name.push_str(sign);
        name.push_str(rest);
    }
    check_name(message, &name)?;
    Ok(name.into_owned())
}

/// Refuses the name of a user who could never log in: an empty one, one that is too long, or one
/// with a NUL.
pub fn check_user(name: &str) -> Result<(), Refusal> {
    check_name("the name of the user", name)
}

/// Refuses what can be no name.
pub(super) fn check_name(message: &'static str, name: &str) -> Result<(), Refusal> {
    let malformed = |rule| Refusal::Malformed { message, rule };
    check_length("the name of a user", name.len(), NAME_BYTES_MAX)?;
    if name.is_empty() {
        return Err(malformed("a name is empty"));
    }
    if name.contains('\0') {
        return Err(malformed("a name has a NUL"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(text: &str) -> Option<(&str, Option<String>, &str)> {
        let headed = HeadedMessage::parse("message", text).ok()?;
        Some((headed.header, headed.authzid, headed.rest))
    }

    #[test]
    fn a_header_has_no_channel_binding_and_may_name_somebody() {
        assert_eq!(parsed("n,,n=a,r=b"), Some(("n,,", None, "n=a,r=b")));
        let ada = Some("a,da".to_owned());
        assert_eq!(parsed("n,a=a=2Cda,"), Some(("n,a=a=2Cda,", ada, "")));
        for text in [
            "", "n", "n,", "n,a,", "n,b=x,", "n,a=,", "N,,", "p,,", "x,,",
        ] {
            let refusal = HeadedMessage::parse("message", text).unwrap_err();
            assert!(matches!(refusal, Refusal::Malformed { .. }), "{text}");
        }
        for text in ["y,,", "p=tls-unique,,", "p=,,"] {
            let refusal = HeadedMessage::parse("message", text).unwrap_err();
            assert_eq!(refusal, Refusal::ChannelBinding, "{text}");
        }
    }

    #[test]
    fn names_have_their_signs_escaped_and_nothing_else() {
        for (name, text) in [
            ("ada", "ada"),
            ("a=b,c", "a=3Db=2Cc"),
            ("=2C", "=3D2C"),
            ("\u{e4}\u{1f697} \n", "\u{e4}\u{1f697} \n"),
        ] {
            assert_eq!(encoded(name), text);
            assert_eq!(decoded("message", text).unwrap(), name);
        }
        for text in ["", "=", "a=", "=2c", "=3d", "a=2", "=41", "a\0b", "=\u{e4}"] {
            assert!(decoded("message", text).is_err(), "{text}");
        }
        assert!(decoded("message", &"x".repeat(NAME_BYTES_MAX)).is_ok());
        assert!(decoded("message", &"x".repeat(NAME_BYTES_MAX + 1)).is_err());
    }

    #[test]
    fn a_user_whose_name_no_message_can_hold_is_refused() {
        for name in ["a", "a=b,c", "\n\u{1b}", &"x".repeat(NAME_BYTES_MAX)] {
            assert_eq!(check_user(name), Ok(()));
        }
        for name in ["", "a\0", &"x".repeat(NAME_BYTES_MAX + 1)] {
            assert!(check_user(name).is_err(), "{name:?}");
        }
    }

    proptest! {
        #[test]
        fn every_name_comes_back(name in "[^\0]{1,80}") {
            let text = encoded(&name);
            prop_assert!(!text.contains(','));
            prop_assert_eq!(decoded("message", &text).unwrap(), name);
        }
    }
}
