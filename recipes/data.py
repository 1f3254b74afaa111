"""Generated data of a recipe: whole or not there, and of a known scale. Needs no PyTorch: generate.py does without."""

from __future__ import annotations

import argparse
import math
import os
import pathlib
import shutil
import sys
from collections.abc import Callable, Mapping
from typing import Any

SCALES = ("small", "medium", "bench", "full")
NOTE = ".scale"  # a file beside the data: their recipe and scale, when they are just as generate.py has them


def whole(text: str, least: int = 0) -> int:
    """An argument that is a whole number."""
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from {least} on")
    return int(text)


def count(text: str) -> int:
    """An argument that is a number from 1 on."""
    return whole(text, 1)


def positive(text: str) -> float:
    """An argument that is a number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def generated(folder: pathlib.Path, generate: Callable[[pathlib.Path], Any], note: str = "") -> Any:
    """What `generate` writes, under another name until it is whole; gives what it returned."""
    print(f"generating data in {folder}", file=sys.stderr)
    folder = folder.absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    for left in folder.parent.glob(f".{folder.name}-partial-*"):
        if not pathlib.Path("/proc", left.name.rpartition("-")[2]).exists():  # of one that was killed
            shutil.rmtree(left, ignore_errors=True)
    partial = folder.with_name(f".{folder.name}-partial-{os.getpid()}")
    try:
        made = generate(partial)
        if note:
            (partial / NOTE).write_text(note)
        partial.rename(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return made


def scale_of(folder: pathlib.Path, name: str) -> str | None:
    """Of a recipe's data, where that is known; data of another recipe are refused."""
    path = folder / NOTE
    of, _, scale = path.read_text().rpartition(" ") if path.exists() else ("", "", "")
    if of and of != name:
        raise SystemExit(f"{folder} has data of the recipe {of!r}, not {name!r}: name another folder with --data")
    return scale or None


def command(doc: str, scales: Mapping[str, Mapping[str, Any]]) -> argparse.ArgumentParser:
    """Of a generate.py, whose sizes are still to be added: a folder, and a scale."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--scale", choices=scales, default="small")
    parser.add_argument("--seed", type=whole, default=0)
    return parser


def write(name: str, parser: argparse.ArgumentParser, scales: Mapping[str, Mapping[str, Any]], generate: Callable[..., Any]) -> tuple[pathlib.Path, Any]:
    """What such a command does: the folder, and what `generate(folder, **sizes)` returned."""
    args = vars(parser.parse_args())
    out, scale = args.pop("out"), args.pop("scale")
    sizes = {key: value for key, value in args.items() if value is not None}
    if os.path.lexists(out) and (not out.is_dir() or out.is_symlink() or out.is_mount() or any(out.iterdir())):
        parser.error(f"{out} is there already: delete it, or name another folder")
    as_it_is = all(value == parser.get_default(key) for key, value in sizes.items())
    try:
        made = generated(out, lambda folder: generate(folder, **scales[scale] | sizes), f"{name} {scale}" if as_it_is else "")
    except OSError as error:
        raise SystemExit(f"generate.py: {out}: {error}") from error
    return out, made
