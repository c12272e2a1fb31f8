//! Files of keys and certificates that fit, and others.

use rcgen::{CertificateParams, CertifiedIssuer, KeyPair};

use super::*;
use crate::tls::view::Status;

const CLOCK: Clock = Clock {
    now: 1_893_456_000,
    warn_days: 30,
};

struct MadeFiles {
    folder: tempfile::TempDir,
    root: CertifiedIssuer<'static, KeyPair>,
}

impl MadeFiles {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, "root");
        Self {
            folder: tempfile::tempdir().unwrap(),
            root: CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap(),
        }
    }

    /// A key and its certificate, as PEM.
    fn issue(&self, until: i32) -> (String, String) {
        let mut params = CertificateParams::new(vec!["a".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(until, 1, 10);
        let key = KeyPair::generate().unwrap();
        let own = params.signed_by(&key, &self.root).unwrap();
        (key.serialize_pem(), own.pem())
    }

    fn write(&self, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }
}

#[track_caller]
fn check(files: &[&PathBuf], expect: &[(Status, &str)]) {
    let files: Vec<_> = files.iter().map(|path| (*path).clone()).collect();
    let found = reports(&files, None, CLOCK).unwrap();
    assert!(!text(&found).contains("PRIVATE"));
    assert_eq!(found.len(), expect.len());
    for (report, (status, words)) in found.iter().zip(expect) {
        let findings = &report.findings;
        assert_eq!(findings.status, *status, "{findings:?}");
        let told = [findings.problems.concat(), findings.warnings.concat()].concat();
        assert!(told.contains(words), "{words}: {findings:?}");
    }
}

#[test]
fn a_key_and_its_chain_are_fine_and_everything_else_is_told() {
    use Status::{Broken, Expires, Fine};
    let made = MadeFiles::new();
    let (key, own) = made.issue(2035);
    let (other_key, other) = made.issue(2035);
    let (old_key, old) = made.issue(2029);
    let (soon_key, soon) = made.issue(2030);
    let root = made.root.pem();
    let file = |name: &str, parts: &[&str]| made.write(name, &parts.concat(), 0o600);
    let fine = file("fine.pem", &[&key, &own, &root]);
    check(&[&fine], &[(Fine, "")]);
    check(&[&file("ca.pem", &[&root])], &[(Fine, "")]);
    check(
        &[&file("cas.pem", &[&root, &MadeFiles::new().root.pem()])],
        &[(Fine, "")],
    );
    let wrong = file("wrong.pem", &[&other_key, &own]);
    check(
        &[&wrong],
        &[(Broken, "belongs to no certificate of its file")],
    );
    let reversed = file("reversed.pem", &[&key, &root, &own]);
    check(
        &[&reversed],
        &[(Broken, "number 2, and has to be the first")],
    );
    let torn = file("chain.pem", &[&own, &other, &root]);
    check(&[&torn], &[(Broken, "is not issued by certificate 2")]);
    check(
        &[&file("old.pem", &[&old_key, &old])],
        &[(Broken, "has expired on 2029")],
    );
    check(
        &[&file("soon.pem", &[&soon_key, &soon])],
        &[(Expires, "expires in 9 days")],
    );
    check(&[&file("none.pem", &["hello"])], &[(Broken, "neither PEM")]);
    check(
        &[&made.folder.path().join("nowhere")],
        &[(Broken, "no such file")],
    );
    let open = made.write("open.pem", &[key.as_str(), &own].concat(), 0o644);
    check(&[&open], &[(Fine, "mode 0644")]);
    let loose = made.write("loose.pem", &root, 0o666);
    check(&[&loose], &[(Fine, "may write it")]);
}

#[test]
fn a_key_and_its_certificate_may_be_in_two_files() {
    use Status::{Broken, Fine};
    let made = MadeFiles::new();
    let ((key, own), (_, other)) = (made.issue(2035), made.issue(2035));
    let key = made.write("a.key", &key, 0o600);
    let own = made.write("a.crt", &own, 0o644);
    let other = made.write("b.crt", &other, 0o644);
    check(&[&key, &own], &[(Fine, ""), (Fine, "")]);
    check(
        &[&key, &other],
        &[(Broken, "none of the certificates"), (Fine, "")],
    );
    check(&[&key], &[(Fine, "no certificate was named")]);
}
