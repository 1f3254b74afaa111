"""tools/c_reference.py, of which tools/site.py makes the pages of C: every declaration of the headers has one anchor, and every link an end."""

import re
import sys

import pytest

from real_data import ROOT

HEADERS = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "include/forebay").glob("*.h")}


@pytest.fixture(scope="module")
def tool():
    sys.path.append(str(ROOT / "tools"))
    try:
        import c_reference
    finally:
        sys.path.remove(str(ROOT / "tools"))
    return c_reference


@pytest.fixture(scope="module")
def pages(tool):
    reference = tool.Reference(HEADERS)
    return {"c.md": reference.index(), **{f"c/{stem}.md": reference.page(stem, "raw.md") for stem in HEADERS}}


def anchors(page):
    return re.findall(r"(?m)^### `\w+` \{ #(\w+) \}$", page)


def test_every_function_type_and_list_of_a_header_has_one_anchor_on_its_page(pages):
    for stem, text in HEADERS.items():
        found = anchors(pages[f"c/{stem}.md"])
        code = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
        functions = re.findall(r"\b(fby_\w+)\(", " ".join(re.findall(r"(?m)^FBY_API[^;(]*\(", code)))
        assert len(functions) == len(re.findall(r"(?m)^FBY_API\b", code))
        wanted = functions + re.findall(r"(?m)^typedef (?:struct|enum) (\w+)", code) + re.findall(r"(?m)^#define (FBY_\w+_LIST)\(", code)
        assert len(found) == len(set(found)) and set(wanted) <= set(found), stem
    assert sum(len(anchors(page)) for page in pages.values()) == len({name for page in pages.values() for name in anchors(page)})


def test_every_link_leads_to_an_anchor_and_the_index_to_every_function_in_order(pages):
    for place, page in pages.items():
        for to, anchor in re.findall(r"\]\(([\w/.]*\.md)?#(\w+)\)", page):
            assert anchor in anchors(pages["c/" + to.removeprefix("c/") if to else place]), (place, to, anchor)
    for stem, text in HEADERS.items():
        linked = re.findall(rf"\]\(c/{stem}\.md#(fby_\w+)\)", pages["c.md"])
        declared = re.findall(r"(?m)^FBY_API[^;(]*?(fby_\w+)\(", text)
        assert [name for name in linked if name in declared] == declared


def test_a_comment_becomes_text_and_its_names_links(tool):
    base = """/* Things. */
/**
 * Makes a *thing*, as fby_b() and [one] of `x` do; fby_c of n_rows.
 *
 *     fby_a(1);
 *
 *     fby_a(2);
 *
 * @n    how many;
 *       more.
 * Threads: any.
 */
FBY_API int fby_a(int n,
                  int m);
FBY_API int fby_b(void);
FBY_API int fby_d(void); /* its own */
"""
    page = tool.Reference({"forebay": "/* base.h */\n", "base": base}).page("base", "raw")
    assert page.partition("### `fby_a` { #fby_a }\n")[2] == """
```c
int fby_a(int n,
          int m);
```

Makes a *thing*, as [`fby_b()`](#fby_b) and &#91;one&#93; of `x` do; `fby_c` of `n_rows`.

```c
fby_a(1);

fby_a(2);
```

* `n`: how many; more.

*Threads:* any.

### `fby_b` { #fby_b }

```c
int fby_b(void);
```

See [`fby_a`](#fby_a).

### `fby_d` { #fby_d }

```c
int fby_d(void); /* its own */
```
"""


def test_a_function_without_a_comment_is_found_also_below_the_comment_of_another(tool):
    planted = "FBY_API int fby_b(void); /* b */\nFBY_API int fby_planted(void);\n"
    assert tool.undocumented("/* top */\n\n/** a */\nFBY_API int fby_a(void);\n\n" + planted) == ["fby_planted"]
    assert tool.undocumented("/* top */\n\n/** all */\n" + planted) == []
    assert tool.undocumented("/* top */\n\nFBY_API int fby_a(int x /* n */);\n") == ["fby_a"]
    assert tool.undocumented("/* top */\n\nFBY_API int fby_a(int x); /* see fby_b(1); x */\n") == []
