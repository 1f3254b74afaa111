"""The reference of the C library as Markdown, made of the public headers: tools/site.py puts it into the site.

A header is read as groups: a comment, and the declarations under it up to the next comment or blank line. Each declaration becomes a section with an
anchor of its name; comments inside it stay in its code. The comment of a group goes to its first declaration, and the others refer to that.
"""
import re
import textwrap

NO_CODE = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'", re.DOTALL)  # comments and literals
PREPROCESSOR = re.compile(r"#(if|else|elif|endif|include|undef)|#define \w+\n|#define FBY_API ")  # what declares nothing that callers write
NAME = re.compile(r"#define (\w+)|(?:FBY_API|static inline)\b[^;(]*?(\w+)\(|struct (\w+) \{|typedef [^;{]*\(\*(\w+)\)|typedef .*?(\w+);\Z", re.DOTALL)
TITLE = re.compile(r"/\* -+ (.)(.*?) -+ \*/")
PARAGRAPH = re.compile(r"Returns|(Errors|Threads|Blocks|FBY_E_\w+):|FBY_OK;")  # begins one, wherever it begins a line
WORD = re.compile(r"https?://[^\s)]+|(?P<guide>docs/[\w-]+\.md)|`[^`]+`|\*\w[\w ]*\*(?!\w)|(?P<name>(?:\w+->)?\w*_\w+)(?:\(\)|\.\w+|…)?"
                  r"|\b(?P<label>Threads|Blocks|Callbacks|Errors|Since):|[\\*_{}\[\]<>&]")


def groups(header):
    """[(comment, {name: declaration})] of a header's text, in its order. What has no name, such as `struct x;`, is left out."""
    found, unit = [("", {})], ""
    for line in re.sub(r"#ifdef __cplusplus\n.*?#endif\n", "", header, flags=re.DOTALL).splitlines(keepends=True):
        unit += line
        bare = NO_CODE.sub("", unit).strip()
        if not unit.strip() or unit.startswith("/*") and not bare:
            found.append((unit.strip(), {}))
        elif not PREPROCESSOR.match(unit):
            whole = bare.endswith((";", "}")) and bare.count("{") == bare.count("}") and "/*" not in bare
            if not (whole or unit.startswith("#") and not bare.endswith("\\")):
                continue
            if name := NAME.match(bare):
                found[-1][1][name[name.lastindex]] = unit
        unit = ""
    return [group for group in found if any(group)]


def undocumented(header):
    """The functions that neither a comment above their group explains nor one of their own."""
    functions = [(name, comment, code) for comment, codes in groups(header) for name, code in codes.items() if code.startswith("FBY_API")]
    return [name for name, comment, code in functions if not comment and not re.search(r";[ \t]*/\*.*\Z", code, re.DOTALL)]


class Reference:
    """The pages, by the headers' names without their .h, of `headers`: their texts by those names."""

    def __init__(self, headers):
        overview = headers["forebay"]  # lists the others in the order in which one meets them
        self.headers = {stem: groups(headers[stem]) for stem in sorted(headers, key=lambda stem: overview.find(f" {stem}.h "))}
        self.homes = {name: stem for stem, found in self.headers.items() for _, codes in found for name in codes}

    def link(self, name, stem, said=None):
        """A link from the page of a header, or from the index where `stem` is None, to where `name` is declared."""
        home = self.homes[name]
        return f"[`{said or name}`]({'' if home == stem else f'{home}.md' if stem else f'c/{home}.md'}#{name})"

    def inline(self, text, stem):
        def word(found):
            if found["name"]:
                return self.link(found["name"], stem, found[0]) if found["name"] in self.homes else f"`{found[0]}`"
            if found["guide"]:
                return f"[{found[0]}]({'../../' if stem else '../'}{found[0]})"
            if found["label"]:
                return f"*{found[0]}*"
            return found[0] if len(found[0]) > 1 else f"&#{ord(found[0])};"  # Markdown would take it for its own

        return WORD.sub(word, text)

    def prose(self, comment, stem):
        """A comment: its paragraphs, @parameters as a list, and what is indented as code."""
        blocks, gap = [], True
        for line in re.sub(r"^/\*+ ?|\s*\*/$", "", comment).splitlines():
            line = re.sub(r"^ \* ?", "", line).rstrip()
            kind = line[:1] if line[:1] in ("@", " ") else ""
            last = blocks[-1][0] if blocks else None
            if kind == last == " ":
                blocks[-1][1] += "\n" * (1 + gap) + line
            elif line and not gap and (kind == " " and last == "@" or kind == last == "" and not PARAGRAPH.match(line)):
                blocks[-1][1] += " " + line.strip()
            elif line:
                blocks.append([kind, line])
            gap = not line
        out, last = "", None
        for kind, text in blocks:
            if kind == "@":
                names, said = re.match(r"((?:@\w+,? )*)\s*(.*)", text).groups()
                text = "* " + re.sub(r"@(\w+)", r"`\1`", names.strip()) + ": " + self.inline(said, stem)
            else:
                text = f"```c\n{textwrap.dedent(text)}\n```" if kind else self.inline(text, stem)
            out += f"{text}\n" if kind == last == "@" else f"\n{text}\n"
            last = kind
        return out

    def page(self, stem, raw):
        """The page of a header, with a link to `raw`, its text."""
        (top, _), *rest = self.headers[stem]
        out = f"---\nhide: [navigation]\n---\n\n# forebay/{stem}.h\n\n[All headers](../c.md) · [include/forebay/{stem}.h]({raw})\n" + self.prose(top, stem)
        for comment, codes in rest:
            if not codes:
                title = TITLE.match(comment)
                out += f"\n## {title[1].upper()}{title[2]}\n" if title else self.prose(comment, stem)
            first = next((name for name, code in codes.items() if not code.startswith("#")), next(iter(codes), None))  # a number beside it needs no words
            for name, code in codes.items():
                explained = not comment or "*/" in code
                said = self.prose(comment, stem) if name == first else "" if explained else f"\nSee {self.link(first, stem)}.\n"
                function = code.startswith("FBY_API")
                code = re.sub(r"(?m)^(FBY_API | {8}(?= ))", "", code) if function else re.sub(r" +\\\n", r" \\\n", code)
                code = f"\n```c\n{code}```\n"
                out += f"\n### `{name}` {{ #{name} }}\n" + (code + said if function else said + code)  # how a function is called, what a type is
        return out

    def index(self):
        out = "# C\n\nPrograms include `<forebay/forebay.h>`, which has all of it but `<forebay/dlpack.h>`.\n"
        for stem, found in self.headers.items():
            out += f"\n## [forebay/{stem}.h](c/{stem}.md)\n" + self.prose(found[0][0], None).partition("\n\n")[0] + "\n"
            for word, begins in ("Functions", ("FBY_API", "static inline")), ("Types", ("typedef", "struct")), ("Macros", "#"):
                links = ", ".join(self.link(name, None) for _, codes in found for name, code in codes.items() if code.startswith(begins))
                out += f"\n{word}: {links}\n" if links else ""
        return out
