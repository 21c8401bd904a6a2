"""Reads driver-calls.txt, which states the driver calls of each function."""
import re
from pathlib import Path

FILE = Path(__file__).with_name("driver-calls.txt")
ENTRY = re.compile(r"(\w+): (\S.*(?:\n {4}\S.*)*)\n")
# ferry calls it before it knows any entry point, so symbols.inc does not list it.
LOOK_UP = "cuGetProcAddress"


def read(text):
    """The lines of the introduction, {function: its driver calls}, and the problems of the form."""
    introduction, _, rest = text.partition("\n\n")
    entries, problems, end = {}, [], 0
    for entry in ENTRY.finditer(rest):
        if entry.start() != end or entry[1] in entries:
            problems.append(f"{FILE.name}: this is no entry, or the second of a function, before or at: {entry[1]}")
        entries[entry[1]] = " ".join(entry[2].split())
        end = entry.end()
    if end != len(rest):
        problems.append(f"{FILE.name}: this is no entry: {rest[end:end + 60]!r}")
    return [line[2:] for line in introduction.split("\n")], entries, problems


def problems_of(text, functions, entry_points):
    """`functions`: the names in the order of the headers; `entry_points`: the driver functions that ferry knows."""
    _, entries, problems = read(text)
    problems += [f"{FILE.name} lacks {name}" for name in functions if name not in entries]
    problems += [f"{FILE.name} has {name}, which no header declares" for name in entries if name not in functions]
    if not problems and list(entries) != list(functions):
        problems.append(f"{FILE.name} has another order than the headers")
    for name, calls in entries.items():
        unknown = set(re.findall(r"\bcu[A-Z]\w*", calls)) - {*entry_points, LOOK_UP}
        problems += [f"{FILE.name}: {name} calls {one}, which symbols.inc does not list" for one in sorted(unknown)]
        others = set(re.findall(r"\bas (ferry_\w+)", calls)) - set(functions)
        problems += [f"{FILE.name}: {name} refers to {one}, which is no function" for one in sorted(others)]
        if not calls.endswith(".") or calls != "none." and not re.search(r"\bcu[A-Z]|\bferry_", calls):
            problems.append(f"{FILE.name}: {name} states neither calls nor 'none.'")
    return problems


def calls_of(functions):
    """{function: its driver calls}. Raises ValueError if a function has none stated."""
    _, entries, problems = read(FILE.read_text(encoding="utf-8"))
    problems += [f"{FILE.name} lacks {name}" for name in functions if name not in entries]
    if problems:
        raise ValueError("\n".join(problems))
    return {name: entries[name] for name in functions}


def page(text):
    """The file as a page of the reference, in Doxygen's Markdown."""
    introduction, entries, _ = read(text)
    functions = re.compile(rf"\b(?:{'|'.join(entries)})\b")
    rows = [f"| {name} | {calls} |" for name, calls in entries.items()]
    table = functions.sub(r"#\g<0>", "\n".join(rows))
    return "\n".join(["# Driver calls {#driver-calls}", "", *introduction, "", "| function | driver calls |", "| --- | --- |",
                      table, ""])
