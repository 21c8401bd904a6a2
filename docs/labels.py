"""The labels in the comments of functions. The Conventions in ferry.h state their defaults."""
import re

LABELS = ["NULL", "Values", "Thread-safety", "Blocking", "Ownership", "Errors"]
BLOCKING = ["none", "driver_lock", "first_use", "stream", "device"]  # each includes the waits of those before it
DEFAULT = re.compile(rf"^ \* {{13}}({'|'.join(LABELS)}): (.*(?:\n \* {{15}}.*)*)", flags=re.M)
LABEL = re.compile(r"^ \* ([A-Z][\w-]*):(?:(?= +\S) *|$)", flags=re.M)


def words(text):
    return " ".join(re.sub(r"^ \*", "", text, flags=re.M).split())


def defaults_of(header):
    """{label: the value that it has where a comment leaves it out}; empty for a header without Conventions."""
    return {label: words(value) for label, value in DEFAULT.findall(header)}


def split(comment):
    """The text before the first label, and the labels with their texts, in order. `comment` has its slashes and stars."""
    about, *parts = LABEL.split(comment[2:-2].rstrip())
    return about, list(zip(parts[::2], parts[1::2]))


def values_of(text):
    """{name: what the label Values says about it}; the name "returned" is the result."""
    marks = list(re.finditer(r"(?:^|; )((?:`\w+`(?:, )?)+|returned): ", text))
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    return {name: text[mark.end():end].rstrip(".") for mark, end in zip(marks, ends)
            for name in re.findall(r"\w+", mark[1])}


def blocking_class(text):
    """The class at the beginning of what the label Blocking says; empty if the label does not begin with a class."""
    found = re.match(rf"({'|'.join(BLOCKING)})[.,:]", text)
    return found[1] if found else ""


def with_common_errors(listed, status):
    """What the label Errors says; `status`: whether the function returns one."""
    if not status or listed.startswith("none"):
        return listed or "none."
    return f"the common errors; {listed}" if listed else "the common errors."
