"""The class names that a file brings along, as a mapping for Column.map()."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ._sizes import count

if TYPE_CHECKING:
    from ._dataset import Dataset


def class_map(data: "Dataset | Mapping[str, Any] | str", classes: Mapping[Any, Any] | None = None, attribute: str = "labels_json") -> dict[Any, int]:
    """The class names that a file brings along, and a mapping that merges classes.

    Parameters
    ----------
    data : Dataset, mapping or str
        A data set whose first file has the attribute; or what it holds: names to numbers or numbers to names, parsed or as JSON.
    classes : mapping, optional
        What becomes of the file's classes. Merged classes with lists of the file's names, ``{"leak": ["drip", "burst"], "quiet": ["none"]}``:
        numbered from 0 in the order given. Or numbers for names, ``{"drip": 1, "burst": 1, "none": 0}``.
    attribute : str
        Of the root group of an HDF5 file.

    Returns
    -------
    dict
        Without `classes` the names and their numbers. With them the file's numbers and what each becomes, for :meth:`Column.map`: names that
        are not listed are left to its default.

    Examples
    --------
    >>> fb.class_map(ds)
    {'none': 0, 'drip': 1, 'burst': 2}
    >>> fb.col("labels").map(fb.class_map(ds, {"quiet": ["none"], "leak": ["drip", "burst"]}))
    """
    found = _numbers_of(data, attribute)
    if classes is None:
        return found
    result: dict[Any, int] = {}
    for place, (key, value) in enumerate(classes.items()):
        is_list = isinstance(value, Sequence) and not isinstance(value, (str, bytes))
        for name in value if is_list else [key]:
            if name not in found:
                raise ValueError(f"there is no class {name!r}: there are {', '.join(map(repr, found))}")
            target = place if is_list else count(value, f"the number of {key!r}", -(2**63), 2**63 - 1)
            if result.setdefault(found[name], target) != target:
                raise ValueError(f"class {name!r} is merged into two")
    return result


def _numbers_of(data: Any, attribute: str) -> dict[str, int]:
    if hasattr(data, "attrs"):
        attributes = data.attrs
        if attribute not in attributes:
            raise ValueError(f"the first file has no attribute {attribute!r}: it has {', '.join(map(repr, attributes)) or 'none'}")
        data = attributes[attribute]
    if hasattr(data, "tolist"):
        data = data.tolist()  # an attribute of several texts
    if isinstance(data, bytes):
        data = data.decode()
    if isinstance(data, str):
        try:
            data = json.loads(data)
        except ValueError as error:
            raise ValueError(f"{attribute} is no JSON: {error}") from None
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        data = {name: place for place, name in enumerate(data)}
    if not isinstance(data, Mapping):
        raise TypeError(f"{attribute} holds a mapping of names and numbers, not {type(data).__name__}")
    result: dict[str, int] = {}
    for key, value in data.items():
        name, number = (key, value) if isinstance(value, int) else (value, key)
        try:
            number = int(number)
        except (TypeError, ValueError):
            raise ValueError(f"{attribute}: neither of {key!r} and {value!r} is a class number") from None
        if result.setdefault(str(name), number) != number:
            raise ValueError(f"{attribute} names {name!r} twice")
    return result
