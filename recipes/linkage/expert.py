"""Records as an expert loads them: bits packed, the identifying columns as one text with offsets; a batch's bits and two-grams are made of arrays.

    train = expert.Records("records.tsv", batch_size=512)
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from recipes.expert import Expert, runs
from recipes.linkage import baseline


def text_of(strings):
    """The bytes of an Arrow array of strings, and the length of each."""
    offsets = np.frombuffer(strings.buffers()[1], np.int32)[strings.offset : strings.offset + len(strings) + 1]
    return np.frombuffer(strings.buffers()[2], np.uint8)[offsets[0] : offsets[-1]], np.diff(offsets)


def grams(both_ways=True):
    """Of every pair of bytes, first · 256 + second, which two-gram it is, or -1."""
    found, names = np.full(1 << 16, -1), baseline.all_two_grams(both_ways)
    pairs = np.array([list(name.encode()) for name in names])
    found[pairs[:, 0] * 256 + pairs[:, 1]] = np.arange(len(names))
    return found, len(names)


class Records(Expert):
    """Batches of (bits, labels, uid). The file is read when this is made."""

    def __init__(self, path, batch_size=512, seed=0, drop_last=True):
        self.grams, self.labels = grams()
        filters, texts, lengths, uids = [], [], [], []
        parse = pa.csv.ParseOptions(delimiter="\t")
        with pa.csv.open_csv(path, parse_options=parse) as file:
            types = {name: pa.string() for name in file.schema.names[:-1]}
        convert = pa.csv.ConvertOptions(column_types=types, strings_can_be_null=True)
        for block in pa.csv.read_csv(path, parse_options=parse, convert_options=convert).to_batches():
            *identifying, filter, uid = block.columns
            text, n = text_of(pc.utf8_lower(pc.binary_join_element_wise(*(column.fill_null("None") for column in identifying), "")))
            texts.append(text)
            lengths.append(n)
            filters.append(np.packbits(text_of(filter)[0].reshape(len(block), -1) == ord("1"), axis=1))
            uids.append(uid.to_numpy())
        length = np.concatenate(lengths).astype(np.int64)
        self.lot = np.concatenate(filters), np.concatenate(texts), np.cumsum(length) - length, length, np.concatenate(uids)
        super().__init__([path], len(length), 0, batch_size, seed, drop_last)

    def read(self, pieces):
        return self.lot, self.samples

    def take(self, lot, rows):
        filters, text, begins, lengths, uids = lot
        n = np.maximum(lengths[rows] - 1, 0)
        at = runs(begins[rows], n)
        which = self.grams[text[at].astype(np.int64) * 256 + text[at + 1]]
        labels = np.zeros((len(rows), self.labels), np.float32)
        labels[np.repeat(np.arange(len(rows)), n)[which >= 0], which[which >= 0]] = 1
        return np.unpackbits(filters[rows], axis=1).astype(np.float32), labels, uids[rows]
