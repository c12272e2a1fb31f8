//! A value that no code may show by accident: passwords, tokens, keys.
//!
//! It is overwritten when it is dropped, and `Debug` does not show it. Not overwritten: what a
//! `String` or `Vec` leaves behind when it grows or a value when it is moved, copies of the caller,
//! and the states of hash functions, in which keys can be found until their place is used again.

use std::fmt;

use subtle::ConstantTimeEq as _;
use zeroize::{Zeroize, Zeroizing};

/// A secret value.
#[derive(Clone)]
pub struct Secret<T: Zeroize>(Zeroizing<T>);

impl<T: Zeroize> Secret<T> {
    /// Takes charge of a value.
    pub fn new(value: T) -> Self {
        Self(Zeroizing::new(value))
    }

    /// Returns the value. Its users are where a secret can leak.
    pub fn expose(&self) -> &T {
        &self.0
    }
}

impl<T: Zeroize> fmt::Debug for Secret<T> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("[hidden]")
    }
}

/// Takes as long whatever the bytes are; it does depend on the lengths.
impl<T: Zeroize + AsRef<[u8]>> PartialEq for Secret<T> {
    fn eq(&self, other: &Self) -> bool {
        let (one, other): (&[u8], &[u8]) = (self.expose().as_ref(), other.expose().as_ref());
        one.ct_eq(other).into()
    }
}

impl<T: Zeroize + AsRef<[u8]>> Eq for Secret<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown() {
        let secret = Secret::new("hunter2".to_owned());
        assert_eq!(
            format!("{secret:?} {:#?}", Some(&secret)).find("hunter"),
            None
        );
        assert_eq!(secret, Secret::new("hunter2".to_owned()));
        assert_ne!(secret, Secret::new("hunter3".to_owned()));
        assert_ne!(secret, Secret::new("hunter".to_owned()));
    }
}
