#!/usr/bin/env python3
"""Runs tools/prose.py on files made up for the test. Usage: prose.py SCRIPT"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(sys.argv[1]).parent))
sys.dont_write_bytecode = True
import prose  # noqa: E402

# For each phrase of the table, in its order: sentences that have it, and similar ones that do not.
SENTENCES = [
    (["takes some 4 ms", "Some 0.3 µs"], ["some copies take 4 ms", "handsome 4 ms"]),
    (["a kernel in place of a copy"], ["a file in places of its own"]),
    (["equal but for the pitch"], ["a name, but forks differ"]),
    (["the copy is given up", "ferry gives up"], ["the memory is given to upper layers"]),
    (["Plain dlsym does not do: it fails", "those do not do."], ["what ferry does not do here"]),
    (["copies were lately late"], ["a correlately named field"]),
    (["the size asked for", "It asks for a slot."], ["a task for a worker"]),
    (["ferry asks the driver", "the kind is asked"], ["bits that are masked", "the mask"]),
    (["the trace tells it", "what a ticket was told"], ["intellect", "until_told", "toldyou"]),
    (["the pitch is that of the array", "than those of CUDA"], ["know that official builds"]),
    (["It reads memory only.", "fences also;"], ["a read-only.", "only on Linux", "also works"]),
    (["if there is one.", "where there is one,"], ["there is one queue", "null if there is none."]),
    (["copies without one are faster"], ["without oneself"]),
    (["streams at work"], ["at working copies"]),
    (["memory that lies there", "where they lie"], ["the client relies on it", "lied"]),
    (["it stands for a file"], ["a standard for files"]),
    (["the stream stays held", "A kernel holds the stream."], ["the lock is held", "hold a reference to a stream"]),
    (["until the stream has passed it"], ["the stream passes"]),
    (["Whoever frees it"], ["who ever"]),
    (["a thread of ferry's.", "a call of the driver's that fails", "on streams of ferry's own, with events"],
     ["the speed of ferry's copies", "a chain of the driver's own copies"]),
    (["as of a copy"], ["as for a copy", "as offered"]),
    (["no later than at the query"], ["no later than the query"]),
    (["the slot in its hand"], ["in its handler"]),
    (["It goes by one call.", "copies go by the driver"], ["the time that goes beyond"]),
    (["nothing but zeros"], ["nothing, but zeros"]),
    (["how late staged copies were"], ["how latency grows"]),
    (["returns at once", "several copies at once."], ["at oncesomething", "it queries at most once"]),
    (["nobody else", "in nobody's way", "No one."], ["no one device", "nobodys"]),
    (["it queries every context whether it is dead", "queried the driver whether"],
     ["it queries whether the context is dead", "query the driver. Whether"]),
    (["for the sake of speed"], ["for the sake"]),
]


def findings(name, text):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, name)
        file.write_text(text, encoding="utf-8")
        done = subprocess.run([sys.executable, sys.argv[1], file], capture_output=True, text=True, encoding="utf-8")
        found = re.findall(r":(\d+): «(.*)»: .", done.stdout)
        assert done.returncode == (1 if found else 0) and not done.stderr, done
        return [(int(line), phrase) for line, phrase in found]


def phrases_in(sentence):
    """The numbers of the phrases that the table finds in a sentence."""
    return [match.lastindex - 1 for match in prose.PATTERN.finditer(sentence.lower())]


assert len(SENTENCES) == len(prose.PHRASES), "each phrase has sentences"
for number, (hits, others) in enumerate(SENTENCES):
    assert prose.PHRASES[number][1] and hits and others, number
    for hit in hits:
        assert number in phrases_in(hit), (prose.PHRASES[number], hit)
    for other in others:
        assert not phrases_in(other), other

# Comments and strings are prose, code is not, and a phrase may continue on the next line.
assert findings("a.md", "It is in\nplace of\n\n```c\nlie = 1; // lately\n```\n`lately` [it](lately.md) lately\n") == [
    (1, "in place of"), (7, "lately")]
SOURCE = """// The first in
// place of two.
int lately = 0, lies; /* it
 * lies */ const char *text = "is asked " "for\\n", quote = '"', *more = "lately";
int some(int); /* in */ int place; // of
// some // 4 copies
int thousand = 1'000, other = 1; // told by `told`
"""
assert findings("a.cpp", SOURCE) == [
    (1, "in place of"), (4, "lies"), (4, "is asked"), (4, "lately"), (6, "some 4"), (7, "told")]
assert findings("a.cpp", "TEST_F(lies,\n       a_copy_lies_at_once) { lies(); }\nTEST(at, once) {}\n") == [
    (2, "lies"), (2, "at once")]
PYTHON = '''"""What lies here."""
lately = told = 1  # but
# for two
print(f"some {lately} lately", 'whoever')
'''
assert findings("a.py", PYTHON) == [(1, "lies"), (2, "but for"), (4, "lately"), (4, "whoever")]
assert findings("meson.build", "lies = files('x') # in place of\ntest('it lies')\n") == [(1, "in place of"), (2, "lies")]
assert findings("a.go", "var lies = 1 // it lies\n") == [(1, "lies")]
assert findings("a.go", "// Generated: do not edit.\n// It lies.\n") == []
assert findings("a.md", "Nothing to report.\n") == []

# A phrase that is right where it is.
prose.ALLOWED = [("docs/a.md", "lies", "a quotation")]
with tempfile.TemporaryDirectory() as folder:
    prose.ROOT = Path(folder)
    (prose.ROOT / "docs").mkdir()
    (prose.ROOT / "docs" / "a.md").write_text("It lies.\n")
    prose.COVERED = ["docs"]
    assert prose.main([]) == 0
    (prose.ROOT / "docs" / "a.md").write_text("It is.\n")
    assert prose.main([]) == 1, "an entry that no file needs"
    prose.ALLOWED = []
    assert prose.main([]) == 0
    prose.COVERED = ["nothing-here"]
    assert prose.main([]) == 1, "no files to check"
