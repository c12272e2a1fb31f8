//! Who is let in by a certificate: what rustls verifies, with what Java trusts besides, and a bound
//! on chains.
//!
//! Java trusts a certificate that is itself in the trust store, by any issuer and even if it may
//! issue others; many trust stores for Kafka hold the certificates of single clients. The broker
//! accepts such a certificate too, within its time and if it is for this purpose.
//!
//! Invariants: what is expired, revoked, signed wrongly or for another purpose is never taken; a
//! certificate that is not in the store is taken only if rustls takes it. Not here: who the client
//! is (`principal`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use aws_lc_rs::digest;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, VerifierBuilderError, WebPkiClientVerifier};
use rustls::{
    CertRevocationListError, CertificateError, DigitallySignedStruct, DistinguishedName, Error,
    OtherError, RootCertStore, SignatureScheme,
};
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, ServerName, UnixTime};
use x509_parser::prelude::{CertificateRevocationList, FromDer as _, X509Certificate};

use crate::bounds::CHAIN_MAX;
use crate::certificate::CertificateFacts;
use crate::problem::TlsProblem;

/// Maximum size of the names of issuers that the broker sends to clients, in bytes: they are in one
/// message of the handshake. Above it the broker sends none, which leaves the choice to the client.
const HINTS_BYTES_MAX: usize = 16 << 10;

/// Trusted certificates as a trust store holds them.
pub(crate) struct Trust {
    roots: Arc<RootCertStore>,
    itself: TrustedThemselves,
    lists: Vec<CertificateRevocationListDer<'static>>,
}

impl Trust {
    /// Takes the certificates of a store, and returns how many of them cannot be read.
    pub(crate) fn of(
        trusted: &[CertificateDer<'static>],
        lists: Vec<CertificateRevocationListDer<'static>>,
    ) -> (Self, usize) {
        let mut roots = RootCertStore::empty();
        let (_, unreadable) = roots.add_parsable_certificates(trusted.iter().cloned());
        let trust = Self {
            roots: Arc::new(roots),
            itself: TrustedThemselves::of(trusted, &lists),
            lists,
        };
        (trust, unreadable)
    }

    /// Returns what verifies clients; those without a certificate get in if `may_be_without`.
    pub(crate) fn for_clients(
        self,
        provider: &Arc<CryptoProvider>,
        may_be_without: bool,
    ) -> Result<Arc<dyn ClientCertVerifier>, VerifierBuilderError> {
        let hints: usize = self
            .roots
            .subjects()
            .iter()
            .map(|name| name.as_ref().len())
            .sum();
        let mut builder =
            WebPkiClientVerifier::builder_with_provider(self.roots, Arc::clone(provider))
                .with_crls(self.lists)
                .allow_unknown_revocation_status();
        if hints > HINTS_BYTES_MAX {
            builder = builder.clear_root_hint_subjects();
        }
        if may_be_without {
            builder = builder.allow_unauthenticated();
        }
        Ok(Arc::new(VerifiedClients {
            chains: builder.build()?,
            itself: self.itself,
        }))
    }

    /// Returns what verifies servers, and their names if `checks_host`.
    pub(crate) fn for_servers(
        self,
        provider: &Arc<CryptoProvider>,
        checks_host: bool,
    ) -> Result<Arc<dyn ServerCertVerifier>, VerifierBuilderError> {
        let builder = WebPkiServerVerifier::builder_with_provider(self.roots, Arc::clone(provider))
            .with_crls(self.lists)
            .allow_unknown_revocation_status();
        Ok(Arc::new(VerifiedServers {
            chains: builder.build()?,
            itself: self.itself,
            checks_host,
        }))
    }
}

/// Says why a trust store and its revocation lists cannot be used.
pub(crate) fn problem_of(
    error: &VerifierBuilderError,
    trust_setting: &str,
    list_setting: &str,
) -> TlsProblem {
    match error {
        VerifierBuilderError::InvalidCrl(error) => {
            let (why, advice) = texts_of_list(error);
            TlsProblem::of(list_setting, why, advice)
        }
        _ => TlsProblem::of(
            trust_setting,
            "no certificate in it can be read",
            "name certificates of X.509",
        ),
    }
}

/// Says why a revocation list cannot be used, and what to do.
fn texts_of_list(error: &CertRevocationListError) -> (&'static str, &'static str) {
    match error {
        CertRevocationListError::UnsupportedDeltaCrl => (
            "a revocation list in it has only what has changed since another one (a delta)",
            "name the whole list of the authority",
        ),
        CertRevocationListError::UnsupportedIndirectCrl => (
            "a revocation list in it is for certificates of several issuers (an indirect list)",
            "name the list of each authority for its own certificates",
        ),
        CertRevocationListError::UnsupportedCrlVersion => (
            "a revocation list in it is not of version 2",
            "have the authority issue one of version 2",
        ),
        CertRevocationListError::UnsupportedCriticalExtension
        | CertRevocationListError::UnsupportedRevocationReason => (
            "a revocation list in it has a critical extension, or a reason, that is not known here",
            "have the authority issue one without: openssl crl -in FILE -noout -text shows them",
        ),
        _ => (
            "a revocation list in it cannot be read",
            "if openssl crl -in OLD -out NEW reads it, name NEW; if not, get it from the authority \
             again",
        ),
    }
}

/// Certificates that are trusted by themselves, by SHA-256.
#[derive(Debug)]
struct TrustedThemselves {
    // Bounded: `bounds::TRUSTED_MAX`.
    all: BTreeSet<Vec<u8>>,
    /// Those of them that a list of their issuer names, which is not in the store: no chain leads
    /// there, so rustls does not look them up.
    revoked: BTreeSet<Vec<u8>>,
}

impl TrustedThemselves {
    fn of(trusted: &[CertificateDer<'_>], lists: &[CertificateRevocationListDer<'_>]) -> Self {
        let mut by_issuer = BTreeMap::<Vec<u8>, BTreeMap<Vec<u8>, Vec<Vec<u8>>>>::new();
        for certificate in trusted {
            if let Ok((_, read)) = X509Certificate::from_der(certificate) {
                let of_issuer = by_issuer.entry(read.issuer().as_raw().to_vec());
                let of_serial = of_issuer.or_default().entry(read.raw_serial().to_vec());
                of_serial.or_default().push(digest_of(certificate));
            }
        }
        let mut revoked = BTreeSet::new();
        for list in lists {
            let Ok((_, list)) = CertificateRevocationList::from_der(list) else {
                // What verifies chains refuses it.
                continue;
            };
            if let Some(of_issuer) = by_issuer.get(list.issuer().as_raw()) {
                let named = list.iter_revoked_certificates();
                let digests = named.filter_map(|it| of_issuer.get(it.raw_serial()));
                revoked.extend(digests.flatten().cloned());
            }
        }
        Self {
            all: trusted.iter().map(|it| digest_of(it)).collect(),
            revoked,
        }
    }

    /// Decides again about a certificate that did not verify: it may be trusted by itself.
    fn again(
        &self,
        error: Error,
        certificate: &CertificateDer<'_>,
        now: UnixTime,
        is_for: impl Fn(&CertificateFacts) -> bool,
    ) -> Result<(), Error> {
        let digest = digest_of(certificate);
        if !may_be_trusted_itself(&error) || !self.all.contains(&digest) {
            return Err(error);
        }
        if self.revoked.contains(&digest) {
            return Err(CertificateError::Revoked.into());
        }
        let facts = CertificateFacts::of(certificate);
        let facts = facts.ok_or(CertificateError::BadEncoding)?;
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        if now > facts.not_after {
            return Err(CertificateError::Expired.into());
        }
        if now < facts.not_before {
            return Err(CertificateError::NotValidYet.into());
        }
        if !is_for(&facts) {
            return Err(CertificateError::InvalidPurpose.into());
        }
        Ok(())
    }
}

fn digest_of(der: &[u8]) -> Vec<u8> {
    digest::digest(&digest::SHA256, der).as_ref().to_vec()
}

/// Returns true for what says that a chain leads nowhere, or that its end may issue others. A
/// certificate of the store need not lead anywhere: the bytes are those that are trusted. What says
/// more about it stands.
fn may_be_trusted_itself(error: &Error) -> bool {
    matches!(
        error,
        Error::InvalidCertificate(
            CertificateError::UnknownIssuer
                | CertificateError::BadSignature
                | CertificateError::Other(_)
        )
    )
}

fn check_length(intermediates: &[CertificateDer<'_>]) -> Result<(), Error> {
    if intermediates.len() >= CHAIN_MAX {
        let why = OtherError(Arc::new(TooLong));
        return Err(CertificateError::Other(why).into());
    }
    Ok(())
}

struct TooLong;

/// In words: rustls shows an error of ours in this form.
impl std::fmt::Debug for TooLong {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, to)
    }
}

impl std::fmt::Display for TooLong {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "the chain has more than {CHAIN_MAX} certificates")
    }
}

impl std::error::Error for TooLong {}

/// The part of a verifier that is about signatures: that of what verifies its chains.
macro_rules! signatures_as_in_chains {
    () => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            self.chains.verify_tls12_signature(message, cert, dss)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            self.chains.verify_tls13_signature(message, cert, dss)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.chains.supported_verify_schemes()
        }
    };
}

/// Verifies clients.
#[derive(Debug)]
struct VerifiedClients {
    chains: Arc<dyn ClientCertVerifier>,
    itself: TrustedThemselves,
}

impl ClientCertVerifier for VerifiedClients {
    fn offer_client_auth(&self) -> bool {
        self.chains.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.chains.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chains.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        check_length(intermediates)?;
        let verified = self
            .chains
            .verify_client_cert(end_entity, intermediates, now);
        verified.or_else(|error| {
            let is_for = |facts: &CertificateFacts| facts.purposes.is_for_clients;
            let again = self.itself.again(error, end_entity, now, is_for);
            again.map(|()| ClientCertVerified::assertion())
        })
    }

    signatures_as_in_chains!();
}

/// Verifies servers.
#[derive(Debug)]
struct VerifiedServers {
    chains: Arc<WebPkiServerVerifier>,
    itself: TrustedThemselves,
    checks_host: bool,
}

impl VerifiedServers {
    fn check_host(&self, server: &CertificateDer<'_>, name: &ServerName<'_>) -> Result<(), Error> {
        if !self.checks_host {
            return Ok(());
        }
        verify_server_name(&ParsedCertificate::try_from(server)?, name)
    }
}

impl ServerCertVerifier for VerifiedServers {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        check_length(intermediates)?;
        let verified = self.chains.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match verified {
            // The name is looked at last: all else is verified (a test holds rustls to this).
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.checks_host => Ok(ServerCertVerified::assertion()),
            Err(error) => {
                let is_for = |facts: &CertificateFacts| facts.purposes.is_for_servers;
                self.itself.again(error, end_entity, now, is_for)?;
                self.check_host(end_entity, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    signatures_as_in_chains!();
}

/// What may be wrong with a certificate that rustls has no public name for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnnamedFault {
    /// It is of version 1, as openssl makes one without extensions.
    OldVersion,
    /// It may issue others, and is not one to show to a peer, unless the peer trusts it by itself.
    /// `openssl req -x509` makes such a one.
    IsAuthority,
}

impl UnnamedFault {
    /// Returns what is wrong; `None` if it is something else.
    pub fn of(error: &CertificateError) -> Option<Self> {
        let CertificateError::Other(why) = error else {
            return None;
        };
        // As the crate that verifies names it.
        let why = format!("{why:?}");
        if why.contains("UnsupportedCertVersion") {
            Some(Self::OldVersion)
        } else if why.contains("CaUsedAsEndEntity") {
            Some(Self::IsAuthority)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::made::{params, self_signed};

    /// The names are those of another crate, which may change them.
    #[test]
    fn faults_without_a_public_name_are_known() {
        let authority = self_signed(&{
            let mut made = params("root", &[]);
            made.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
            made
        });
        let old = include_bytes!("../tests/golden/version-1.pem");
        // Behind its key.
        let old = crate::pem::sections(old).unwrap()[1].der.to_vec();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        for (der, fault) in [
            (
                authority.certificate.der().to_vec(),
                UnnamedFault::IsAuthority,
            ),
            (old, UnnamedFault::OldVersion),
        ] {
            let der = CertificateDer::from(der);
            let (trust, _) = Trust::of(&[authority.certificate.der().clone()], Vec::new());
            let itself = TrustedThemselves::of(&[], &[]);
            let verifier =
                WebPkiClientVerifier::builder_with_provider(trust.roots, Arc::clone(&provider));
            let verifier = VerifiedClients {
                chains: verifier.build().unwrap(),
                itself,
            };
            let now = UnixTime::since_unix_epoch(Duration::from_secs(1_790_000_000));
            match verifier.verify_client_cert(&der, &[], now) {
                Err(Error::InvalidCertificate(why)) => {
                    assert_eq!(UnnamedFault::of(&why), Some(fault), "{why:?}");
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(UnnamedFault::of(&CertificateError::Expired), None);
    }

    /// What rustls says first of a certificate may be less than all that is wrong with it.
    #[test]
    fn a_certificate_is_trusted_by_itself_within_its_time_only() {
        let mut made = params("ada", &[]);
        made.not_before = rcgen::date_time_ymd(2020, 1, 1);
        made.not_after = rcgen::date_time_ymd(2021, 1, 1);
        let der = self_signed(&made).certificate.der().clone();
        let trusted = TrustedThemselves::of(std::slice::from_ref(&der), &[]);
        let year = |year: u64| {
            let days = (year - 1970) * 365 + (year - 1970) / 4 + 30;
            UnixTime::since_unix_epoch(Duration::from_hours(days * 24))
        };
        let at = |now| trusted.again(CertificateError::UnknownIssuer.into(), &der, now, |_| true);
        assert_eq!(at(year(2020)), Ok(()));
        assert_eq!(at(year(2019)), Err(CertificateError::NotValidYet.into()));
        assert_eq!(at(year(2021)), Err(CertificateError::Expired.into()));
    }
}
