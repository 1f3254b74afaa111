"""The Thrift compact protocol, read into plain values: what pyarrow does not show of a Parquet file's metadata, its page indexes."""

import struct


class Reader:
    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def byte(self):
        self.at += 1
        return self.data[self.at - 1]

    def varint(self):
        value = shift = 0
        while True:
            b = self.byte()
            value |= (b & 0x7F) << shift
            shift += 7
            if b < 0x80:
                return value

    def zigzag(self):
        v = self.varint()
        return v >> 1 ^ -(v & 1)

    def value(self, kind):
        if kind in (1, 2):
            return kind == 1
        if kind == 3:
            return struct.unpack("b", bytes([self.byte()]))[0]
        if kind in (4, 5, 6):
            return self.zigzag()
        if kind == 8:
            n = self.varint()
            self.at += n
            return bytes(self.data[self.at - n : self.at])
        if kind == 9:
            head = self.byte()
            n = head >> 4 if head >> 4 < 15 else self.varint()
            return [self.byte() == 1 if head & 15 in (1, 2) else self.value(head & 15) for _ in range(n)]
        if kind == 12:
            return self.struct()
        raise ValueError(f"type {kind} at {self.at}")

    def struct(self):
        """{field number: value}"""
        fields, field = {}, 0
        while head := self.byte():
            field = field + (head >> 4) if head >> 4 else self.zigzag()
            fields[field] = self.value(head & 15)
        return fields


def parquet_footer(data):
    """FileMetaData of a file's bytes."""
    n = int.from_bytes(data[-8:-4], "little")
    reader = Reader(data, len(data) - 8 - n)
    footer = reader.struct()
    assert reader.at == len(data) - 8
    return footer
