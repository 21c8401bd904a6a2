#!/usr/bin/env python3
"""Turns the plain comments of ferry's headers into Doxygen comments, as INPUT_FILTER: doxygen-filter.py HEADER"""
import re
import sys
from pathlib import Path

SECTIONS = "Thread-safety|Blocking|Ownership|Errors|Driver"
COMMENT = r"/\*(?:[^*]|\*(?!/))*\*/"


def as_markup(line):
    """Returns one line of a comment without its star."""
    line = re.sub(r"([*<>#]|--)", r"\\\1", line)
    line = re.sub(rf"^ ({SECTIONS}):\s*", r" @par \1\n * ", line)
    return re.sub(r"^ {1,3}(\S+(?: \S+){0,3}) {2,}(?=\S)", r" - **\1**: ", line)  # a row of a table


def as_documentation(comment, mark=""):
    lines = [as_markup(re.sub(r"^\s*\*", "", line)) for line in comment[2:-2].split("\n")]
    markup = f"/**{mark}" + "\n *".join(lines) + "*/"
    return re.sub(r"(\n \* - \*\*.*(?:\n \* {4}.*)*\n)(?= \* [^- ])", r"\1 *\n", markup)  # what comes after a table


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
    return re.sub(r"^( *|.*[;,] +)//( .*)$",
                  lambda line: f"{line[1]}///{'<' if line[1].strip() else ''}{as_markup(line[2])}", text, flags=re.M)


def link(text):
    """Links the C functions and constants that comments name. Doxygen links types by itself."""
    names = re.findall(r"^(?:FERRY_API\b[^(;]*?(?=\w+\()|#define )(\w+)", text, flags=re.M)
    named = re.compile(rf"\b(?:{'|'.join(names)})\b(?!\()") if names else re.compile("(?!)")
    return re.sub(r"/\*\*.*?\*/", lambda comment: named.sub(r"#\g<0>", comment[0]), text, flags=re.S)


text = link(document(structure(Path(sys.argv[1]).read_text())))
print(text.replace("/**", "/** @file\n *", 1) if text.startswith("/**") else "/// @file\n" + text)
