"""Words that users of torch, Lightning, h5py, pandas, polars and scikit-learn look for lead to the section that answers them."""

import inspect
import re
import subprocess

import pytest

import forebay as fb
from real_data import ROOT

GUIDE = ROOT / "docs/migration.md"
WORDS = """
Dataset IterableDataset DataLoader TensorDataset Subset random_split ConcatDataset ChainDataset collate_fn default_collate sampler BatchSampler
DistributedSampler set_epoch WeightedRandomSampler SubsetRandomSampler num_workers worker_init_fn get_worker_info multiprocessing_context
pin_memory non_blocking prefetch_factor persistent_workers drop_last generator pad_sequence .long() .permute() StatefulDataLoader
LightningDataModule train_dataloader reload_dataloaders_every_n_epochs use_distributed_sampler ckpt_path
rdcc_nbytes swmr h5py.VirtualLayout ds[i:j] .attrs dset.chunks
read_csv read_parquet astype fillna interpolate merge groupby get_dummies pd.to_datetime df.sample df.iloc
scan_parquet with_columns filter over join cast rolling explode
train_test_split stratify GroupShuffleSplit StandardScaler inverse_transform class_weight LabelEncoder SimpleImputer
mmap_mode np.stack np.where einops cache profiler
""".split()
SAID = ["chunk cache", "virtual dataset", "data on S3"]


def slug(heading):
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def sections(path):
    """{anchor: text} of a page, and its whole text under ''."""
    found, fence, anchor = {"": path.read_text()}, False, ""
    for line in found[""].splitlines():
        fence ^= line.startswith("```")
        heading = None if fence else re.match(r"(#+) (.*)", line)
        if heading:
            anchor = slug(heading[2])
            found[anchor] = ""
        elif anchor:
            found[anchor] += line + "\n"
    return found


def rows():
    """(words, what to write here, the link) of the table of words."""
    table = sections(GUIDE)["words-you-know"]
    return [tuple(cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]) for line in table.splitlines() if re.match(r"\| [^-]", line)][1:]


def answer(word):
    """The row of a word."""
    found = [row for row in rows() if word in re.findall(r"`([^`]+)`", row[0]) or (" " in word and word in row[0])]
    assert len(found) == 1, f"{len(found)} rows of docs/migration.md's words have {word!r}"
    return found[0]


@pytest.mark.parametrize("word", [*WORDS, *SAID])
def test_a_word_leads_to_the_section_that_answers_it(word):
    _, here, where = answer(word)
    assert len(here) > 3, f"{word!r} has no answer"
    links = re.findall(r"\]\(([^)#]*)#?([^)]*)\)", where)
    assert links, f"{word!r} leads nowhere"
    for page, anchor in links:
        path = (GUIDE.parent / page).resolve() if page else GUIDE
        assert path.is_file() and anchor in sections(path), f"{word!r}: {page}#{anchor} is no section"
    texts = [sections((GUIDE.parent / page).resolve() if page else GUIDE)[anchor] for page, anchor in links]
    for code in re.findall(r"`([^`]+)`", here):
        names = re.findall(r"[A-Za-z_]\w+", re.sub(r"""(["']).*?\1""", "", code))  # what is called, not what it is called with
        assert any(all(name in text for name in names) for text in texts), f"{word!r}: none of the sections it leads to says {code!r}"


def test_there_is_no_row_for_a_word_that_is_not_looked_up():
    listed = {word for row in rows() for word in re.findall(r"`([^`]+)`", row[0])}
    assert listed == set(WORDS)


def test_what_users_look_for_in_a_section_is_there():
    """Of padded() every parameter; optional outputs; the shapes of stacked arrays; splits by time; what a DataError has."""
    loader, samples = sections(ROOT / "docs/loader.md"), sections(ROOT / "docs/samples.md")
    for name in inspect.signature(fb.col("x").padded).parameters:
        assert f"{name}=" in loader["outputs"], f"docs/loader.md says nothing of .padded({name}=)"
    for section, *said in (
        (loader["outputs"], '`fb.col("label").optional()`', "labels at inference"), (loader["outputs"], '`["u", "v"]` of arrays (P, F)', "`(B, 2, P, F)`"),
        (samples["splits"], 'by="time"', 'at="target"', "time="), (samples["outputs"], "`.optional()`"),
        (loader["errors"], "`DataError` has the file, the column and the row", "`status`", "`file_offset`"),
    ):  # fmt: skip
        assert all(words in section for words in said), said


def test_what_the_docs_link_to_is_there():
    """Every relative link of every page, sections included."""
    pages = subprocess.run(["git", "ls-files", "docs/*.md", "README.md"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    for name in pages or ["docs/migration.md"]:
        page = ROOT / name
        for target, anchor in re.findall(r"\]\(((?!https?:)[^)#\s]*)#([^)\s]+)\)", page.read_text()):
            path = (page.parent / target).resolve() if target else page
            if path.suffix == ".md":
                assert anchor in sections(path), f"{name}: {target}#{anchor} is no section"
