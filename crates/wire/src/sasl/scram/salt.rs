//! The forms that salts have, and salts of each form.
//!
//! Kafka's tools write a random number with base 36; other tools take random bytes, or text. The
//! form of a salt is what a client can tell of it that has seen it once.

/// The random bytes of a salt of Kafka's tools.
const NUMBER_BYTES: usize = 17;
/// Digits of such a number; hardly any has fewer.
const DIGITS: std::ops::RangeInclusive<usize> = 22..=DIGITS_MAX;
/// The most digits of a number of 130 bits with base 36. Those with all of them begin with a 1.
const DIGITS_MAX: usize = 26;

const HEX: &[u8] = b"0123456789abcdef";
const BASE_36: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyz";
const ALPHANUMERIC: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// What salts have in common.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum SaltForm {
    /// A number of 130 bits with base 36, as Kafka's tools make it.
    Number,
    /// Signs of an alphabet.
    Signs {
        /// The alphabet.
        alphabet: &'static [u8],
        /// How many.
        count: usize,
    },
    /// Bytes of any value.
    Bytes {
        /// How many.
        count: usize,
    },
}

impl SaltForm {
    /// Returns the form of a salt: of those that fit, the narrowest.
    pub(super) fn of(salt: &[u8]) -> Self {
        let count = salt.len();
        let is_of = |alphabet: &[u8]| salt.iter().all(|sign| alphabet.contains(sign));
        let is_number = || match salt {
            [b'0', ..] => false,
            [b'1', ..] => DIGITS.contains(&count),
            _ => DIGITS.contains(&count) && count < DIGITS_MAX,
        };
        let signs = |alphabet| Self::Signs { alphabet, count };
        if is_of(HEX) {
            signs(HEX)
        } else if is_of(BASE_36) && is_number() {
            Self::Number
        } else if is_of(BASE_36) {
            signs(BASE_36)
        } else if is_of(ALPHANUMERIC) {
            signs(ALPHANUMERIC)
        } else {
            Self::Bytes { count }
        }
    }

    /// Returns how many random bytes a salt of this form is made of.
    pub(super) fn random_bytes(self) -> usize {
        match self {
            Self::Number => NUMBER_BYTES,
            Self::Signs { count, .. } | Self::Bytes { count } => count,
        }
    }

    /// Returns the salt of this form that is made of the first of these random bytes.
    pub(super) fn salt(self, random: &[u8]) -> Vec<u8> {
        let needed = random.get(..self.random_bytes());
        let random = needed.expect("the caller has as many random bytes as the form takes");
        let made: Vec<u8> = match self {
            Self::Number => salt(*random.first_chunk().expect("as many as were taken")),
            Self::Signs { alphabet, .. } => {
                let sign = |byte: &u8| alphabet.get(usize::from(*byte) % alphabet.len());
                random.iter().filter_map(sign).copied().collect()
            }
            Self::Bytes { .. } => random.to_vec(),
        };
        assert!(
            self == Self::Number || made.len() == random.len(),
            "each random byte makes a sign"
        );
        made
    }
}

/// Returns a new salt, made of 17 random bytes, of the form that Kafka's tools give theirs: a
/// number of 130 bits with base 36.
pub fn salt(random: [u8; NUMBER_BYTES]) -> Vec<u8> {
    let mut number = random;
    let [first, ..] = &mut number;
    *first &= 0b11;
    let mut digits = Vec::with_capacity(DIGITS_MAX);
    loop {
        let mut rest = 0;
        for byte in &mut number {
            let here = rest * 256 + u32::from(*byte);
            *byte = u8::try_from(here / 36).expect("the rest is less than 36");
            rest = here % 36;
        }
        let digit = char::from_digit(rest, 36).and_then(|digit| u8::try_from(digit).ok());
        digits.push(digit.expect("the rest is less than 36"));
        if number.iter().all(|byte| *byte == 0) {
            break;
        }
    }
    assert!(
        digits.len() <= DIGITS_MAX,
        "36 to the power of 26 is more than 130 bits"
    );
    digits.reverse();
    digits
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn salts_are_numbers_of_130_bits_with_base_36() {
        // As Python converts them.
        let cases: [([u8; 17], &str); 4] = [
            ([0; 17], "0"),
            ([0xfc; 17], "ez6uz7hcaq7bct63a1rip2iv0"),
            ([0xff; 17], "1omfro7zwmumr3umxudzyj6scf"),
            ([1; 17], "f7qywc66s1h590hm6s2ta1f5t"),
        ];
        for (random, text) in cases {
            assert_eq!(salt(random), text.as_bytes());
        }
    }

    #[test]
    fn a_salt_has_the_narrowest_form_that_fits() {
        let signs = |alphabet, count| SaltForm::Signs { alphabet, count };
        for (salt, form) in [
            ("ez6uz7hcaq7bct63a1rip2iv0", SaltForm::Number),
            ("1omfro7zwmumr3umxudzyj6scf", SaltForm::Number),
            // More than 130 bits; with a zero in front.
            ("2omfro7zwmumr3umxudzyj6scf", signs(BASE_36, 26)),
            ("0omfro7zwmumr3umxudzyj6sc", signs(BASE_36, 25)),
            ("salt", signs(BASE_36, 4)),
            ("0123456789abcdef01234567", signs(HEX, 24)),
            ("", signs(HEX, 0)),
            ("Salt7", signs(ALPHANUMERIC, 5)),
            ("salt of ada", SaltForm::Bytes { count: 11 }),
            ("W22ZaJ0SNY7soEsUEjb6gQ==", SaltForm::Bytes { count: 24 }),
        ] {
            assert_eq!(SaltForm::of(salt.as_bytes()), form, "{salt}");
        }
    }

    proptest! {
        #[test]
        fn what_is_made_of_random_bytes_has_the_form(random in any::<[u8; 64]>(), of in 40_usize..64) {
            for form in [
                SaltForm::Number,
                SaltForm::Signs { alphabet: HEX, count: of },
                SaltForm::Signs { alphabet: BASE_36, count: of },
                SaltForm::Signs { alphabet: ALPHANUMERIC, count: of },
                SaltForm::Bytes { count: of },
            ] {
                let made = form.salt(&random);
                let is_rare = form == SaltForm::Number && made.len() < *DIGITS.start();
                prop_assert!(is_rare || SaltForm::of(&made) == form, "{form:?}: {made:?}");
            }
        }
    }
}
