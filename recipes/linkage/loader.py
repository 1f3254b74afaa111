"""Records with Forebay: the tuple (bits, labels, uid) that the owner's model takes.

    ds = fb.open("records.tsv")              # or Parquet, or the pandas DataFrame itself
    train = ds.loader(loader.outputs(ds), batch_size=512, as_="tuple", drop_last=True, memory="4GiB", device="cuda")
"""

import forebay as fb


def outputs(ds, n_bits=1024, both_ways=True, cleaned=False, encoding="auto", missing=None):
    """bits (B, n_bits), labels (B, 1296 or 1036), uid. All columns but the last two identify.

    cleaned: the variant that deletes `" . /`, strips, and drops grams with a space. encoding: "base64" for such filters.
    missing: the text of a missing value; by default what pandas made of it in Parquet, "None" of strings. Of read_csv it is "nan".
    """
    *identifying, bloomfilter, uid = ds.columns
    parts = ("letters", "digits", "letter-digit", "digit-letter")[: 3 + both_ways]
    clean = dict(delete='"./', strip=True, drop_spaces=True) if cleaned else {}
    return {
        "bits": fb.col(bloomfilter).bits(n_bits, encoding),
        "labels": fb.ngrams(*identifying, lower=True, missing=missing, vocabulary=fb.ngram_vocabulary(*parts), **clean),
        "uid": uid,
    }
