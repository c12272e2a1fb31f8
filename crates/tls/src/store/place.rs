//! Which of the settings of stores are a store, without looking at files: the combinations that
//! Kafka allows, and what is wrong with the others.

use std::path::PathBuf;

use crate::password::Password;
use crate::problem::TlsProblem;
use crate::settings::{Setting, StoreSettings};

/// Where a key and its chain are.
#[derive(Debug)]
pub(crate) enum KeyPlace<'a> {
    /// In the settings.
    Inline {
        key: &'a Setting<Password>,
        chain: &'a Setting<Password>,
    },
    /// In one file, as PEM.
    PemFile(&'a Setting<PathBuf>),
    /// In a PKCS#12 store.
    Pkcs12 {
        location: &'a Setting<PathBuf>,
        password: &'a Setting<Password>,
    },
}

/// Where trusted certificates are.
#[derive(Debug)]
pub(crate) enum TrustPlace<'a> {
    /// In the settings.
    Inline(&'a Setting<Password>),
    /// In a file, as PEM.
    PemFile(&'a Setting<PathBuf>),
    /// In a PKCS#12 store.
    Pkcs12 {
        location: &'a Setting<PathBuf>,
        password: Option<&'a Setting<Password>>,
    },
}

/// Types of stores.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StoreType {
    Pem,
    /// PKCS#12, or JKS, which is Kafka's default and stands for it as well.
    Pkcs12,
}

impl StoreType {
    fn of(setting: Option<&Setting<String>>) -> Result<Self, TlsProblem> {
        let Some(Setting { name, value }) = setting else {
            return Ok(Self::Pkcs12);
        };
        match value.to_ascii_uppercase().as_str() {
            "PEM" => Ok(Self::Pem),
            "PKCS12" | "JKS" => Ok(Self::Pkcs12),
            _ => Err(TlsProblem::of(
                name,
                "there is no such type of stores",
                "write PEM or PKCS12; keytool -importkeystore converts to PKCS12",
            )),
        }
    }
}

/// Returns where the key is; `None` if there is none.
pub(crate) fn key_place(settings: &StoreSettings) -> Result<Option<KeyPlace<'_>>, TlsProblem> {
    let kind = StoreType::of(settings.keystore_type.as_ref())?;
    let location = settings.keystore_location.as_ref();
    let password = settings.keystore_password.as_ref();
    let chain = settings.keystore_certificate_chain.as_ref();
    if let Some(key) = &settings.keystore_key {
        check_inline(
            settings,
            "ssl.keystore.type",
            kind,
            &key.name,
            location,
            password,
        )?;
        let Some(chain) = chain else {
            let advice = format!(
                "set {} to its certificates",
                settings.name_of("ssl.keystore.certificate.chain")
            );
            let why = "the certificates of the key are not given";
            return Err(TlsProblem::of(&key.name, why, advice));
        };
        return Ok(Some(KeyPlace::Inline { key, chain }));
    }
    if let Some(chain) = chain {
        let why = "the key of these certificates is not given";
        let advice = format!("set {}", settings.name_of("ssl.keystore.key"));
        return Err(TlsProblem::of(&chain.name, why, advice));
    }
    match (location, password, kind) {
        (Some(_), Some(password), StoreType::Pem) => Err(TlsProblem::of(
            &password.name,
            "a PEM file has no password as a whole",
            "take it out; that of the key is ssl.key.password",
        )),
        (Some(location), None, StoreType::Pem) => Ok(Some(KeyPlace::PemFile(location))),
        (Some(location), Some(password), StoreType::Pkcs12) => {
            Ok(Some(KeyPlace::Pkcs12 { location, password }))
        }
        (Some(location), None, StoreType::Pkcs12) => {
            let advice = format!(
                "set {}, or {}=PEM if it is PEM",
                settings.name_of("ssl.keystore.password"),
                settings.name_of("ssl.keystore.type")
            );
            let why = "the password of this store is not given";
            Err(TlsProblem::of(&location.name, why, advice))
        }
        (None, Some(password), _) => Err(TlsProblem::of(
            &password.name,
            "the store of this password is not given",
            format!("set {}", settings.name_of("ssl.keystore.location")),
        )),
        (None, None, _) => Ok(None),
    }
}

/// Returns where trusted certificates are; `None` if they are nowhere.
pub(crate) fn trust_place(settings: &StoreSettings) -> Result<Option<TrustPlace<'_>>, TlsProblem> {
    let kind = StoreType::of(settings.truststore_type.as_ref())?;
    let location = settings.truststore_location.as_ref();
    let password = settings.truststore_password.as_ref();
    if let Some(text) = &settings.truststore_certificates {
        check_inline(
            settings,
            "ssl.truststore.type",
            kind,
            &text.name,
            location,
            password,
        )?;
        return Ok(Some(TrustPlace::Inline(text)));
    }
    match (location, password, kind) {
        (Some(_), Some(password), StoreType::Pem) => Err(TlsProblem::of(
            &password.name,
            "a PEM file has no password",
            "take it out",
        )),
        (Some(location), None, StoreType::Pem) => Ok(Some(TrustPlace::PemFile(location))),
        (Some(location), password, StoreType::Pkcs12) => {
            Ok(Some(TrustPlace::Pkcs12 { location, password }))
        }
        (None, Some(password), _) => Err(TlsProblem::of(
            &password.name,
            "the store of this password is not given",
            format!("set {}", settings.name_of("ssl.truststore.location")),
        )),
        (None, None, _) => Ok(None),
    }
}

/// Checks what stands beside PEM in settings.
fn check_inline(
    settings: &StoreSettings,
    type_name: &str,
    kind: StoreType,
    inline: &str,
    location: Option<&Setting<PathBuf>>,
    password: Option<&Setting<Password>>,
) -> Result<(), TlsProblem> {
    if kind != StoreType::Pem {
        let advice = format!("set {}=PEM", settings.name_of(type_name));
        let why = "only PEM can be written into settings, and the type of the store is another";
        return Err(TlsProblem::of(inline, why, advice));
    }
    if let Some(location) = location {
        let why = format!("{inline} is given too, and only one of them can hold");
        return Err(TlsProblem::of(&location.name, why, "take one of them out"));
    }
    if let Some(password) = password {
        let why = "PEM has no password as a whole";
        let advice = "take it out; that of a key is ssl.key.password";
        return Err(TlsProblem::of(&password.name, why, advice));
    }
    Ok(())
}
