"""Floods of strangers at a listener, from processes of their own.

    python -m peers.floods KIND PORT SECONDS

Prints how often it did it. What each does is its function; none waits for more than it has to.
"""

import os
import socket
import ssl
import struct
import sys
import threading
import time

from peers import rawwire
from peers.sasl import AUTHENTICATE, Login, first_message, wrong_proof

THREADS = 8


def connected(port):
    return socket.create_connection(("127.0.0.1", port), timeout=20)


def handshakes(port):
    """Whole handshakes, without resumption, and nothing after them."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with connected(port) as plain, context.wrap_socket(plain):
        pass


def hellos(port):
    """A greeting of TLS, and gone before the answer."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    seen, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        context.wrap_bio(seen, out).do_handshake()
    except ssl.SSLWantReadError:
        pass
    with connected(port) as plain:
        plain.sendall(out.read())


def half(port):
    """The beginning of a greeting, held for a moment."""
    with connected(port) as plain:
        plain.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc")
        time.sleep(0.05)


def scram(port):
    """A login with a wrong password, whose answer is not waited for."""
    with Login(port, "SCRAM-SHA-256") as login:
        code, first = login.ask(first_message("ada"))
        assert code == 0, code
        last = wrong_proof(first)
        login.send(rawwire.frame(rawwire.header(AUTHENTICATE, 0) + struct.pack(">i", len(last)) + last))


def plain(port):
    """The same by PLAIN."""
    with Login(port, "PLAIN") as login:
        token = b"\0ada\0wrong"
        login.send(rawwire.frame(rawwire.header(AUTHENTICATE, 0) + struct.pack(">i", len(token)) + token))


def tokens(port):
    """Tokens as long as a frame before the login may be."""
    with Login(port, "PLAIN") as login:
        token = os.urandom(500_000)
        login.send(rawwire.frame(rawwire.header(AUTHENTICATE, 0) + struct.pack(">i", len(token)) + token))


def gigabytes(port):
    """Frames of two gigabytes, and of a hundred megabytes, of which the beginning comes."""
    for length in (2**31 - 1, 100 << 20, 600_000):
        with connected(port) as stranger:
            try:
                stranger.sendall(struct.pack(">i", length) + bytes(20_000))
            except (ConnectionResetError, BrokenPipeError):
                pass


KINDS = {body.__name__: body for body in (handshakes, hellos, half, scram, plain, tokens, gigabytes)}


def main(kind, port, seconds):
    # The broker and its clients come first: attackers have machines of their own. (With what others leave alone, a flood beside other tests is none.)
    os.nice(10)
    until, counts = time.monotonic() + seconds, [0] * THREADS

    def work(number):
        while time.monotonic() < until:
            try:
                KINDS[kind](port)
            except (OSError, rawwire.Closed):
                pass
            counts[number] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(sum(counts))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
