"""Keys, certificates and stores for tests, made by OpenSSL."""

import subprocess

PASSWORD = "secret-of-a-store"


def openssl(*arguments, **more):
    return subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, timeout=60, **more)


class Keys:
    """An authority, and what it has issued, as files."""

    def __init__(self, home):
        self.home = home
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", 30,
                "-subj", "/CN=tests", "-keyout", home / "ca.key", "-out", home / "ca.pem")
        self.ca = home / "ca.pem"

    def issue(self, name, subject, kind="ec", names="DNS:localhost,IP:127.0.0.1", days=30):
        """A key and its certificate in one file, `name`.pem, and beside each other."""
        home = self.home
        new = ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"] if kind == "ec" else ["rsa:2048"]
        openssl("req", "-newkey", *new, "-nodes", "-subj", subject, "-keyout", home / f"{name}.key",
                "-out", home / f"{name}.csr")
        (home / "ext").write_text(f"subjectAltName={names}\n")
        openssl("x509", "-req", "-in", home / f"{name}.csr", "-CA", self.ca, "-CAkey", home / "ca.key", "-days", days,
                "-CAcreateserial", "-extfile", home / "ext", "-out", home / f"{name}.crt")
        whole = (home / f"{name}.key").read_text() + (home / f"{name}.crt").read_text()
        (home / f"{name}.new").write_text(whole)
        (home / f"{name}.new").chmod(0o600)
        (home / f"{name}.new").rename(home / f"{name}.pem")
        return home / f"{name}.pem"

    def pkcs12(self, name):
        store = self.home / f"{name}.p12"
        openssl("pkcs12", "-export", "-in", self.home / f"{name}.crt", "-inkey", self.home / f"{name}.key",
                "-certfile", self.ca, "-name", "key", "-passout", f"pass:{PASSWORD}", "-out", store)
        store.chmod(0o600)
        return store
