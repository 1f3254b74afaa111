"""The loaders that records are trained with today: everything made in the Dataset's constructor, through pandas and lists.

    train = baseline.loader(frame, batch_size=512)              # the first: row by row, two workers
    train = baseline.loader(frame, batch_size=512, tuned=True)  # the second: pandas' apply over all rows, workers that stay and prefetch
"""

import itertools
import os
import string

import numpy as np
import pandas as pd
import torch
from torch.utils.data import DataLoader, Dataset


def all_two_grams(both_ways=True):
    """The labels: 1,296 or 1,036 two-grams."""
    letters, digits = string.ascii_lowercase, string.digits
    sets = [(letters, letters), (digits, digits), (letters, digits)] + [(digits, letters)] * both_ways
    return ["".join(gram) for a, b in sets for gram in itertools.product(a, b)]


def extract_two_grams(text, vocabulary):
    """The known two-grams of a text."""
    text = text.lower()
    return [text[i : i + 2] for i in range(len(text) - 1) if text[i : i + 2] in vocabulary]


def label_tensor(grams, vocabulary):
    """Their multi-hot tensor."""
    label = torch.zeros(len(vocabulary))
    for gram in grams:
        label[vocabulary[gram]] = 1
    return label


class BloomFilterDataset(Dataset):
    """Tensors of all records, made when it is made."""

    def __init__(self, frame, both_ways=True):
        vocabulary = {gram: i for i, gram in enumerate(all_two_grams(both_ways))}
        bits = frame["bloomfilter"].apply(list).tolist()
        self.bits = torch.tensor([[float(c) for c in row] for row in bits], dtype=torch.float32)
        self.uid = frame["uid"].tolist()
        columns = frame.iloc[:, :-2].astype(object)
        columns = columns.where(columns.notna(), "None").astype(str)
        self.labels = [label_tensor(extract_two_grams("".join(row), vocabulary), vocabulary) for _, row in columns.iterrows()]

    def __len__(self):
        return len(self.uid)

    def __getitem__(self, i):
        return self.bits[i], self.labels[i], self.uid[i]


class OptimizedBloomFilterDataset(BloomFilterDataset):
    """The same tensors, through pandas' apply over all records, which is what the owner's report calls vectorised."""

    def __init__(self, frame, both_ways=True):
        vocabulary = {gram: i for i, gram in enumerate(all_two_grams(both_ways))}
        bits = frame["bloomfilter"].apply(list).tolist()
        self.bits = torch.from_numpy(np.array(bits, np.float32))  # the report says torch.tensor, which refuses text
        self.uid = frame["uid"].values
        columns = frame.iloc[:, :-2].astype(object)
        text = columns.where(columns.notna(), "None").astype(str).apply("".join, axis=1)
        grams = text.apply(lambda joined: extract_two_grams(joined, vocabulary)).tolist()
        self.labels = torch.stack([label_tensor(of, vocabulary) for of in grams])


def tuned_loader(dataset, batch_size, workers=None, pin_memory=False):
    """The owner's `create_optimized_dataloader`, to train with. By default all cores but one have a worker, eight at most."""
    workers = min(max(1, os.cpu_count() - 1), 8) if workers is None else workers
    return DataLoader(
        dataset, batch_size, shuffle=True, pin_memory=pin_memory, num_workers=workers, persistent_workers=workers > 0,
        prefetch_factor=4 if workers else None, drop_last=True,
    )  # fmt: skip


def loader(frame, batch_size=512, workers=None, tuned=False, pin_memory=False, **options):
    """A DataLoader of (bits, labels, uid). A path is read as TSV."""
    frame = frame if isinstance(frame, pd.DataFrame) else pd.read_csv(frame, sep="\t", dtype={"bloomfilter": str})
    if tuned:
        return tuned_loader(OptimizedBloomFilterDataset(frame, **options), batch_size, workers, pin_memory)
    return DataLoader(BloomFilterDataset(frame, **options), batch_size, shuffle=True, num_workers=2 if workers is None else workers)
