"""What a file holds beyond its table: groups, data sets, attributes. HDF5 and NetCDF-4."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ._sizes import format_bytes

if TYPE_CHECKING:
    from ._dataset import Dataset
    from ._schema import Field


_MAX_AXES = 5  # of a column's tensor, besides rows


class Attributes(Mapping[str, Any]):
    """Attributes by name: numbers as NumPy arrays or scalars, texts as str (several: an object array). As h5py's ``.attrs`` reads."""

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
    """A group, a data set ("array"), a named type, or a link that leads nowhere.

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
            return f"<{self.kind} {self.path}>"
        parts = [f"{self.type} {self.shape}", self.layout or ""]
        if self.chunks:
            parts.append(f"chunks {self.chunks}")
        if self.filters:
            parts.append(self.filters)
        parts.append(f"{format_bytes(self.stored_bytes)} stored")
        if not self.direct:
            parts.append(f"through the helper program: {self.why}")
        return f"<array {self.path}: {', '.join(part for part in parts if part)}>"


class Contents(Mapping[str, Object]):
    """Everything in one file by absolute path: made by :meth:`Dataset.contents`. ``contents["/events/x"].chunks``."""

    def __init__(self, objects: list[dict[str, Any]], notes: list[str]) -> None:
        self._objects = {item["path"]: Object(**{**item, "attributes": Attributes(item["attributes"])}) for item in objects}
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


def read_array(dataset: "Dataset", path: str, file: int) -> Any:
    """One data set whole, as stored: what ``h5py.File(name)[path][()]`` gives."""
    import numpy as np

    from ._dataset import open as open_dataset

    item = dataset.contents(file)[path]
    if item.kind != "array":
        raise ValueError(f"{path!r} is a {item.kind}, not a data set")
    name = dataset.files[file].path
    numbers = item.dtype is not None
    if 0 in item.shape and numbers:
        return np.empty(item.shape, dtype=item.dtype)
    # Numbers keep their axes, as many as a batch can have; the rest comes element by element. The shape comes back here.
    axes = max(len(item.shape) - _MAX_AXES if numbers else len(item.shape), 1)
    with open_dataset(name, table=item.path, single=True, axes=axes, stored_values=True, cache_dir="") as table:
        if len(table) == 0:
            return np.empty(item.shape, dtype=object)
        columns = table.read()
        if not columns:
            raise ValueError(f"{path!r} of type {item.type} cannot be an array")
        field = table.schema[table.columns[0]]
        array = _structured(np, field, columns) if field.kind == "struct" else next(iter(columns.values()))
        if field.kind == "fixed_binary":  # opaque values: a column of bytes; here one void each
            array = np.ascontiguousarray(array).view(f"V{field.byte_width}").reshape(len(array))
    if not isinstance(array, np.ndarray):
        return array  # lists of different lengths: a Ragged
    inner = array.shape[1:] if not numbers else ()
    array = array.reshape((*item.shape, *inner) if not numbers else item.shape)
    return array[()] if array.shape == () else array


def _is_complex(node: dict[str, Any]) -> bool:
    """Is it what h5py writes complex numbers as, and reads as such?"""
    if list(node) != ["r", "i"] or any(isinstance(v, dict) for v in node.values()):
        return False
    return node["r"].dtype == node["i"].dtype and node["r"].dtype.char in "fd"


def _objects(np: Any, lists: Any) -> Any:
    """A Ragged as an object array of arrays, as h5py has lists."""
    result = np.empty(len(lists.offsets) - 1, dtype=object)
    for i in range(len(result)):
        result[i] = lists.values[lists.offsets[i] : lists.offsets[i + 1]]
    return result


def _structured(np: Any, field: Field, columns: dict[str, Any]) -> Any:
    """Members of a compound as a structured array, nested as they are."""

    def gather(struct: Field) -> dict[str, Any]:
        tree: dict[str, Any] = {}
        for child in struct.children:
            if child.kind == "struct":
                tree[child.name] = gather(child)
            elif child.path in columns:  # the others cannot be arrays
                values = columns[child.path]
                tree[child.name] = values if isinstance(values, np.ndarray) else _objects(np, values)
        return tree

    def dtype(node: dict[str, Any]) -> Any:
        if _is_complex(node):
            return np.dtype(f"c{2 * node['r'].dtype.itemsize}")
        return np.dtype([(name, dtype(v)) if isinstance(v, dict) else (name, v.dtype, v.shape[1:]) for name, v in node.items()])

    def fill(out: Any, node: dict[str, Any]) -> None:
        if _is_complex(node):
            out.real, out.imag = node["r"], node["i"]
            return
        for name, v in node.items():
            if isinstance(v, dict):
                inner = np.empty(len(out), dtype=out.dtype[name])
                fill(inner, v)
                out[name] = inner
            else:
                out[name] = v

    tree = gather(field)
    result = np.empty(len(next(iter(columns.values()))), dtype=dtype(tree))
    fill(result, tree)
    return result
