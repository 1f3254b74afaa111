"""Writes bench/results/README.md, the table of README.md and the figures of docs/speed.md from the CSV files in bench/results. Measures nothing.

    bench/report.py
"""
import csv

import common

BEGIN, END = "<!-- results: written by bench/report.py -->\n", "<!-- end of results -->\n"

TITLES = {
    "ceilings.csv": "Ceilings: what the machine does with nothing of Forebay in the way",
    "decode.csv": "(a) Decode alone, to float32 rows, file in memory",
    "batches.csv": "(b) Shuffled float32 batches of 1,024 rows, 200 files × 5,000 rows × 64 columns",
    "batches_busy.csv": "(b') The same, the consumer's step busy on one core for 0.25 ms a batch",
    "roofline.csv": "(c) Against the roofline",
    "scaling.csv": "(d) One file of one row group, 10 million rows × 16 columns",
    "small_files.csv": "(d) 10,000 small files: from open() to the first batch",
    "hdf5.csv": "(e) HDF5: shuffled batches of 512 jets, 128 × 8 float32, chunks of 1,000",
    "hdf5_plain.csv": "(f) HDF5: contiguous and uncompressed",
    "hdf5_cells.csv": "(g) HDF5: cells of float16 → float32, batch 5,632",
    "hdf5_index.csv": "(h) HDF5: seconds to open",
    "advise.csv": "What `forebay advise` predicts of the first epoch, and its settings beside the best of a grid",
    "operations.csv": "(j) Operations: one core beside what its bytes cost, and loaders beside NumPy and pandas",
    "pack_load.csv": "Packs: float32 rows in full random order, page cache warm",
    "pack_shuffle.csv": "Packs: a global shuffle of ten times the memory allowed, Parquet to Parquet",
    "mix.csv": "Mixtures: Parquet, HDF5 and a DataFrame in equal parts, beside what each gives alone",
    "limits.csv": "Twelve planted bottlenecks: what the report says, and what its first cure gives",
    "overhead.csv": "(k) What clocks and counters that are always on cost: share of the loader's CPU time",
}
HIDDEN = {"date_utc", "commit"}


def read(name):
    path = common.RESULTS / name
    if not path.exists():
        return []
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def shown(value):
    """A figure with three digits, or grouped when it is large; text as it is."""
    try:
        number = float(value)
    except ValueError:
        return value
    if number == int(number) and abs(number) < 1e4:
        return str(int(number))
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}"


def markdown(rows):
    columns = [c for c in rows[0] if c not in HIDDEN and any(r[c] for r in rows)]
    numeric = {c: all(r[c] == "" or r[c].replace(".", "").replace("-", "").replace("e", "").replace("+", "").isdigit() for r in rows) for c in columns}
    lines = ["| " + " | ".join(c.replace("_", " ") for c in columns) + " |", "|" + "|".join("---:" if numeric[c] else "---" for c in columns) + "|"]
    lines += ["| " + " | ".join(shown(r[c]) for c in columns) + " |" for r in rows]
    return "\n".join(lines)


def results_page():
    machine = common.RESULTS / "machine.txt"
    parts = ["# Results\n\nWritten by `bench/report.py` from the CSV files beside it; `make bench` measures again. What each question means, its "
             "ceiling and the method: [bench/README.md](../README.md)."]
    if machine.exists():
        parts.append(f"Machine of the last run: {machine.read_text().strip()}.")
    for name, title in TITLES.items():
        rows = read(name)
        if rows:
            when = ", ".join(dict.fromkeys(f"{row['date_utc']} UTC at commit `{row['commit']}`" for row in rows))
            parts.append(f"## {title}\n\nMeasured {when}.\n\n{markdown(rows)}")
    return "\n\n".join(parts) + "\n"


def front_table():
    """The one table of README.md; nothing that was not measured."""
    lines = []
    batches = {r["loader"]: r for r in read("batches.csv") if r.get("rows_per_s_median")}
    machine = common.RESULTS / "machine.txt"
    ours = [r for name, r in batches.items() if name.startswith("forebay")]
    if ours:
        quarter = float(ours[0]["rows_per_s_median"])
        lines.append("Shuffled float32 batches of 1,024 rows from 200 pandas-written files of 5,000 rows × 64 columns, page cache warm, on "
                     f"{machine.read_text().strip() if machine.exists() else 'two cores'}:\n")
        lines += ["| loader | rows/s | Forebay with a quarter of the data in memory is |", "|---|---:|---:|"]
        for name, r in batches.items():
            rate = float(r["rows_per_s_median"])
            lines.append(f"| {name} | {rate:,.0f} | {'' if name.startswith('forebay') else f'{quarter / rate:,.1f}×'} |")
    return "\n".join(lines) + "\n" if lines else "Not measured yet: `make bench`.\n"


def speed_page():
    """The figures of docs/speed.md."""
    lines = [front_table()]
    decode = read("decode.csv")
    if decode:
        ratios = [float(r["ratio"]) for r in decode]
        lines.append(f"Decoding alone, to float32 rows, is {min(ratios):.1f} to {max(ratios):.1f} times as fast as pyarrow with `to_tensor`, over "
                     f"{len({r['case'] for r in decode})} encodings and codecs.")
    small = {(r["page_cache"], r["index"]): float(r["first_batch_s_median"]) for r in read("small_files.csv")}
    if small:
        lines.append(f"From `open()` of 10,000 small files to the first batch: {small['warm', 'cold']:.2f} s the first time, "
                     f"{small['warm', 'warm']:.2f} s with the index that it leaves (page cache warm).")
    hdf5 = [r for r in read("hdf5.csv") if r["filters"] == "gzip" and r["rows_per_s_median"]]
    if hdf5:
        ours = next(r for r in hdf5 if r["loader"] == "forebay")
        rivals = ", ".join(f"{r['loader']} {float(r['rows_per_s_median']):,.0f} ({float(r['forebay_ratio']):,.1f}×)" for r in hdf5 if r["forebay_ratio"])
        lines.append(f"\nHDF5, shuffled batches of 512 jets (128 × 8 float32, gzip, chunks of 1,000), a quarter of the decoded size as budget: "
                     f"{float(ours['rows_per_s_median']):,.0f} jets/s, {float(ours['roofline_share_percent']):.0f} % of what codec, "
                     f"reading and gathering allow. Beside it: {rivals}.")
    cells = [r for r in read("hdf5_cells.csv") if r["loader"].startswith("NumPy")]
    if cells:
        lines.append("Cells of float16 as float32 batches, all in memory, against NumPy's take and cast: "
                     + ", ".join(f"{float(r['forebay_ratio']):.1f}× ({r['filters']})" for r in cells) + ".")
    operations = read("operations.csv")
    if operations:
        def shares(start, peer):
            found = [float(r["ratio"]) for r in operations if r["operation"].startswith(start) and r["peer"] == peer]
            least, most = f"{100 * min(found):.0f}", f"{100 * max(found):.0f}"
            return f"{least} to {most} %" if least != most else f"{most} %"

        grams = next(r for r in operations if r["operation"].startswith("n-grams"))
        lines.append(f"Operations on one core: bits to float32 at {shares('bits_', 'vector stores')} of the store bandwidth, windows at "
                     f"{shares('windows', 'memcpy')} of memcpy, symmetric matrices at {shares('symmetric', 'memset and memcpy')} of memset and memcpy; "
                     f"two-grams of five columns through a loader {float(grams['ratio']):.0f} times as fast as pandas.")
    mixed = {r["loader"]: r for r in read("mix.csv") if r["rows_per_s_median"]}
    if mixed:
        sources = ", ".join(f"{name.removesuffix(' alone')} {float(r['rows_per_s_median']):,.0f}" for name, r in mixed.items() if name.endswith(" alone"))
        rivals = ", ".join(f"{name} {float(r['rows_per_s_median']):,.0f}" for name, r in mixed.items()
                           if name != "mixture" and not name.endswith(" alone") and not name.startswith("bound"))
        lines.append(f"\nA [mixture](mixtures.md) of Parquet, HDF5 and a DataFrame in equal parts, rows of 64 columns: "
                     f"{float(mixed['mixture']['rows_per_s_median']):,.0f} rows/s, {100 * float(mixed['mixture']['of_bound_median']):.1f} % of what its "
                     f"sources allow when each is loaded alone ({sources}).{f' Beside it: {rivals}.' if rivals else ''}")
    return "\n".join(lines) + "\n"


def main():
    common.RESULTS.mkdir(exist_ok=True)
    (common.RESULTS / "README.md").write_text(results_page())
    for page, figures in ((common.ROOT / "README.md", front_table()), (common.ROOT / "docs/speed.md", speed_page())):
        text = page.read_text()
        begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
        page.write_text(text[:begin] + "\n" + figures + "\n" + text[end:])
    print(f"wrote {common.RESULTS / 'README.md'}, the table of README.md and the figures of docs/speed.md")


if __name__ == "__main__":
    main()
