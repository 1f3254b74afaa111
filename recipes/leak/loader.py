"""Spectrograms with Forebay: segments for training, whole recordings for evaluation.

    train = loader.segments("train.h5", leak=0, factor=8)
    batches = train.loader(loader.outputs(train.dataset, augment=True), batch_size=5632, memory="2GiB", device="cuda")
"""

import forebay as fb


def segments(path, leak=None, factor=1):
    """Every short segment is a sample, with the label of its recording; those of class `leak` come `factor` times."""
    cells = fb.open(path).cells(3)
    return cells if leak is None else cells.oversample("labels", {leak: factor})


def _shape(ds):
    return ds.contents()["/segments_mel"].shape  # (files, long, short, [1,] mels, frames)


def _mel(ds):
    return fb.col("segments_mel", dtype="float32").reshape(1, *_shape(ds)[-2:])


def outputs(ds, channels_last=False, augment=False, time_masks=0, max_time=0, freq_masks=2, max_freq=6):
    """mel (B, 1, mels, frames), or (B, mels, frames, 1) with channels_last; label (B).

    augment: SpecAugment. Of a single frame a time mask would hide everything, so by default there is none.
    """
    mel = _mel(ds)
    if augment:
        mel = mel.spec_augment(time_masks=time_masks, max_time=max_time, freq_masks=freq_masks, max_freq=max_freq)
    return {"mel": mel.channels_last() if channels_last else mel, "label": "labels"}


def recordings(path):
    """For evaluation every recording is a sample: use shuffle=False."""
    return fb.open(path).rows()


def recording_outputs(ds):
    """mel (B, long · short, 1, mels, frames), label (B), file (B): the recording's number, that of all its segments."""
    _, long, short, *_, mels, frames = _shape(ds)
    return {
        "mel": fb.col("segments_mel", dtype="float32").reshape(long * short, 1, mels, frames),
        "label": "labels",
        "file": fb.sample_index(),
    }


def packed_recordings(path):
    """The same as groups of segments, for batches of a target number of segments: loader(…, batch_elements=4096, shuffle=False)."""
    cells = fb.open(path).cells(3).dataset
    _, long, short, *_ = _shape(cells)
    return cells.groups(rows=long * short)


def packed_outputs(ds):
    """mel: values (ΣL, 1, mels, frames); segment_ids (ΣL): each segment's place in the batch; label (B), file (B)."""
    return {"mel": _mel(ds), "segment_ids": fb.segment_ids(), "label": fb.col("labels").first(), "file": fb.sample_index()}
