"""Sizes as people write them: parsing ("8GiB", "50 blocks") and printing. Strict: what is ambiguous is refused, with what to write instead."""

from __future__ import annotations

import operator
import re

_UNITS = {"B": 1}
for _i, _p in enumerate("KMGTP", 1):
    _UNITS[_p + "B"] = 1000**_i
    _UNITS[_p + "iB"] = 1024**_i
_BY_LOWER = {name.lower(): name for name in _UNITS}
_NUMBER = re.compile(r"\s*([0-9][0-9_]*(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*")
_LIMIT = 1 << 63


def _split(text: str, what: str, examples: str) -> tuple[str, str]:
    match = _NUMBER.fullmatch(text)
    if not match:
        raise ValueError(f"{what}={text!r} is not a size: write {examples}")
    return match[1].replace("_", ""), match[2]


def _scale(number: str, factor: int, text: str, what: str) -> int:
    whole, _, fraction = number.partition(".")
    value = (int(whole + fraction) * factor) // 10 ** len(fraction)
    if not 0 < value < _LIMIT:
        raise ValueError(f"{what}={text!r} is out of range: it must be at least one byte and below 2^63")
    return value


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
    if not isinstance(value, str):
        return count(value, what, 1)
    number, unit = _split(value, what, "a number with a unit, such as '8GiB', '512 MB', or an int of bytes")
    name = _BY_LOWER.get(unit.lower())
    if name is None:
        if unit.upper() in "KMGTP" and unit:
            p = unit.upper()
            raise ValueError(f"{what}={value!r} is ambiguous: write '{number}{p}iB' (1024-based) or '{number}{p}B' (1000-based)")
        if not unit:
            raise ValueError(f"{what}={value!r} has no unit: write '{number}MiB', '{number}GiB', or the int {number} for bytes")
        raise ValueError(f"{what}={value!r}: {unit!r} is not a unit; use one of {', '.join(_UNITS)}")
    return _scale(number, _UNITS[name], value, what)


def memory(value: object) -> dict[str, float | bool]:
    """The option of a loader that "8GiB", an int of bytes, "70%" or "all" says; None says none."""
    if value is None:
        return {}
    if value == "all":
        return {"memory_all": True}
    if isinstance(value, str) and value.strip().endswith("%"):
        number, unit = _split(value.strip()[:-1], "memory", "a share of what is available, such as '70%'")
        if unit or not 0 < float(number) <= 100:
            raise ValueError(f"memory={value!r}: a share of what is available is above 0% and at most 100%")
        return {"memory_fraction": float(number) / 100}
    if isinstance(value, float):
        raise TypeError(f"memory={value!r}: a size is '8GiB' or an int of bytes, a share of what is available '70%'")
    return {"memory_bytes": size_bytes(value, "memory")}


def superbatch(value: object) -> dict[str, int]:
    """The option of a loader that "50 blocks", "100000 samples", "256MiB" or an int of samples says; None says none."""
    if value is None:
        return {}
    if not isinstance(value, str):
        return {"superbatch_samples": count(value, "superbatch", 1)}
    number, unit = _split(value, "superbatch", "'50 blocks', '100000 samples', '256MiB', or an int of samples")
    word = unit.lower()
    if word in ("block", "blocks", "sample", "samples"):
        if "." in number:
            raise ValueError(f"superbatch={value!r}: a whole number of {word} is needed")
        n = count(int(number), "superbatch", 1)
        return {"superbatch_blocks" if word.startswith("block") else "superbatch_samples": n}
    if not unit:
        raise ValueError(f"superbatch={value!r} has no unit: write '{number} blocks', '{number} samples' or '{number}MiB'")
    if unit.lower() not in _BY_LOWER and not (unit and unit.upper() in "KMGTP"):
        raise ValueError(f"superbatch={value!r}: {unit!r} is not a unit; write blocks, samples, or one of {', '.join(_UNITS)}")
    return {"superbatch_bytes": size_bytes(value, "superbatch")}


def part(value: object, key: object = None) -> dict[str, int]:
    """The option of a loader that "1000 files", "1000 keys" or "1/10" says; None says none: an epoch is all of it."""
    if key is not None and not isinstance(key, str):
        raise TypeError(f"part_key={key!r}: the name of a column is a str, not {type(key).__name__}")
    words = value.split() if isinstance(value, str) else []
    of = words[1].rstrip("s") if len(words) == 2 else ""
    if key is not None and (value is None or of == "file"):
        raise ValueError(f"part_key={key!r} names the keys that parts are made of: write part='1000 keys' or part='1/10'")
    if value is None:
        return {}
    if len(words) == 2 and words[1] in ("file", "files", "key", "keys") and words[0].replace("_", "").isdecimal():
        n = count(int(words[0]), "part", 1, 2**32 - 1)
        return {"part_files" if of == "file" else "part_keys": n}
    if len(words) == 1 and words[0].startswith("1/") and words[0][2:].isdecimal():
        return {"n_parts": count(int(words[0][2:]), "part", 1, 2**32 - 1)}
    raise ValueError(
        f"part={value!r}: write '1000 files' for an epoch of so many whole files, '1000 keys' for one of so many keys, or '1/10' for a tenth of them"
    )


def format_bytes(n: float) -> str:
    """'512 B', '3.4 MiB'."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(n) < 1024 or unit == "TiB":
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1024
    raise AssertionError


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
