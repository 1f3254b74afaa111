"""What the batches of records must hold, by definition: pandas and NumPy, one record at a time. A record is named by its uid."""

import base64
import itertools
import string

import numpy as np


def vocabulary(both_ways=True):
    """All two-grams: letters, digits, letter and digit, and with both_ways digit and letter: 1,296 or 1,036 of them."""
    letters, digits = string.ascii_lowercase, string.digits
    pairs = [(letters, letters), (digits, digits), (letters, digits)] + [(digits, letters)] * both_ways
    return ["".join(gram) for a, b in pairs for gram in itertools.product(a, b)]


def bits_of(value, n_bits):
    """The bits of a filter: text of '0' and '1', packed bytes, or base64 of them."""
    if isinstance(value, str) and len(value) == n_bits:
        return np.array(list(value), np.float32)
    packed = np.frombuffer(value if isinstance(value, bytes) else base64.b64decode(value), np.uint8)
    return np.unpackbits(packed).astype(np.float32)


class Reference:
    """Records of a DataFrame: identifying columns, then bloomfilter, then uid, as the owner's code takes them.

    cleaned: the variant that deletes `" . /`, strips, and drops grams with a space. missing: what astype(str) makes of a missing string, "None" of
    None and "nan" of NaN.
    """

    def __init__(self, frame, n_bits=1024, both_ways=True, cleaned=False, missing="None"):
        self.n_bits, self.vocabulary = n_bits, {gram: i for i, gram in enumerate(vocabulary(both_ways))}
        columns = frame.iloc[:, :-2].astype(object)
        text = columns.where(columns.notna(), missing).astype(str).agg("".join, axis=1).str.lower()
        if cleaned:
            text = text.str.replace(r'["./]', "", regex=True).str.strip()
        self.text = dict(zip(frame["uid"], text))
        self.filters = dict(zip(frame["uid"], frame["bloomfilter"]))
        self.cleaned = cleaned

    def ids(self):
        """All uids."""
        return set(self.text)

    def bits(self, uids):
        """(B, n_bits)."""
        return np.stack([bits_of(self.filters[uid], self.n_bits) for uid in uids])

    def grams(self, uid):
        """The two-grams of a record."""
        text = self.text[uid]
        grams = {text[i : i + 2] for i in range(len(text) - 1)}
        return {gram for gram in grams if not (self.cleaned and " " in gram)}

    def labels(self, uids):
        """(B, G)."""
        labels = np.zeros((len(uids), len(self.vocabulary)), np.float32)
        for row, uid in enumerate(uids):
            labels[row, [self.vocabulary[gram] for gram in self.grams(uid) if gram in self.vocabulary]] = 1
        return labels
