//! PLAIN (RFC 4616): one message with a name and a password, answered with nothing.
//!
//! As in Kafka: three parts divided by NUL, the name and the password are not empty, and an
//! authorization id is the name or empty. Kafka replaces bytes that are not UTF-8; here they are
//! refused.
//!
//! A server keeps no passwords but tags of them (HMAC with a key of the process), so it compares
//! values of one length, and comparing takes as long for an unknown user as for a known one.

use subtle::{Choice, ConstantTimeEq as _};

use super::names::{NAME_BYTES_MAX, check_name};
use super::refusal::{check_length, text};
use super::scram::ScramHash;
use super::{Refusal, Secret};

/// Maximum bytes of a password: some deployments send tokens as passwords.
pub const PASSWORD_BYTES_MAX: usize = 16 << 10;
/// Maximum bytes of the message.
pub const MESSAGE_BYTES_MAX: usize = PASSWORD_BYTES_MAX + 2 * NAME_BYTES_MAX + 2;

const MESSAGE: &str = "the PLAIN message";
const NUL: char = '\0';

/// What a client says.
#[derive(Debug)]
pub struct Login {
    authzid: String,
    name: String,
    password: Secret<String>,
}

impl Login {
    /// Reads the client's message.
    pub fn parse(bytes: &[u8]) -> Result<Self, Refusal> {
        let mut parts = text(MESSAGE, bytes, MESSAGE_BYTES_MAX)?.split(NUL);
        let next = (parts.next(), parts.next(), parts.next(), parts.next());
        let (Some(authzid), Some(name), Some(password), None) = next else {
            return Err(malformed("it does not have three parts"));
        };
        check_name(MESSAGE, name)?;
        check_password(password)?;
        check_length("the authorization id", authzid.len(), NAME_BYTES_MAX)?;
        Ok(Self {
            authzid: authzid.to_owned(),
            name: name.to_owned(),
            password: Secret::new(password.to_owned()),
        })
    }

    /// Returns the name of the user to look up, as the client sent it: it may hold any character
    /// but a NUL, among them those that move a terminal's cursor or end a line of a log.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the name of the user, if `expected` is the tag of the password.
    /// `None` is an unknown user.
    pub fn verify(
        self,
        key: &PasswordKey,
        expected: Option<&PasswordTag>,
    ) -> Result<String, Refusal> {
        let nobody = PasswordTag(Secret::new(vec![0; ScramHash::Sha256.bytes()]));
        let is_known = Choice::from(u8::from(expected.is_some()));
        let given = key.tag(&self.password);
        let expected = expected.unwrap_or(&nobody); // Refused below, in the same time.
        let is_equal = given.0.expose().ct_eq(expected.0.expose());
        if !bool::from(is_known & is_equal) {
            return Err(Refusal::Credentials);
        }
        if !self.authzid.is_empty() && self.authzid != self.name {
            return Err(Refusal::OtherIdentity);
        }
        Ok(self.name)
    }
}

/// A random key of this process, for [`PasswordTag`].
#[derive(Clone, Debug)]
pub struct PasswordKey(Secret<[u8; 32]>);

impl PasswordKey {
    /// Takes the key from 32 random bytes.
    pub fn of_random(random: [u8; 32]) -> Self {
        Self(Secret::new(random))
    }

    /// Returns what a server keeps of a password.
    pub fn tag(&self, password: &Secret<String>) -> PasswordTag {
        let bytes = password.expose().as_bytes();
        PasswordTag(ScramHash::Sha256.hmac(self.0.expose(), &[bytes]))
    }
}

/// What a server keeps of a password: enough to recognise it, while the process lives.
#[derive(Clone, Debug)]
pub struct PasswordTag(Secret<Vec<u8>>);

/// Refuses a user who could never log in: no message can hold the name or the password.
pub fn check(name: &str, password: &Secret<String>) -> Result<(), Refusal> {
    check_name(MESSAGE, name)?;
    let password = password.expose();
    check_password(password)?;
    if password.contains(NUL) {
        return Err(malformed("the password has a NUL"));
    }
    Ok(())
}

/// Returns the message of a client, which is all it has to send.
pub fn message(name: &str, password: &Secret<String>) -> Result<Secret<Vec<u8>>, Refusal> {
    check(name, password)?;
    let password = password.expose();
    let bytes = [b"\0", name.as_bytes(), b"\0", password.as_bytes()].concat();
    assert!(
        bytes.len() <= MESSAGE_BYTES_MAX,
        "a server takes what a client may send"
    );
    Ok(Secret::new(bytes))
}

fn check_password(password: &str) -> Result<(), Refusal> {
    check_length("the password", password.len(), PASSWORD_BYTES_MAX)?;
    if password.is_empty() {
        return Err(malformed("the password is empty"));
    }
    Ok(())
}

fn malformed(rule: &'static str) -> Refusal {
    Refusal::Malformed {
        message: MESSAGE,
        rule,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key() -> PasswordKey {
        PasswordKey::of_random([7; 32])
    }

    fn secret(text: &str) -> Secret<String> {
        Secret::new(text.to_owned())
    }

    /// Logs in where Ada's password is "pencil".
    fn login(bytes: &[u8]) -> Result<String, Refusal> {
        let login = Login::parse(bytes)?;
        let tag = key().tag(&secret("pencil"));
        let expected = (login.name() == "ada").then_some(&tag);
        login.verify(&key(), expected)
    }

    #[test]
    fn the_right_password_lets_its_user_in() {
        for bytes in [&b"\0ada\0pencil"[..], b"ada\0ada\0pencil"] {
            assert_eq!(login(bytes), Ok("ada".to_owned()));
        }
    }

    #[test]
    fn nobody_else_comes_in() {
        for bytes in [
            &b"\0ada\0pencil "[..],
            b"\0ada\0Pencil",
            b"\0ada\0penci",
            b"\0bob\0pencil",
            b"bob\0ada\0penci",
        ] {
            assert_eq!(login(bytes), Err(Refusal::Credentials));
        }
        assert_eq!(login(b"bob\0ada\0pencil"), Err(Refusal::OtherIdentity));
        let all_zero = Login::parse(b"\0ada\0x").unwrap();
        assert!(all_zero.verify(&key(), None).is_err());
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for bytes in [
            &b""[..],
            b"\0",
            b"\0ada",
            b"ada\0pencil",
            b"\0\0pencil",
            b"\0ada\0",
            b"\0ada\0pencil\0",
            b"\0ada\0pencil\0x",
            b"\0ada\0penc\xff",
            b"\0\xc3\0pencil",
        ] {
            let refusal = login(bytes).unwrap_err();
            assert!(matches!(refusal, Refusal::Malformed { .. }), "{bytes:?}");
        }
        let long = |name: usize, password: usize| {
            let bytes = format!("\0{}\0{}", "n".repeat(name), "p".repeat(password));
            Login::parse(bytes.as_bytes())
        };
        assert!(long(1024, PASSWORD_BYTES_MAX).is_ok());
        for (name, password) in [(1025, 1), (1, PASSWORD_BYTES_MAX + 1), (1, 1 << 20)] {
            let refusal = long(name, password).unwrap_err();
            assert!(matches!(refusal, Refusal::TooLong { .. }), "{refusal}");
        }
    }

    #[test]
    fn a_client_does_not_send_what_no_server_takes() {
        for (name, password) in [("", "x"), ("x", ""), ("a\0b", "x"), ("x", "a\0b")] {
            assert!(message(name, &secret(password)).is_err());
        }
        assert!(message("x", &secret(&"p".repeat(PASSWORD_BYTES_MAX + 1))).is_err());
    }

    #[test]
    fn a_password_is_not_shown() {
        let login = Login::parse(b"\0ada\0pencil").unwrap();
        let sent = message("ada", &secret("pencil")).unwrap();
        let shown = format!("{login:?} {sent:?} {:?}", key().tag(&secret("pencil")));
        assert!(shown.contains("ada") && !shown.contains("pencil") && !shown.contains("112"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(bytes in any::<Vec<u8>>()) {
            let _ = login(&bytes);
        }

        #[test]
        fn both_ends_agree(name in "[^\0]{1,40}", password in "[^\0]{1,40}", at in any::<usize>(), by in 1_u8..) {
            let password = secret(&password);
            let tag = key().tag(&password);
            let sent = message(&name, &password).unwrap();
            let login = Login::parse(sent.expose()).unwrap();
            prop_assert_eq!(login.name(), &name);
            prop_assert_eq!(login.verify(&key(), Some(&tag)), Ok(name.clone()));
            // One byte of it changed: another user, another identity, another password, or nothing.
            let mut changed = sent.expose().clone();
            let at = at % changed.len();
            changed[at] ^= by;
            let again = Login::parse(&changed).and_then(|login| {
                let expected = (login.name() == name).then_some(&tag);
                login.verify(&key(), expected)
            });
            prop_assert!(again.is_err());
        }
    }
}
