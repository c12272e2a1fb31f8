"""Switches a feature of a card: features.py DEVICE gro|tso on|off (what `ethtool -K` does)."""

import ctypes
import fcntl
import socket
import struct
import sys

SIOCETHTOOL = 0x8946
COMMANDS = {"gro": 0x2C, "tso": 0x1F}

device, feature, value = sys.argv[1:]
buffer = bytearray(struct.pack("II", COMMANDS[feature], value == "on"))
address = (ctypes.c_char * len(buffer)).from_buffer(buffer)
request = struct.pack("16sP", device.encode(), ctypes.addressof(address))
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
    fcntl.ioctl(any_socket, SIOCETHTOOL, request)
