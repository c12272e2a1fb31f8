"""An identity provider for tests: keys and signatures by OpenSSL, its set of keys as JSON, tokens with any claims."""

import base64
import http.server
import json
import ssl
import threading
import time

from peers.keys import openssl

ISSUER = "https://idp.example.org"
AUDIENCE = "kafka"


def b64(data):
    if not isinstance(data, (bytes, bytearray)):
        data = json.dumps(data).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Provider:
    """Keys of RSA and P-256 by their ids."""

    def __init__(self, home):
        self.home = home
        self.keys = {}

    def key(self, kid, kind="rsa"):
        file = self.home / f"{kid}.key"
        new = ["RSA", "-pkeyopt", "rsa_keygen_bits:2048"] if kind == "rsa" else \
            ["EC", "-pkeyopt", "ec_paramgen_curve:P-256"]
        openssl("genpkey", "-algorithm", *new, "-out", file)
        self.keys[kid] = kind, file
        return kid

    def public(self, kid):
        """The key as a JWK."""
        kind, file = self.keys[kid]
        if kind == "rsa":
            modulus = openssl("rsa", "-in", file, "-modulus", "-noout").stdout.decode().strip().split("=")[1]
            return {"kty": "RSA", "kid": kid, "use": "sig", "e": "AQAB", "n": b64(bytes.fromhex(modulus))}
        point = openssl("pkey", "-in", file, "-pubout", "-outform", "DER").stdout[-64:]
        return {"kty": "EC", "kid": kid, "crv": "P-256", "x": b64(point[:32]), "y": b64(point[32:])}

    def set(self, *kids):
        return json.dumps({"keys": [self.public(kid) for kid in kids or self.keys]})

    def publish(self, file, *kids):
        """Puts the set in the place of the file at once."""
        new = file.with_suffix(".new")
        new.write_text(self.set(*kids))
        new.rename(file)

    def sign(self, kid, message):
        kind, file = self.keys[kid]
        signature = openssl("dgst", "-sha256", "-sign", file, input=message).stdout
        return signature if kind == "rsa" else raw(signature)

    def token(self, user, kid=None, header=None, seconds=600, **claims):
        kid = kid or next(iter(self.keys))
        now = int(time.time())
        header = {"alg": "RS256" if self.keys[kid][0] == "rsa" else "ES256", "kid": kid, **(header or {})}
        claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": user, "iat": now - 60, "exp": now + seconds, **claims}
        claims = {name: value for name, value in claims.items() if value is not None}
        message = f"{b64(header)}.{b64(claims)}"
        return f"{message}.{b64(self.sign(kid, message.encode()))}"


def raw(der):
    """r and s of a signature in DER, as JWT has them."""
    assert der[0] == 0x30
    numbers, rest = [], der[2:]
    for _ in range(2):
        length = rest[1]
        numbers.append(int.from_bytes(rest[2:2 + length], "big"))
        rest = rest[2 + length:]
    return b"".join(number.to_bytes(32, "big") for number in numbers)


class Server:
    """Answers by HTTPS, or by HTTP without `pem`: GET with the set, POST (client credentials) with a token."""

    def __init__(self, provider, pem=None):
        self.provider = provider
        self.status = 200
        self.body = None
        self.asked = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self, body):
                outer.asked.append((self.command, self.path, self.headers.get("Authorization")))
                self.send_response(outer.status)
                if outer.status == 302:
                    self.send_header("Location", "http://169.254.169.254/latest/meta-data/")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self):
                self.answer((outer.body or outer.provider.set()).encode())

            def do_POST(self):
                form = self.rfile.read(int(self.headers["Content-Length"])).decode()
                assert "grant_type=client_credentials" in form, form
                name = base64.b64decode(self.headers["Authorization"].split()[1]).decode().split(":")[0]
                token = outer.provider.token(name)
                self.answer(json.dumps({"access_token": token, "expires_in": 600, "token_type": "Bearer"}).encode())

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        scheme = "http"
        if pem:
            scheme = "https"
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(pem)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"{scheme}://localhost:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
