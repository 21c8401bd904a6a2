#!/usr/bin/env python3
"""Turns the plain comments of ferry's headers into Doxygen's, for its INPUT_FILTER: doxygen-filter.py HEADER

A function's comment states only the labels whose value is not the default. The Conventions in ferry.h state the
defaults, and this filter fills them in. It fails on an unknown label, a label out of order, a label that repeats its default,
and a label Blocking without a class. The filter also makes a page of driver-calls.txt.
"""
import re
import sys
from pathlib import Path

import c_headers
import driver_calls
from labels import BLOCKING, LABELS, blocking_class, defaults_of, split, with_common_errors, words

SECTIONS = "|".join(LABELS)
COMMENT = r"/\*(?:[^*]|\*(?!/))*\*/"
problems = []


def labelled(comment, name, status, defaults):
    """The comment of a function with all its labels; `status`: whether the function returns one."""
    about, parts = split(comment)
    given = dict(parts)
    order = [label for label in LABELS if label in given]
    problems.extend(f"{name}: unknown label {label}" for label in given if label not in LABELS)
    if [label for label, _ in parts] != order and set(given) <= set(LABELS):
        problems.append(f"{name}: the labels are not each there once and in the order {', '.join(LABELS)}")
    lines = []
    for label in LABELS:
        default = defaults[label]
        text = words(given.get(label, default))
        if label in given and text in (default, default.split()[0] + "."):  # such as "safe."
            problems.append(f"{name}: {label} repeats its default")
        if label == "Blocking" and not blocking_class(text):
            problems.append(f"{name}: {label} begins with no class of {', '.join(BLOCKING)}")
        if label == "Errors":
            text = with_common_errors(text if label in given else "", status)
        lines.append(f" * {label}: {text}")
    return "/*" + about.rstrip(" *\n") + "\n *\n" + "\n".join(lines) + "\n */"


def with_defaults(text):
    """The header with all labels in the comment of each function."""
    defaults = defaults_of((c_headers.FOLDER / "ferry.h").read_text(encoding="utf-8"))
    problems.extend(f"the Conventions give no default for {label}" for label in LABELS if label not in defaults)
    documented = re.compile(rf"^({COMMENT})\n(?=FERRY_API +((?:const )?\w+) \**(\w+)\()", flags=re.M)
    return documented.sub(lambda one: labelled(one[1], one[3], one[2] == "int32_t", defaults) + "\n", text)


def as_markup(line):
    """Returns one line of a comment without its star."""
    line = re.sub(r"([*<>#]|--)", r"\\\1", line)
    line = re.sub(rf"^ ({SECTIONS}):\s*", r" @par \1\n * ", line)
    return re.sub(r"^ {1,3}(\S+(?: \S+){0,3}) {2,}(?=\S)", r" - **\1**: ", line)  # a row of a table


def marked_up(lines):
    """The lines of a comment as markup. Code is indented and comes after an empty line."""
    is_code, is_empty = False, False
    for line in lines:
        begins, ends = is_empty and not is_code and line.startswith("     "), is_code and re.match(r" {1,4}\S", line)
        is_code, is_empty = (is_code or begins) and not ends, not line.strip()
        if begins or ends:
            yield " @code{.c}" if begins else " @endcode"
        yield line if is_code else as_markup(line)
    if is_code:
        yield " @endcode"


def as_documentation(comment, mark=""):
    lines = list(marked_up(re.sub(r"^\s*\*", "", line) for line in comment[2:-2].split("\n")))
    markup = f"/**{mark}" + "\n *".join(lines) + "*/"
    return re.sub(r"(\n \* - \*\*.*(?:\n \* {4}.*)*\n)(?= \* [^- ])", r"\1 *\n", markup)  # what comes after a table


def with_conventions_in_front(text):
    """Doxygen omits chapters without members, so the Conventions become a part of the comment about the file."""
    found = re.search(r"^/\* -{9,}\n( \* Conventions\n(?: \*.*\n)*?) \* -+ \*/\n\n", text, flags=re.M)
    return text.replace(found[0], "").replace("\n */", f"\n *\n{found[1]} */", 1) if found else text


def structure(text):
    """Arranges chapters, and comments on several lines, as Doxygen expects. The result still has plain comments."""
    chapter = re.compile(r"^/\* -{9,}\n \* (.*\n(?: \*.*\n)*?) \* -+ \*/", flags=re.M)
    text = chapter.sub(r"/*@}*/\n\n/* @name \1 */\n/*@{*/", text)
    if "/*@}*/" in text:
        text = text.replace("/*@}*/", "", 1) + "/*@}*/"
    run = re.compile(rf"^({COMMENT}\n)((?:(?:FERRY_API [^;]*;|#define .*)\n)+)", flags=re.M)
    return run.sub(lambda run: re.sub(r"^(?=FERRY_API|#define)", lambda _: run[1], run[2], flags=re.M), text)


def document(text):
    text = re.sub(rf"^{COMMENT}", lambda comment: as_documentation(comment[0]), text, flags=re.M)
    text = re.sub(rf"(?<=\S)( +)({COMMENT})$", lambda tail: tail[1] + as_documentation(tail[2], "<"), text, flags=re.M)
    return re.sub(r"^( *|(?! \*).*[;,] +)//( .*)$",
                  lambda line: f"{line[1]}///{'<' if line[1].strip() else ''}{as_markup(line[2])}", text, flags=re.M)


def link(text):
    """Links the C functions and constants that comments name. Doxygen links types by itself."""
    headers = c_headers.text_of(c_headers.all_headers())
    names = re.findall(r"^(?:FERRY_API\b[^(;]*?(?=\w+\()|#define )(\w+)", headers, flags=re.M)
    named = re.compile(rf"\b(?:{'|'.join(names)})\b(?!\()") if names else re.compile("(?!)")
    parts = re.split(r"( @code.*? @endcode)", text, flags=re.S)
    parts[::2] = [re.sub(r"/\*\*.*?(?:\*/|\Z)|\A[^/]*?\*/", lambda comment: named.sub(r"#\g<0>", comment[0]), part,
                         flags=re.S) for part in parts[::2]]
    return "".join(parts)


text = Path(sys.argv[1]).read_text(encoding="utf-8")
if Path(sys.argv[1]).name == driver_calls.FILE.name:
    print(driver_calls.page(text))
    sys.exit(0)
text = link(document(structure(with_conventions_in_front(with_defaults(text)))))
if problems:
    sys.exit("\n".join(problems))
print(text.replace("/**", "/** @file\n *", 1) if text.startswith("/**") else "/// @file\n" + text)
