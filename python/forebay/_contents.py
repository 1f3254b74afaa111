"""What a file holds beyond its table: groups, data sets, attributes of HDF5 and NetCDF-4; key-value metadata of Parquet and Arrow and of their columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ._forebay import printable
from ._sequences import texts
from ._sizes import format_bytes

if TYPE_CHECKING:
    from ._dataset import Dataset
    from ._schema import Field


_MAX_AXES = 5  # of a column's tensor, besides rows


class Attributes(Mapping[str, Any]):
    """Attributes by name: numbers as NumPy arrays or scalars, texts as str, or as bytes where they are not UTF-8 (several: an object
    array). As h5py's ``.attrs`` reads."""

    def __init__(self, raw: dict[str, tuple]) -> None:
        self._raw = raw

    def __getitem__(self, name: str) -> Any:
        kind, dtype, shape, value = self._raw[name]
        if value is None:
            raise ValueError(f"attribute {name!r} of type {kind} holds neither numbers nor text")
        import numpy as np

        if isinstance(value, list):
            if shape == ():
                return value[0] if value else ""
            array = np.empty(len(value), dtype=object)
            array[:] = value
            return array.reshape(shape)
        array = np.frombuffer(value, dtype=dtype).reshape(shape)
        return array[()] if shape == () else array.copy()

    def __iter__(self) -> Iterator[str]:
        return iter(self._raw)

    def __len__(self) -> int:
        return len(self._raw)

    def __repr__(self) -> str:
        def shown(name: str) -> str:
            kind, _, shape, value = self._raw[name]
            return repr(self[name]) if value is not None and shape == () else f"<{kind} {'×'.join(map(str, shape))}>"

        return "{" + ", ".join(f"{name!r}: {shown(name)}" for name in self) + "}"


class Object(NamedTuple):
    """One object of a file: a group, a data set ("array"), a named type, a link that leads nowhere, or a "column" of Parquet and Arrow.

    `direct` says whether Forebay reads the data set itself; if not, `why` says why the helper program does. `column` is the column of the
    data set's table that holds it, None when it is not part of the table.
    """

    path: str
    kind: str
    attributes: Attributes
    type: str | None
    dtype: str | None
    shape: tuple[int, ...]
    dimensions: tuple[str | None, ...]
    layout: str | None
    chunks: tuple[int, ...] | None
    chunk_index: str | None
    filters: str
    n_chunks: int
    n_chunks_written: int
    stored_bytes: int
    decoded_bytes: int
    direct: bool
    why: str | None
    column: str | None

    def __repr__(self) -> str:
        if self.kind != "array":
            return f"<{self.kind} {printable(self.path)}>"
        parts = [f"{self.type} {self.shape}", self.layout or ""]
        if self.chunks:
            parts.append(f"chunks {self.chunks}")
        if self.filters:
            parts.append(self.filters)
        parts.append(f"{format_bytes(self.stored_bytes)} stored")
        if not self.direct:
            parts.append(f"through the helper program: {self.why}")
        return printable(f"<array {self.path}: {', '.join(part for part in parts if part)}>")


class Contents(Mapping[str, Object]):
    """Everything in one file by absolute path: made by :meth:`Dataset.contents`. ``contents["/events/x"].chunks``."""

    def __init__(self, objects: list[dict[str, Any]], notes: list[str]) -> None:
        self._objects: dict[str, Object] = {}
        for item in objects:  # the first of a path counts: a column without a name has the root's
            self._objects.setdefault(item["path"], Object(**{**item, "attributes": Attributes(item["attributes"])}))
        self.notes = notes

    @property
    def arrays(self) -> list[Object]:
        """The data sets."""
        return [item for item in self._objects.values() if item.kind == "array"]

    def __getitem__(self, path: str) -> Object:
        try:
            return self._objects[path if path.startswith("/") else "/" + path]
        except KeyError:
            raise KeyError(f"there is no {path!r}; the file holds {', '.join(list(self._objects)[:20])}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._objects)

    def __len__(self) -> int:
        return len(self._objects)

    def __repr__(self) -> str:
        return "\n".join(map(repr, self._objects.values()))


def row_axes(item: Object) -> int:
    """How many of a data set's axes run over rows when it is read whole.

    Numbers keep their axes, as many as a batch can have; the rest comes element by element. array_of() gives the shape back.
    """
    return max(len(item.shape) - _MAX_AXES if item.dtype is not None else len(item.shape), 1)


def array_of(item: Object, table: "Dataset | None") -> Any:
    """A data set as NumPy, in its own shape; `table` is that data set alone, opened with row_axes(), or None where it is empty."""
    import numpy as np

    numbers = item.dtype is not None
    if table is None or len(table) == 0:
        return np.empty(item.shape, dtype=item.dtype if numbers else object)
    field = table.schema[table.columns[0]]
    if _is_nested(field):
        batches = [_nested(np, batch[5][0]) for batch in table._core.export_nodes(None)]
        array = np.concatenate(batches)
    else:
        array = table.read()[field.name]
    if field.kind == "fixed_binary":  # opaque values: a column of bytes; here one void each
        array = np.ascontiguousarray(array).view(f"V{field.byte_width}").reshape(len(array))
    if not isinstance(array, np.ndarray):
        return array  # lists of different lengths: a Ragged
    inner = array.shape[1:] if not numbers else ()
    array = array.reshape((*item.shape, *inner) if not numbers else item.shape)
    return array[()] if array.shape == () else array


_NUMBERS = {"c": "i1", "C": "u1", "s": "i2", "S": "u2", "i": "i4", "I": "u4", "l": "i8", "L": "u8", "e": "f2", "f": "f4", "g": "f8"}


def _is_nested(field: Field) -> bool:
    """Is it a struct, or a list of anything but numbers? Then a loader has no tensor for it."""
    value = field
    while value.kind == "fixed_list" or (value is field and field.kind == "list"):
        value = value.children[0]
    return value.kind == "struct" or (value is not field and value.dtype is None)


def _objects(np: Any, values: Any, offsets: Any) -> Any:
    """Lists as an object array of arrays, as h5py has them."""
    result = np.empty(len(offsets) - 1, dtype=object)
    for i in range(len(result)):
        result[i] = values[offsets[i] : offsets[i + 1]]
    return result


def _nested(np: Any, node: tuple[Any, ...]) -> Any:
    """An Arrow array (_forebay.Dataset.export_nodes) as NumPy: structs as structured arrays, lists as object arrays of arrays."""
    _, kind, n, _, buffers, children = node
    if kind == "+s":
        return _structured(np, n, {child[0]: _nested(np, child) for child in children})
    if kind.startswith("+w:"):
        inner = _nested(np, children[0])
        return inner.reshape(n, int(kind[3:]), *inner.shape[1:])
    if kind.startswith("w:"):
        return np.frombuffer(buffers[0], dtype=f"V{kind[2:]}").copy()
    if kind == "b":
        return np.unpackbits(np.frombuffer(buffers[0], dtype="u1"), count=n, bitorder="little").astype(bool)
    if kind in _NUMBERS:
        return np.frombuffer(buffers[0], dtype=_NUMBERS[kind]).copy()
    offsets = np.frombuffer(buffers[0], dtype="i8")
    if kind == "+L":
        return _objects(np, _nested(np, children[0]), offsets)
    result = np.empty(n, dtype=object)
    result[:] = texts([buffers[1][offsets[i] : offsets[i + 1]] for i in range(n)])
    return result


def _structured(np: Any, n: int, members: dict[str, Any]) -> Any:
    """Members of a compound as a structured array; real and imaginary parts as h5py writes and reads them as complex numbers."""
    if list(members) == ["r", "i"] and members["r"].dtype == members["i"].dtype and members["r"].dtype.char in "fd" and members["r"].ndim == 1:
        result = np.empty(n, dtype=f"c{2 * members['r'].dtype.itemsize}")
        result.real, result.imag = members["r"], members["i"]
        return result
    result = np.empty(n, dtype=[(name, values.dtype, values.shape[1:]) for name, values in members.items()])
    for name, values in members.items():
        result[name] = values
    return result
