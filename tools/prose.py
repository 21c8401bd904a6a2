#!/usr/bin/env python3
"""Finds phrases in comments, messages and documents that have a plainer wording: prose.py [FILE_OR_FOLDER...]

Code is skipped, in blocks, between comments and in `backticks`. Without arguments, the script checks COVERED.
"""
import bisect
import io
import re
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# Files and folders whose prose is checked.
COVERED = ["CONTRIBUTING.md", "bindings", "docs/abi.md", "docs/architecture.md", "docs/contract.md",
           "docs/cuda-to-ferry.md", "docs/devices.md", "docs/driver.md", "docs/engines.md", "docs/graphics.md",
           "docs/installing.md", "docs/kernels.md", "docs/languages.md", "docs/performance.md", "docs/planning.md",
           "docs/protocol.md", "docs/run.md", "docs/security.md", "docs/sharing.md", "docs/staging.md", "examples",
           "src/api", "src/base", "src/calibrate", "src/copy", "src/device", "src/driver", "src/kernels", "src/memory",
           "src/staging", "src/system", "tests/faults", "tests/fuzz", "tests/protocol", "tests/run", "tests/support",
           "tools"]
# Files that contain the phrases themselves. Generated files are skipped too.
NOT_PROSE = ["tools/prose.py", "tests/tools/prose.py"]
GENERATED = re.compile(r"do not edit", re.IGNORECASE)

# A phrase, and what to write instead. A space in a pattern also matches a line break.
PHRASES = [
    (r"some \d[\d.]*", "about NUMBER"),
    (r"in place of", "instead of"),
    (r"but for", "except for"),
    (r"g(?:ives?|iven|ave|iving) up", "abandon, stop, fail"),
    (r"do(?:es)? not do(?=[:.,;])", "is not sufficient"),
    (r"lately", "recently"),
    (r"ask(?:s|ed|ing)? for", "request, require"),
    (r"ask(?:s|ed|ing)? (?:the driver|whether|what|which)|(?:is|are|was|were|be|been) asked", "query, check"),
    (r"tells?|told|telling", "report, state, distinguish"),
    (r"(?:that|those) of", "repeat the noun"),
    (r"(?<!-)(?:also|only)(?=[.;])", "put the word before the verb"),
    (r"there (?:is|was) one(?=[.,;:)])", "repeat the noun"),
    (r"without one", "repeat the noun"),
    (r"at work", "running, active"),
    (r"lies?", "is"),
    (r"stands? (?:in|at|for|on|by|beside)", "is, means"),
    (r"streams? (?:is|are|stays?|was|were|be|been) held|hold(?:s|ing)? (?:the|a|an|its) stream", "blocked, block"),
    (r"streams? (?:has|have|had) passed", "has completed on the stream"),
    (r"whoever", "a program that, a caller that"),
    (r"of (?:ferry|NVIDIA|the (?:driver|caller|program|instance))'s(?: own)?"
     r"(?=[.,;:)]| (?:that|which|is|are|may|and|or|in|to|by|at|for|on|with)\b)", "ferry's NOUN, the driver's NOUN"),
    (r"as of an?", "as for"),
    (r"no later than at", "at the latest"),
    (r"in (?:its|their) hands?", "that the worker copies"),
    (r"(?:go|goes|going|went|gone) by", "use, follow"),
    (r"(?:nothing|none) but", "only"),
    (r"how late", "the delay of"),
]
PATTERN = [(re.compile(rf"\b(?:{phrase})(?!\w)".replace(" ", r"\s+"), re.IGNORECASE), better)
           for phrase, better in PHRASES]

# (file, phrase, why it is right there). A line that no file needs is an error.
ALLOWED = []

# Code becomes this character: no phrase continues across it.
CODE = "\0"


def blanked(text):
    """Only the text's line breaks and other spaces, so that what is kept stays in its place."""
    return re.sub(r"\S+", lambda match: CODE * len(match.group()), text)


def spaced(pattern, text):
    return re.sub(pattern, lambda match: " " * len(match.group()), text, flags=re.MULTILINE)


def keep(text, spans):
    """The text with all but these spans blanked."""
    kept, end = [], 0
    for start, stop in spans:
        kept += [blanked(text[end:start]), text[start:stop]]
        end = stop
    return "".join([*kept, blanked(text[end:])])


def without_quotes(text):
    return spaced(r"#|\"|'(?!\w)|(?<!\w)'", text)


def without_expressions(text):
    """Before Python 3.12, a formatted string is one token, with the expressions in it."""
    return re.sub(r"\{[^{}\n]*\}", lambda match: CODE * len(match.group()), text)


def prose_of_markdown(text):
    text = re.sub(r"^```.*?^```", lambda match: blanked(match.group()), text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"\]\([^)\n]*\)", lambda match: blanked(match.group()), text)


def prose_of_c(text):
    tokens = re.finditer(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])'", text, re.DOTALL)
    text = keep(text, [match.span() for match in tokens if match.group()[0] != "'"])
    return spaced(r"/\*+|\*/|//+|^[ \t]*\*|\"", text)


def prose_of_python(text):
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    spans = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING) or token.type == getattr(tokenize, "FSTRING_MIDDLE", None):
            spans.append(tuple(starts[line - 1] + column for line, column in (token.start, token.end)))
    return without_quotes(without_expressions(keep(text, spans)))


def prose_of_script(text):
    """Comments and strings of Meson and the shell."""
    tokens = re.finditer(r"(?<!\S)#[^\n]*|'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"", text)
    return without_quotes(keep(text, [match.span() for match in tokens]))


READERS = {
    ".md": prose_of_markdown, ".py": prose_of_python, ".sh": prose_of_script, "meson.build": prose_of_script,
    **dict.fromkeys([".h", ".hpp", ".c", ".cpp", ".cu", ".cuh", ".inc", ".rs", ".cs", ".go", ".zig"], prose_of_c),
}


def reader_of(file):
    return READERS.get(file.name) or READERS.get(file.suffix)


def findings_in(file, text):
    """(line, phrase, better wording), by line."""
    prose = re.sub(r"`[^`\n]+`", lambda match: blanked(match.group()), reader_of(file)(text))
    ends = [match.start() for match in re.finditer("\n", text)]
    found = [(match.start(), " ".join(match.group().split()), better)
             for pattern, better in PATTERN for match in pattern.finditer(prose)]
    return [(bisect.bisect_left(ends, place) + 1, phrase, better) for place, phrase, better in sorted(found)]


def files_in(path):
    return [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file() and reader_of(file))


def main(paths):
    files = [file for path in paths or COVERED for file in files_in(ROOT / path)]
    count, unused = 0, set(ALLOWED)
    for file in files:
        name = str(file.relative_to(ROOT)) if file.is_relative_to(ROOT) else str(file)
        text = file.read_text(encoding="utf-8")
        if name in NOT_PROSE or GENERATED.search(text[:300]):
            continue
        for line, phrase, better in findings_in(file, text):
            allowed = [entry for entry in ALLOWED if entry[0] == name and entry[1].lower() == phrase.lower()]
            unused.difference_update(allowed)
            if not allowed:
                count += 1
                print(f"{name}:{line}: «{phrase}»: {better}")
    if not paths:
        count += len(unused)
        for name, phrase, _ in sorted(unused):
            print(f"tools/prose.py: ALLOWED has «{phrase}» for {name}, which does not need it")
    print(f"prose: {len(files)} files, {count} problems")
    return 1 if count or not files else 0


if __name__ == "__main__":
    sys.exit(main([Path(path).absolute() for path in sys.argv[1:]]))
