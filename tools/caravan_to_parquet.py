#!/usr/bin/env python3
"""Convert Caravan's CSV files to Parquet: one file of daily rows a gauge, and its tables of static attributes.

    caravan_to_parquet.py CARAVAN OUT [--float32]

    CARAVAN/**/<region>_<number>.csv[.gz]            ->  OUT/series/<region>/<region>_<number>.parquet
    CARAVAN/**/attributes_<kind>_<region>.csv[.gz]   ->  OUT/attributes/attributes_<kind>_<region>.parquet

Caravan's series carry no gauge_id, the id is the file's name: open them as OUT/series/{region}/{gauge_id}.parquet. Dates become
timestamps, numbers float64 or, with --float32, float32 (of series), empty fields null. Files are written to a temporary name and renamed, so
that a run which was stopped can be started again; files that are there already and newer than their source are left alone.
"""

import argparse
import os
import pathlib
import sys

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq


def stem(path):
    """The name without .csv or .csv.gz."""
    return path.name.removesuffix(".gz").removesuffix(".csv")


def target(path, out):
    """Where the file's Parquet goes."""
    name = stem(path)
    if name.startswith("attributes_"):
        return out / "attributes" / f"{name}.parquet"
    region, _, number = name.rpartition("_")
    if not region or not number:
        raise ValueError(f"{path}: the name is not <region>_<number>")
    return out / "series" / region / f"{name}.parquet"


def convert(path, to, single):
    """Write one file."""
    is_series = to.parent.name != "attributes"
    types = {"date": pa.timestamp("ns")} if is_series else {"gauge_id": pa.string()}
    options = pa.csv.ConvertOptions(column_types=types, null_values=["", "NaN", "nan", "NA"])
    table = pa.csv.read_csv(path, convert_options=options)
    if is_series and "date" not in table.column_names:
        raise ValueError(f"{path}: there is no column 'date'")
    for i, field in enumerate(table.schema):
        if pa.types.is_integer(field.type) or pa.types.is_null(field.type):  # of other gauges the column has fractions
            table = table.set_column(i, field.name, table.column(i).cast(pa.float64()))
        if is_series and single and field.name != "date" and pa.types.is_floating(table.schema.field(i).type):
            table = table.set_column(i, field.name, pc.cast(table.column(i), pa.float32()))
    to.parent.mkdir(parents=True, exist_ok=True)
    unfinished = to.with_suffix(f".{os.getpid()}.part")
    try:
        pq.write_table(table, unfinished, row_group_size=max(1, len(table)))
        os.replace(unfinished, to)
    finally:
        unfinished.unlink(missing_ok=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("caravan", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--float32", action="store_true", help="of series")
    args = parser.parse_args()
    sources = sorted(path for pattern in ("**/*.csv", "**/*.csv.gz") for path in args.caravan.glob(pattern))
    if not sources:
        sys.exit(f"{args.caravan}: no .csv or .csv.gz below it")
    made = 0
    for path in sources:
        try:
            to = target(path, args.out)
            if to.exists() and to.stat().st_mtime > path.stat().st_mtime:
                continue
            convert(path, to, args.float32)
        except (ValueError, pa.ArrowInvalid) as error:
            sys.exit(f"{path}: {error}")
        made += 1
    print(f"{args.out}: {made} files written, {len(sources) - made} were there")


if __name__ == "__main__":
    main()
