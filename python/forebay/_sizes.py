"""Sizes as people write them ("8GiB", "50 blocks"), read as the library reads them, and printed."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from typing import Any

from . import _forebay

_LIMIT = 1 << 63


def count(value: object, what: str, least: int = 0, most: int = _LIMIT - 1) -> int:
    """An int argument (NumPy integers too, bool not), within [least, most]."""
    if isinstance(value, bool):
        raise TypeError(f"{what} must be an integer, not {value!r}")
    try:
        result = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{what} must be an integer, not {type(value).__name__}") from None
    if not least <= result <= most:
        limit = f"at least {least}" if result < least else f"at most {most}"
        raise ValueError(f"{what}={result} is out of range: it must be {limit}")
    return result


def size_bytes(value: object, what: str) -> int:
    """Bytes of "8GiB", "512 MB" or an int. GiB is 2^30, GB is 10^9; "8G" is refused as ambiguous."""
    return _forebay.size_bytes(value, what) if isinstance(value, str) else count(value, what, 1)


def memory(value: object) -> dict[str, Any]:
    """The option of a loader that "8GiB", an int of bytes, "70%" or "all" says; None says none."""
    if value is None:
        return {}
    if isinstance(value, float):
        raise TypeError(f"memory={value!r}: a size is '8GiB' or an int of bytes, a share of what is available '70%'")
    return _forebay.quantity("memory", value) if isinstance(value, str) else {"memory_bytes": count(value, "memory", 1)}


def superbatch(value: object) -> dict[str, Any]:
    """The option of a loader that "50 blocks", "100000 samples", "256MiB" or an int of samples says; None says none."""
    if value is None:
        return {}
    return _forebay.quantity("superbatch", value) if isinstance(value, str) else {"superbatch_samples": count(value, "superbatch", 1)}


def part(value: object, key: object = None) -> dict[str, Any]:
    """The option of a loader that "1000 files", "1000 keys" or "1/10" says; None says none: an epoch is all of it."""
    if key is not None and not isinstance(key, str):
        raise TypeError(f"part_key={key!r}: the name of a column is a str, not {type(key).__name__}")
    options = {} if value is None else _forebay.quantity("part", value if isinstance(value, str) else repr(value))
    if key is not None and (value is None or "part_files" in options):
        raise ValueError(f"part_key={key!r} names the keys that parts are made of: write part='1000 keys' or part='1/10'")
    return options


def _has_length(value: Any) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, (str, bytes)) and getattr(value, "ndim", 1) > 0


def _lengths(values: Any) -> Iterator[int]:
    """Of the tensors in dicts and lists, one in the other. A list of anything else, such as texts, is one value."""
    for value in values.values() if isinstance(values, Mapping) else values:
        if isinstance(value, Mapping) or (isinstance(value, (list, tuple)) and any(hasattr(one, "shape") and _has_length(one) for one in value)):
            yield from _lengths(value)
        elif _has_length(value):
            yield len(value)


def batch_size_of(batch: Any) -> int:
    """Samples of a batch of any loader: as long as its shortest value is. Values of lists, and their offsets, are longer."""
    size = getattr(batch, "size", None)
    if isinstance(size, int) and not hasattr(batch, "shape"):  # an array's is its elements
        return size
    nested = isinstance(batch, Mapping) or (isinstance(batch, (list, tuple)) and any(map(_has_length, batch)))
    least = min(_lengths(batch if nested else [batch]), default=None)
    if least is None:
        raise TypeError(f"a batch of type {type(batch).__name__} has no length: it must be a tensor, or a dict or list of them")
    return least


def format_bytes(n: float) -> str:
    """'512 B', '3.4 MiB'."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(n) < 1024 or unit == "TiB":
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1024
    raise AssertionError


def format_figure(n: float) -> str:
    """'0.012', '1.23', '1,234': three digits, and all of those before the point."""
    return f"{n:,.0f}" if abs(n) >= 99.95 else f"{n:.3g}"


def format_scaled(n: float) -> str:
    """'999', '1.23 M'."""
    for limit, unit in ((1e15, " P"), (1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if n >= 0.9995 * limit:
            return format_figure(n / limit) + unit
    return format_figure(n)


def format_count(n: int) -> str:
    """'1,234,567'."""
    return f"{n:,}"


def format_ns(ns: float) -> str:
    """'850 ns', '1.2 ms', '3.40 s', '12 min 5 s'."""
    if ns < 1_000:
        return f"{ns:.0f} ns"
    if ns < 1_000_000:
        return f"{ns / 1e3:.1f} µs"
    if ns < 1_000_000_000:
        return f"{ns / 1e6:.1f} ms"
    if ns < 120_000_000_000:
        return f"{ns / 1e9:.2f} s"
    minutes, seconds = divmod(round(ns / 1e9), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"


def bar(share: float, width: int = 24) -> str:
    """A share from 0 to 1 as a bar of so many characters."""
    eighths = round(max(0.0, min(share, 1.0)) * width * 8)
    full, part = divmod(eighths, 8)
    return ("█" * full + ("▏▎▍▌▋▊▉"[part - 1] if part else "")).ljust(width)
