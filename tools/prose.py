#!/usr/bin/env python3
"""Finds phrases in comments, messages, names of tests and documents that have a plainer wording.
Usage: prose.py [FILE_OR_FOLDER...]

Code is skipped, in blocks, between comments and in `backticks`. Without arguments, the script checks COVERED.
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# Files and folders whose prose is checked.
COVERED = ["CONTRIBUTING.md", "README.md", "bindings", "docs", "examples", "include", "packaging", "src", "tests",
           "tools"]
# Files that contain the phrases themselves. Generated files are skipped too.
NOT_PROSE = ["tools/prose.py", "tests/tools/prose.py"]
GENERATED = re.compile(r"do not edit", re.IGNORECASE)

# A phrase in lower case, and what to write instead. A space in a pattern also matches a line break.
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
    (r"of (?:ferry|nvidia|the (?:driver|caller|program|instance))'s(?: own)?"
     r"(?=[.,;:)]| (?:that|which|is|are|may|and|or|in|to|by|at|for|on|with)\b)", "ferry's NOUN, the driver's NOUN"),
    (r"as of an?", "as for"),
    (r"no later than at", "at the latest"),
    (r"in (?:its|their) hands?", "that the worker copies"),
    (r"(?:go|goes|going|went|gone) by", "use, follow"),
    (r"(?:nothing|none) but", "only"),
    (r"how late", "the delay of"),
    (r"at once", "immediately, at the same time, in one call"),
    (r"nobody(?:'s)?|no one(?! \w)", "no thread, no program, no caller"),
    (r"quer(?:y|ies|ied|ying) (?:the|a|each|every|its) \w+ whether", "query whether"),
    (r"for the sake of", "because of, for"),
]
PATTERN = re.compile("|".join(rf"(\b(?:{phrase})(?!\w))".replace(" ", r"\s+") for phrase, _ in PHRASES))

# (file, phrase, why it is right there). A line that no file needs is an error.
ALLOWED = []

# Code becomes this character: no phrase continues across it.
CODE = "\0"


def blanked(text):
    """Only the line breaks of code, so that lines keep their numbers."""
    return text if not text.strip() else CODE + "\n" * text.count("\n") + CODE


def without(pattern, text):
    return re.sub(pattern, lambda match: blanked(match.group()), text, flags=re.MULTILINE | re.DOTALL)


def matches_of(pattern, text):
    """The text with all but the pattern's matches blanked."""
    kept, end = [], 0
    for match in re.finditer(pattern, text, re.DOTALL):
        kept += [blanked(text[end:match.start()]), match.group()]
        end = match.end()
    return "".join([*kept, blanked(text[end:])])


def prose_of_markdown(text):
    return without(r"^```.*?^```|\]\([^)\n]*\)", text)


# The name of a GoogleTest, which is a sentence.
TEST_NAME = re.compile(r"^((?:TEST|TEST_F|TEST_P|TYPED_TEST)\(\s*\w+,\s*)(\w+)\)", re.MULTILINE)


def prose_of_c(text):
    text = TEST_NAME.sub(lambda match: f'{match[1]}"{match[2].replace("_", " ")}")', text)
    kept = matches_of(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])'", text)
    return re.sub(r"'(?:\\.|[^'\\\n])'|/\*+|\*/|//+|^[ \t]*\*|\"", " ", kept, flags=re.MULTILINE)


def prose_of_script(text):
    """Comments and strings of Python, Meson and the shell, without the expressions in formatted strings."""
    kept = matches_of(r"(?<!\S)#[^\n]*|(\"\"\"|\'\'\').*?\1|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", text)
    return re.sub(r"#|\"|'(?!\w)|(?<!\w)'", " ", without(r"\{[^{}\n]*\}", kept))


READERS = {
    ".md": prose_of_markdown, **dict.fromkeys([".py", ".sh", "meson.build"], prose_of_script),
    "driver-calls.txt": prose_of_markdown,
    **dict.fromkeys([".h", ".hpp", ".c", ".cpp", ".cu", ".cuh", ".inc", ".rs", ".cs", ".go", ".zig"], prose_of_c),
}


def reader_of(file):
    return READERS.get(file.name) or READERS.get(file.suffix)


def findings_in(file, text):
    """(line, phrase, better wording), by line."""
    prose = re.sub(r"[ \t]*\0[\0 \t]*", CODE, without(r"`[^`\n]+`", reader_of(file)(text))).lower()
    return [(prose.count("\n", 0, match.start()) + 1, " ".join(match.group().split()), PHRASES[match.lastindex - 1][1])
            for match in PATTERN.finditer(prose)]


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
