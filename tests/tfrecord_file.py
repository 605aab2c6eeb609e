# SPDX-License-Identifier: Apache-2.0
"""TFRecord files of tf.train.Example without any package."""
import struct

INTEGERS, FLOATS = 3, 2  # kinds of features
TABLE = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    TABLE.append(byte)


def checksum(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def varint(number):
    found = b""
    while number >= 0x80:
        found += bytes([number & 0x7F | 0x80])
        number >>= 7
    return found + bytes([number])


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def record(features):
    """A tf.train.Example in the frame of a TFRecord: name -> (kind, numbers)."""
    entries = b""
    for name, (kind, numbers) in features.items():
        packed = struct.pack(f"<{len(numbers)}f", *numbers) if kind == FLOATS else b"".join(map(varint, numbers))
        entries += field(1, field(1, name.encode()) + field(2, field(kind, field(1, packed))))
    data = field(1, entries)
    size = struct.pack("<Q", len(data))
    return size + checksum(size) + data + checksum(data)
