"""Methods of Column that make something of a sample as a whole, and operations on the values of a batch."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from . import _ops, _options
from ._advice import advised_methods
from ._sizes import count as _count

if TYPE_CHECKING:
    from ._outputs import Column

MAKE_SYMMETRIC, MAKE_GROUP_CHANNELS, MAKE_CROP, MAKE_SEQUENCE_MASK = "symmetric", "group_channels", "crop", "sequence_mask"
MAKES = (MAKE_SYMMETRIC, MAKE_GROUP_CHANNELS, MAKE_CROP, MAKE_SEQUENCE_MASK)
_AFTER_SPEC_AUGMENT, _AFTER_FORWARD_FILL = "spec_augment", "forward_fill"
_FILLS = (_ops.FILL_NAN, _ops.FILL_MISSING)
FIRST_ROWS, COUNT, KEY = "first_rows", "count", "key"  # of channels
AGGREGATES = {name: name for name in ("min", "max", "sum", "mean", "std")}


def split_ops(column: "Column") -> list[tuple]:
    """The operations of each column on its own."""
    return _ops.split(column.ops, len(column.columns))


def must_be_plain(column: "Column", what: str) -> None:
    """Refuse what is no column of values any more."""
    if column.make is not None or column.mask_of:
        raise ValueError(f"{what} of what is already made of columns, or of a mask: only of the values of columns")


@advised_methods
class SampleOperations:
    """Methods of :class:`forebay.Column`."""

    def symmetric(
        self: Any, size: int | None = None, *, count: str | None = None, count_of: str = "points", pad: float | None = None,
        n_features: int | None = None, clip_count: bool = False,
    ) -> "Column":  # fmt: skip
        """Symmetric matrices of upper triangles that are stored flat: shape (B, P, P, E), or (B, P, P) where the column has no feature axis.

        The column holds E features of the pairs (0, 1), (0, 2), …, (1, 2), … of a sample's p points: the triangle row by row, without the
        diagonal. Its value has shape (pairs, E) or (pairs,), or is a list; the first p(p - 1)/2 places are used. The diagonal is zero, and so are
        rows and columns beyond p.

        Parameters
        ----------
        size : int, optional
            P, the rows of the matrix. By default the largest number whose pairs fit the column; needed for a list column.
        count : str, optional
            The column that says how many points a sample has.
        count_of : "points" or "pairs"
            What `count` counts.
        pad : float, optional
            In place of `count`: a sample's pairs end where all E features have this value. Without either, all of the column (or list) is pairs.
        n_features : int, optional
            E, for a column without an axis for it, (pairs · E,).
        clip_count : bool
            Let a count that is larger than the matrix mean all of it. By default it is a DataError.

        Raises
        ------
        DataError
            While iterating, for a number of pairs that no triangle has (5), or of points that is larger than the matrix.

        Examples
        --------
        >>> fb.col("adjacency_matrix").symmetric(count="n_particles")
        >>> fb.col("adjacency_matrix").symmetric(pad=-999)
        """
        must_be_plain(self, "symmetric()")
        if count_of not in ("points", "pairs"):
            raise ValueError(f"count_of={count_of!r}: use 'points' or 'pairs'")
        if len(self.columns) != 1:
            raise ValueError(f"symmetric() is of one column, not {len(self.columns)}")
        if count is not None and not isinstance(count, str):
            raise TypeError(f"count is a column's name, not {type(count).__name__}: {count!r}")
        if count is not None and pad is not None:
            raise ValueError("symmetric() takes count= or pad=, not both")
        options = {**_options.checked(MAKE_SYMMETRIC, locals()), "count_is_pairs": count_of == "pairs"}
        columns, ops = self.columns, split_ops(self)
        if count is not None:
            columns, ops = (*columns, count), [*ops, ()]
        return dataclasses.replace(self, columns=columns, ops=(), column_ops=tuple(ops) if self.ops else None, make=(MAKE_SYMMETRIC, options))

    def crop(self: Any, length: int, *, random: bool = False, begin: int = 0) -> "Column":
        """Cut `length` consecutive rows out of each window or group, or out of the first axis of an array or list: shape (B, length, …).

        Parameters
        ----------
        length : int
        random : bool
            Draw where the cut begins, for every sample and epoch. Outputs of one sample that cut the same length out of the same length begin at
            the same place, so that an input and its target stay together.
        begin : int
            Without `random`: the row, or place on the axis, where the cut begins.

        Examples
        --------
        >>> fb.col("waveform").crop(16000, random=True)
        """
        must_be_plain(self, "crop()")
        options = _options.checked(MAKE_CROP, locals())
        if options["random"] and begin:
            raise ValueError("crop() takes random=True or begin=, not both")
        return dataclasses.replace(self, ops=(), column_ops=tuple(split_ops(self)) if self.ops else None, make=(MAKE_CROP, options))

    def sequence_mask(self: Any, size: int, *, clip_count: bool = False) -> "Column":
        """The mask of a column of counts: bool, shape (B, size), True at the first so many places.

        Which particles of a padded array (B, size, …) are there, for example: what ``torch.arange(size) < count[:, None]`` gives.

        Parameters
        ----------
        size : int
            Places of the mask: the length of the padded axis.
        clip_count : bool
            Let a count larger than `size` mean all places. By default it is a DataError.

        Examples
        --------
        >>> fb.col("n_particles").sequence_mask(128)
        """
        must_be_plain(self, "sequence_mask()")
        if len(self.columns) != 1:
            raise ValueError(f"sequence_mask() is of one column, a count, not of {len(self.columns)}")
        make = (MAKE_SEQUENCE_MASK, _options.checked(MAKE_SEQUENCE_MASK, locals()))
        return dataclasses.replace(self, ops=(), column_ops=tuple(split_ops(self)) if self.ops else None, make=make)

    def mask(self: Any) -> "Column":
        """The mask of what :func:`forebay.group_channels` makes: bool, shape (B, max_groups), True where there is a subgroup."""
        if self.make is None or self.make[0] != MAKE_GROUP_CHANNELS:
            raise ValueError("mask() is of fb.group_channels(…); for missing values there is is_missing(), for padding padded()")
        options = {**self.make[1], "channels": (), "positions": None, "mask": True}
        return dataclasses.replace(self, columns=self.columns[:2], column_ops=None, dtype=None, make=(MAKE_GROUP_CHANNELS, options))

    @property
    def channels(self: Any) -> tuple[str, ...]:
        """Names of the channels that :func:`forebay.group_channels` makes: ("x", "y", "z", "count", "time[0]", …, "min(time)").

        Raises
        ------
        AttributeError
            For other outputs.
        """
        if self.make is None or self.make[0] != MAKE_GROUP_CHANNELS or self.make[1]["mask"]:
            raise AttributeError("only fb.group_channels(…) has channels")
        channels, first_rows, positions = (self.make[1][name] for name in ("channels", "first_rows", "positions"))
        features = self.columns[2:]
        rows = [features[channel["feature"]] for channel in channels if channel["value"] == FIRST_ROWS]
        names = {v: k for k, v in AGGREGATES.items()}
        out = list(positions.columns) if positions is not None else []
        for channel in channels:
            value = channel["value"]
            if value == FIRST_ROWS:
                out += [f"{name}[{row}]" for row in range(first_rows) for name in rows]
                rows = []
                first_rows = 0
            else:
                out.append({COUNT: "count", KEY: self.columns[0]}.get(value) or f"{names[value]}({features[channel['feature']]})")
        return tuple(out)

    def spec_augment(
        self: Any, *, time_masks: int = 0, max_time: int = 0, freq_masks: int = 0, max_freq: int = 0, value: float = 0.0, time_axis: int = -1,
        freq_axis: int = -2,
    ) -> "Column":  # fmt: skip
        """Mask random stretches of time and frequency, drawn for every sample and epoch (SpecAugment, Park et al. 2019): for training.

        The width of each mask is drawn uniformly from 0 to the greatest, then its place; masks may overlap.

        Parameters
        ----------
        time_masks, freq_masks : int
            How many masks on each axis, at most 32.
        max_time, max_freq : int
            The greatest width of a mask, in steps of its axis.
        value : float
            What masked values become.
        time_axis, freq_axis : int
            Axes of the output; axis 0 is the batch's, negative numbers count from the end.

        Examples
        --------
        >>> fb.col("segments_mel").spec_augment(time_masks=2, max_time=8, freq_masks=1, max_freq=4)
        """
        options = _options.checked(_AFTER_SPEC_AUGMENT, locals())
        if not (time_masks and max_time) and not (freq_masks and max_freq):
            raise ValueError("spec_augment() needs time_masks= and max_time=, or freq_masks= and max_freq=")
        for what in ("time_axis", "freq_axis"):
            if options[what] == 0:
                raise ValueError(f"{what}=0: an axis of the output, not that of the batch")
        return _then(self, _AFTER_SPEC_AUGMENT, **options)

    def channels_last(self: Any) -> "Column":
        """Move the axis after the batch's to the end: (B, C, H, W) becomes (B, H, W, C)."""
        return _then(self, _ops.CHANNELS_LAST)

    def channels_first(self: Any) -> "Column":
        """Move the last axis to the one after the batch's: (B, H, W, C) becomes (B, C, H, W)."""
        return _then(self, _ops.CHANNELS_FIRST)

    def forward_fill(self: Any) -> "Column":
        """Replace NaN by the last value before it in the same window; NaN at a window's beginning stays.

        This is done when the batch is built, after all operations: missing values are filled, and values that operations made NaN. It excludes
        :meth:`fill_missing` and :meth:`fill_nan`, which would leave nothing to fill.
        """
        if any(kind in _FILLS for kind, *_ in self.ops):
            raise ValueError("forward_fill() comes after every operation, and fill_missing() or fill_nan() leave it nothing to fill: take one of them")
        return _then(self, _AFTER_FORWARD_FILL)

    def reshape(self: Any, *axes: int) -> "Column":
        """Give a row's value other axes with as many elements: ``.reshape(P, F)`` of a flat column (P · F,). One axis may be -1."""
        if len(axes) == 1 and isinstance(axes[0], (tuple, list)):
            axes = tuple(axes[0])
        if not axes:
            raise ValueError("reshape() needs axes")
        sizes = tuple(-1 if axis == -1 else _count(axis, "an axis", 1) for axis in axes)
        if sizes.count(-1) > 1:
            raise ValueError(f"reshape{axes}: one axis may be -1")
        return dataclasses.replace(self, axes=sizes)


def fills_forward(column: Any) -> bool:
    """Does the output have a forward_fill()?"""
    return any(kind == _AFTER_FORWARD_FILL for kind, _ in column.after)


def _then(column: Any, kind: str, **options: Any) -> "Column":
    return dataclasses.replace(column, after=(*column.after, (kind, options)))


# ---- as text ----


def text_of(column: "Column") -> str | None:
    """Such an output as it was written; None for others."""
    make = column.make
    if make is None or make[0] not in MAKES:
        return None
    kind, options = make
    if kind == MAKE_GROUP_CHANNELS:
        text = f"group_channels(key={column.columns[0]!r}, order={column.columns[1]!r}, max_groups={options['max_groups']}, …)"
        return text + ".mask()" * options["mask"]
    ops = "…" if column.column_ops else ""
    if kind == MAKE_SEQUENCE_MASK:
        return f"col({column.columns[0]!r}).sequence_mask({options['size']}{', clip_count=True' * options['clip_count']})"
    if kind == MAKE_CROP:
        how = "random=True" if options["random"] else f"begin={options['begin']}"
        return f"col({', '.join(map(repr, column.columns))}){ops and '.' + ops}.crop({options['length']}, {how})"
    given = [str(options["size"])] if "size" in options else []
    given += [f"count={column.columns[1]!r}", f"count_of={'pairs' if options['count_is_pairs'] else 'points'!r}"] if len(column.columns) > 1 else []
    given += [f"{name}={options[name]!r}" for name in ("pad", "n_features") if name in options]
    given += ["clip_count=True"] if options["clip_count"] else []
    return f"col({column.columns[0]!r}){ops and '.' + ops}.symmetric({', '.join(given)})"


def after_text(column: "Column") -> str:
    """reshape() and the operations on the batch, as they were written."""
    text = f".reshape{column.axes}" if column.axes else ""
    for kind, options in column.after:
        text += f".{kind}({', '.join(f'{name}={value}' for name, value in options.items() if not name.endswith('_axis'))})"
    return text
