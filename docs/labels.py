"""The labels in the comments of functions. The Conventions in ferry.h state their defaults."""
import re

LABELS = ["NULL", "Values", "Thread-safety", "Blocking", "Ownership", "Errors"]
FUNCTIONS = r"ferry_\w+(?:(?:, | or | and )ferry_\w+)*"  # a list of functions in a sentence
BLOCKING = ["none", "driver_lock", "first_use", "stream", "device"]  # each includes the waits of those before it
# What happens to work that uses an object when a function ends it. The functions that end an object are in this order.
PENDING_WORK = ["continues", "waits", "stream", "must_be_complete"]
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


# ---- What the comments say about a value

def units_of(header):
    """{unit: the names of the numbers that have it}, from the Conventions. A name may contain a *."""
    rows = re.search(r"^ \* Units .*\n((?: \*  .*\n)*)", header, flags=re.M)
    found = re.findall(r"^ \* {13}(\w+): (.*(?:\n \* {15}.*)*)", rows[1] if rows else "", flags=re.M)
    return {unit: words(names).split(", ") for unit, names in found}


def specials_of(text):
    """[(value, what it means)]: the values with a meaning of their own, such as "0: no limit"."""
    value = r"-?\d+|NULL|UINT\d+_MAX|FERRY_\w+"
    return re.findall(rf"(?:^|[;.,] |\. )({value}): ((?:(?!; (?:{value}): )[^.;])*)", text)


def unclear_special(text):
    """A value with a meaning of its own that is not written as "0: no limit"; empty if there is none."""
    found = re.search(r"(?<![\w`])(?:-1|0|NULL|UINT\d+_MAX|FERRY_\w+_UNKNOWN) "
                      r"(?:if|for|where|until|also|otherwise|elsewhere|with|without|in|of|means|while)\b", text)
    return found[0] if found else ""


def threads_of(text):
    """(the threads on which a callback runs, what it must not call); None if the text does not say."""
    found = re.search(r"\bThreads: ([a-z, ]+); must not call ([^.]*)\.", text)
    return found and (found[1].split(", "), [one.split()[-1] for one in found[2].split(" or ")])


def ownership_of(text):
    """What the label Ownership says, as data: {name: its keys}.

    The name "memory" is the memory to which a descriptor or an address refers. "returned" is the result, "block->address"
    a field of a struct that the call fills, and "callbacks" all callbacks of the options with their data.
    """
    found = {}
    for name, functions in re.findall(rf"(?:\*|\b)(\w+|\w+->\w+)(?:, an? \w+,)? is the caller's until ({FUNCTIONS})", text):
        found[name] = {"ownership": "caller", "ended_by": re.findall(r"ferry_\w+", functions)}
    for name in re.findall(r"\*(\w+) is the caller's to close", text):
        found[name] = {"ownership": "caller", "ended_by": []}
    for name, owner in re.findall(r"\*(\w+)(?:, an? \w+,)? (?:belongs to|ends with) ([^.;]*?)(?: and ends with it| as before)?[.;]",
                                  text):
        found[name] = {"ownership": "other", "owner": owner.strip("`")}
        alone = re.search(rf"({FUNCTIONS}) end it alone", text)
        if alone:
            found[name]["ended_by"] = re.findall(r"ferry_\w+", alone[1])
    for names, end in re.findall(r"((?:`\w+`(?:, | and )?)+) are valid until ([^.;]*)", text):
        found.update({name: {"ownership": "other", **until(end)} for name in re.findall(r"`(\w+)`", names)})
    for names, end in re.findall(r"((?:`\w+`(?:, | and )?)+) must live until ([^.;,]*)", text):
        found.update({name: {"ownership": "kept", **until(end)} for name in re.findall(r"\w+", names.replace(" and ", " "))})
    for name, pattern in [("memory", r"[Tt]he memory must (?:live|stay valid) until ([^.;,]*)"),
                          ("callbacks", r"[Tt]he callbacks and their data must live until ([^.;,]*)"),
                          ("returned", r"(?:^|[Rr]esults? must stay )valid until ([^.;,]*)")]:
        end = re.search(pattern, text)
        if end:
            found[name] = {"ownership": "kept", **until(end[1])}
    return found


# The events that end what ferry keeps, by the beginning of the text after "until".
UNTIL = {"call": r"the call returns", "work": r"the (?:copy|fill|batch|last launch) ", "taker": r"the (?:work|call) that takes ",
         "callback": r"(?:the call of )?`\w+`", "function": r"ferry_\w+", "other": r"another context is adopted|the importer "}


def until(text):
    """{"until": the text, "until_is": its event}"""
    for event, pattern in UNTIL.items():
        if re.match(pattern, text):
            return {"until": text, "until_is": event}
    raise SystemExit(f"\"until {text}\": labels.UNTIL has no such event")


def undone_by(text):
    """The functions that undo what the call does, and that end no object."""
    found = re.search(rf"\b(?:lasts|must live) until ({FUNCTIONS})(?=[.;,]|$)", text)
    return re.findall(r"ferry_\w+", found[1]) if found else []


def pending_work(text, has_stream, waits):
    """What happens to work that uses an object when a function ends it: one of PENDING_WORK; None if the text lacks it."""
    return ("waits" if waits else "stream" if has_stream else "continues" if "continues" in text else
            "must_be_complete" if "no work may use" in text else None)


def inherited_of(text):
    """[(function, names)]: whose Ownership also holds; no names: all of it."""
    found = [(function, []) for function in re.findall(r"(?:^|[.;] )as (ferry_\w+)", text)]
    return found + [(function, ["memory"] * bool(memory) + [name]) for memory, name, function in
                    re.findall(r"(the memory and )?\*(\w+) as for (ferry_\w+)", text)]
