"""Logins by hand, step by step, for what no client does: wrong proofs, tokens that are too long, steps that are timed."""

import base64
import os
import struct

from peers.rawapis import blob
from peers.rawwire import Connection, string

HANDSHAKE, AUTHENTICATE = 17, 36


class Login(Connection):
    """A connection at the beginning of a login."""

    def __init__(self, port, mechanism, timeout=20.0):
        super().__init__(port, timeout)
        answer = self.request(HANDSHAKE, 1, string(mechanism))
        assert answer[:2] == b"\0\0", answer

    def ask(self, token):
        """The error code, and what the server says."""
        answer = self.request(AUTHENTICATE, 0, blob(token))
        (code,) = struct.unpack(">h", answer[:2])
        (length,) = struct.unpack(">h", answer[2:4])
        rest = answer[4 + max(0, length):]
        (size,) = struct.unpack(">i", rest[:4])
        return code, rest[4:4 + size] if size > 0 else b""


def first_message(user):
    """The first message of SCRAM."""
    nonce = base64.b64encode(os.urandom(18)).decode()
    return f"n,,n={user},r={nonce}".encode()


def wrong_proof(server_first):
    """A last message with a proof that no password has."""
    nonce = dict(part.split("=", 1) for part in server_first.decode().split(","))["r"]
    return f"c=biws,r={nonce},p={base64.b64encode(os.urandom(32)).decode()}".encode()
