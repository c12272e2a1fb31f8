"""Sets how many queues a card receives and sends with: channels.py DEVICE COUNT (what `ethtool -L` does)."""

import ctypes
import fcntl
import socket
import struct
import sys

SIOCETHTOOL, SET_CHANNELS, GET_CHANNELS = 0x8946, 0x3D, 0x3C

device, count = sys.argv[1], int(sys.argv[2])
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:

    def call(*numbers):
        buffer = bytearray(struct.pack("9I", *numbers))
        address = (ctypes.c_char * len(buffer)).from_buffer(buffer)
        fcntl.ioctl(any_socket, SIOCETHTOOL, struct.pack("16sP", device.encode(), ctypes.addressof(address)))
        return list(struct.unpack("9I", buffer))

    # The greatest counts, then those of receiving, of sending, others, and of both at once.
    numbers = call(GET_CHANNELS, *[0] * 8)
    numbers[0], numbers[5], numbers[6] = SET_CHANNELS, count, count
    call(*numbers)
