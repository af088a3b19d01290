"""Decode enough of a PNG to tell a picture from a blank one."""

import struct
import zlib

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def rows(data):
    """The rows of pixels of an 8-bit RGB or RGBA picture, each a list of (red, green, blue)."""
    assert data.startswith(SIGNATURE)
    width, height, depth, kind = struct.unpack(">IIBB", data[16:26])
    assert (depth, kind in {2, 6}) == (8, True)
    size = 3 if kind == 2 else 4
    packed = zlib.decompress(b"".join(body for name, body in chunks(data) if name == b"IDAT"))
    above, stride = bytearray(width * size), width * size + 1
    for number in range(height):
        line = packed[number * stride : (number + 1) * stride]
        above = unfiltered(line[0], line[1:], above, size)
        yield [tuple(above[at : at + 3]) for at in range(0, len(above), size)]


def chunks(data):
    at = len(SIGNATURE)
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        yield data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        at += 12 + length


def unfiltered(method, line, above, size):
    row = bytearray(line)
    for at, value in enumerate(line):
        left = row[at - size] if at >= size else 0
        corner = above[at - size] if at >= size else 0
        guess = (0, left, above[at], (left + above[at]) // 2, nearest(left, above[at], corner))[method]
        row[at] = (value + guess) & 255
    return row


def nearest(left, above, corner):
    """Paeth's predictor."""
    estimate = left + above - corner
    return min((left, above, corner), key=lambda value: abs(estimate - value))
