"""The cases of tlsscan.py; run by the Python of fetch.python."""

import datetime
import ipaddress
import json
import os
import signal
import socket
import ssl
import struct
import subprocess
import sys
import time
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from tlslite.api import HandshakeSettings, TLSConnection
from tlslite.errors import BaseTLSException

GIVEN, WORK = json.loads(sys.argv[1]), Path(sys.argv[2])
WAIT = 20
REFUSED = (BaseTLSException, OSError)
VERSIONS = {"SSL 3": (3, 0), "TLS 1.0": (3, 1), "TLS 1.1": (3, 2), "TLS 1.2": (3, 3), "TLS 1.3": (3, 4)}
NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)


def connected(address):
    host, port = address.split(":")
    plain = socket.create_connection((host, int(port)), timeout=WAIT)
    plain.settimeout(WAIT)
    return plain


def api_versions(stream):
    """A request of Kafka, and whether it is answered."""
    stream.sendall(struct.pack(">ihhih", 10, 18, 0, 7, -1))
    length = stream.recv(4)
    return len(length) == 4


# tlslite-ng


def settings(low=(3, 3), high=(3, 4), **more):
    found = HandshakeSettings()
    found.minVersion, found.maxVersion = low, high
    if high < (3, 4):
        found.versions = [version for version in found.versions if version <= high]
    for name, value in more.items():
        setattr(found, name, value)
    return found


def shaken(address=None, session=None, **more):
    """A connection of tlslite-ng after its handshake and a request."""
    connection = TLSConnection(connected(address or GIVEN["tls"]))
    connection.handshakeClientCert(settings=settings(**more), session=session, serverName="localhost")
    connection.sendall(struct.pack(">ihhih", 10, 18, 0, 7, -1))
    assert len(connection.recv(4)) == 4, "no answer"
    return connection


def refused(**more):
    try:
        shaken(**more)
    except REFUSED:
        return
    raise AssertionError("let in")


def versions():
    for name, version in VERSIONS.items():
        if version < (3, 3):
            refused(low=version, high=version)
        else:
            connection = shaken(low=version, high=version)
            assert connection.version == version, (name, connection.version)
            connection.close()


def old_suites():
    for names in (["aes128", "aes256"], ["3des"], ["rc4"]):
        refused(low=(3, 3), high=(3, 3), cipherNames=names, macNames=["sha", "sha256", "sha384", "md5"])


def old_key_exchanges():
    for names in (["rsa"], ["dhe_rsa"], ["ecdhe_rsa"]):
        refused(low=(3, 3), high=(3, 3), keyExchangeNames=names)


def suites():
    for names in (["aes128gcm"], ["aes256gcm"], ["chacha20-poly1305"]):
        for version in ((3, 3), (3, 4)):
            shaken(low=version, high=version, cipherNames=names).close()


def falling_back():
    """A client that knows TLS 1.3 and is made to ask for 1.2 sees it by the end of the server's random (RFC 8446, 4.1.3)."""
    plain = connected(GIVEN["tls"])
    context = ssl.create_default_context(cafile=GIVEN["ca"])
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    seen, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(seen, out, server_hostname="localhost")
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        pass
    plain.sendall(out.read())
    answer = plain.recv(16384)
    assert answer[0] == 22 and answer[5] == 2, answer[:6].hex()
    assert answer[11:43].endswith(b"DOWNGRD\x01"), answer[11:43].hex()


def resumption():
    """A ticket is good until the certificate changes."""
    for version in ((3, 3), (3, 4)):
        first = shaken(low=version, high=version)
        first.close()
        second = shaken(session=first.session, low=version, high=version)
        assert second.resumed, f"{version}: not resumed"
        second.close()


def resumption_after_a_change():
    if GIVEN["kind"] != "forebay":
        return
    before = {version: held(version) for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)}
    authority = x509.load_pem_x509_certificate(Path(GIVEN["ca"]).read_bytes())
    key, certificate = issued("server", x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "server"),
                                                   x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Example")]), authority)
    place = Path(GIVEN["pem"])
    whole = place.with_suffix(".next")
    whole.touch(0o600)
    whole.write_bytes(key + certificate)
    old = serial()
    whole.rename(place)
    os.kill(GIVEN["pid"], signal.SIGHUP)
    deadline = time.monotonic() + WAIT
    while serial() == old:
        assert time.monotonic() < deadline, "the certificate does not change"
        time.sleep(0.1)
    for version, (context, first) in before.items():
        # It goes on, and what it would resume by is worth nothing.
        assert api_versions(first)
        _, second = held(version, context, first.session)
        assert not second.session_reused, f"{version.name}: resumed"
        # OpenSSL resumes where it can.
        _, third = held(version, context, second.session)
        assert third.session_reused, f"{version.name}: not resumed"
        for one in (first, second, third):
            one.close()


def held(version, context=None, session=None):
    """A connection of OpenSSL after a request, and its context."""
    if context is None:
        context = ssl.create_default_context(cafile=GIVEN["ca"])
        context.minimum_version = context.maximum_version = version
    secured = context.wrap_socket(connected(GIVEN["tls"]), server_hostname="localhost", session=session)
    assert api_versions(secured)
    return context, secured


def serial():
    context = ssl.create_default_context(cafile=GIVEN["ca"])
    with context.wrap_socket(connected(GIVEN["tls"]), server_hostname="localhost") as secured:
        return secured.getpeercert()["serialNumber"]


def small_records():
    shaken(record_size_limit=64).close()


def what_is_no_tls():
    """Each is closed without an answer of Kafka, in time."""
    hello = b"\x16\x03\x01"
    for name, sent in {
        "garbage": os.urandom(600), "zeros": bytes(5000), "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "sslv2": bytes.fromhex("802e0100020015000000100100800200800300800400800500800600400700c0") + bytes(16),
        "too long a record": hello + struct.pack(">H", 0xFFFF) + bytes(0xFFFF),
        "too long a hello": b"".join(hello + struct.pack(">H", 16384) + (b"\x01\xff\xff\xff" + bytes(16380) if n == 0 else bytes(16384))
                                     for n in range(40)),
        "no suites": hello + struct.pack(">H", 45) + b"\x01\x00\x00\x29\x03\x03" + bytes(32) + b"\x00\x00\x00\x01\x00\x00\x00",
        "an alert": b"\x15\x03\x03\x00\x02\x02\x28", "data first": b"\x17\x03\x03\x00\x20" + bytes(32),
        "empty records": (b"\x16\x03\x03\x00\x00") * 2000,
    }.items():
        plain = connected(GIVEN["tls"])
        try:
            plain.sendall(sent)
            plain.shutdown(socket.SHUT_WR)
            got = b""
            while part := plain.recv(4096):
                got += part
        except (ConnectionResetError, BrokenPipeError):
            got = b""
        except TimeoutError:
            raise AssertionError(f"{name}: not closed") from None
        assert len(got) < 100 and got[:1] in (b"", b"\x15"), f"{name}: {got[:40]!r}"
        plain.close()


# Client certificates


def issued(name, subject, authority, days=(-1, 30), usages=(), extra=(), signer=None, key=None):
    """A key and a certificate of an authority, as PEM."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    signer = signer or serialization.load_pem_private_key(Path(GIVEN["ca_key"]).read_bytes(), None)
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(authority.subject).public_key(key.public_key())
    made = made.serial_number(x509.random_serial_number()).not_valid_before(NOW + days[0] * DAY).not_valid_after(NOW + days[1] * DAY)
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
    if usages:
        made = made.add_extension(x509.ExtendedKeyUsage(usages), False)
    for extension in extra:
        made = made.add_extension(extension, True)
    certificate = made.sign(signer, hashes.SHA256())
    plain = serialization.NoEncryption()
    key = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    return key, certificate.public_bytes(serialization.Encoding.PEM)


def named(text, kind=NameOID.COMMON_NAME):
    return x509.Name([x509.NameAttribute(kind, text)])


def enters(name, pem):
    """Whether a client with this key and chain is answered."""
    file = WORK / f"{name.replace(' ', '-')}.pem"
    file.write_bytes(pem)
    context = ssl.create_default_context(cafile=GIVEN["ca"])
    context.load_cert_chain(file)
    try:
        with context.wrap_socket(connected(GIVEN["mutual"]), server_hostname="localhost") as secured:
            return api_versions(secured)
    except (ssl.SSLError, ConnectionResetError, BrokenPipeError):
        return False


def client_certificates():
    authority = x509.load_pem_x509_certificate(Path(GIVEN["ca"]).read_bytes())
    client, server = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH
    one = named("ada")
    other_key = ec.generate_private_key(ec.SECP256R1())
    may_issue = x509.BasicConstraints(ca=True, path_length=None)
    wanted = {
        "good": (b"".join(issued("a", one, authority)), True),
        "good for clients": (b"".join(issued("a", one, authority, usages=[client])), True),
        "expired": (b"".join(issued("a", one, authority, days=(-9, -1))), False),
        "not yet": (b"".join(issued("a", one, authority, days=(1, 9))), False),
        "for servers": (b"".join(issued("a", one, authority, usages=[server])), False),
        "of another authority": (b"".join(issued("a", one, authority, signer=other_key)), False),
        "an unknown critical extension": (b"".join(issued("a", one, authority, extra=[
            x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4.5"), b"\x05\x00")])), False),
        "a long name": (b"".join(issued("a", x509.Name([x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, f"unit {n} " + "x" * 40)
                                                        for n in range(40)]), authority)), True),
    }
    for name, (pem, expected) in wanted.items():
        assert enters(name, pem) == expected, f"{name}: {'refused' if expected else 'let in'}"
    # A chain of a hundred, each signed by the one before.
    issuer, signer, chain = authority, None, b""
    for number in range(100):
        key = ec.generate_private_key(ec.SECP256R1())
        _, pem = issued("ca", named(f"authority {number}"), issuer, extra=[may_issue], signer=signer, key=key)
        chain = pem + chain
        issuer, signer = x509.load_pem_x509_certificate(pem), key
    key, leaf = issued("a", one, issuer, signer=signer)
    assert not enters("a chain of a hundred", key + leaf + chain), "a chain of a hundred: let in"
    # An issuer that may not issue.
    key = ec.generate_private_key(ec.SECP256R1())
    _, pem = issued("ca", named("no authority"), authority, key=key)
    own, leaf = issued("a", one, x509.load_pem_x509_certificate(pem), signer=key)
    assert not enters("an issuer that may not issue", own + leaf + pem), "an issuer that may not issue: let in"
    assert enters("good after all of these", wanted["good"][0])


def odd_names():
    """Names as few authorities write them: whether they are let in or not, the others still are."""
    authority = x509.load_pem_x509_certificate(Path(GIVEN["ca"]).read_bytes())
    good = b"".join(issued("a", named("ada"), authority))
    for number, text in enumerate(["a,b=c", "a+b", '"quoted"', "#hash", " space ", "line\nline", "back\\slash", "\u202e", "nul\0nul", "é" * 30]):
        enters(f"odd {number}", b"".join(issued("a", named(text), authority)))
    several = x509.Name([x509.RelativeDistinguishedName([x509.NameAttribute(NameOID.COMMON_NAME, "a"),
                                                         x509.NameAttribute(NameOID.EMAIL_ADDRESS, "a@b")])])
    enters("several in one", b"".join(issued("a", several, authority)))
    enters("no name", b"".join(issued("a", x509.Name([]), authority)))
    assert enters("good", good)


def no_resumption_with_certificates():
    """A certificate is verified at every connection."""
    authority = x509.load_pem_x509_certificate(Path(GIVEN["ca"]).read_bytes())
    file = WORK / "own.pem"
    file.write_bytes(b"".join(issued("a", named("ada"), authority)))
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = ssl.create_default_context(cafile=GIVEN["ca"])
        context.load_cert_chain(file)
        context.minimum_version = context.maximum_version = version
        session = None
        for _ in range(2):
            secured = context.wrap_socket(connected(GIVEN["mutual"]), server_hostname="localhost", session=session)
            assert api_versions(secured)
            assert not secured.session_reused, f"{version.name}: resumed"
            session = secured.session
            secured.close()


# sslyze


def sslyze(*arguments):
    """What it says to people, and its scans."""
    report = WORK / "sslyze.json"
    done = subprocess.run([sys.executable, "-m", "sslyze", f"--json_out={report}", "--certinfo_ca_file", GIVEN["ca"], *arguments, GIVEN["tls"]],
                          capture_output=True, text=True, timeout=300)
    with open(WORK / "sslyze.txt", "a") as out:
        out.write(done.stdout + done.stderr)
    (server,) = json.loads(report.read_text())["server_scan_results"]
    assert server["scan_status"] == "COMPLETED", server
    return done.stdout, server["scan_result"]


def findings_of_sslyze():
    """Mozilla's intermediate profile, and every scan for a known weakness."""
    said, scans = sslyze("--mozilla_config=intermediate")
    # Whether the certificate is known to the roots of Mozilla is not a property of the broker.
    complaints = said.split("COMPLIANCE AGAINST ", 1)[1].splitlines()
    complaints = [line.strip() for line in complaints if line.strip().startswith("*")]
    found = [line for line in complaints if "certificate_path_validation" not in line]
    weaknesses = {
        "heartbleed": ("is_vulnerable_to_heartbleed", False), "openssl_ccs_injection": ("is_vulnerable_to_ccs_injection", False),
        "tls_compression": ("supports_compression", False), "robot": ("robot_result", None),
        "session_renegotiation": ("is_vulnerable_to_client_renegotiation_dos", False)}
    for scan, (name, good) in weaknesses.items():
        result = scans[scan]["result"]
        assert result is not None, f"{scan}: {scans[scan]}"
        if scan == "robot":
            if not result[name].startswith("NOT_VULNERABLE"):
                found.append(f"{scan}: {result[name]}")
        elif result[name] != good:
            found.append(f"{scan}: {name}={result[name]}")
    if not scans["session_renegotiation"]["result"]["supports_secure_renegotiation"]:
        found.append("no secure renegotiation (RFC 5746)")
    assert not found, "; ".join(found)


CASES = {
    "sslyze has no findings": findings_of_sslyze,
    "TLS 1.2 and 1.3 only": versions,
    "each suite with authenticated encryption": suites,
    "no suites of CBC, 3DES, RC4": old_suites,
    "no key exchange without forward secrecy, nor for another kind of key": old_key_exchanges,
    "a downgrade is seen by the client": falling_back,
    "tickets": resumption,
    "small records": small_records,
    "what is no TLS": what_is_no_tls,
    "client certificates": client_certificates,
    "odd names in client certificates": odd_names,
    "no resumption where clients show certificates": no_resumption_with_certificates,
    "tickets after a change of the certificate": resumption_after_a_change,
}

for case, body in CASES.items():
    saw = ""
    try:
        body()
    except Exception as error:
        saw = f"{type(error).__name__}: {error}"
    print(json.dumps({"case": case, "passed": not saw, "saw": saw}), flush=True)
print(json.dumps({"ended": True}))
