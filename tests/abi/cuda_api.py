#!/usr/bin/env python3
"""Compares every declaration of src/driver/cuda_api.h, symbols.inc and results.inc with CUDA's headers: sizes, offsets,
values and types.

cuda_api.py SRC TOOLKIT_INCLUDE CXX FOLDER...   (skipped if TOOLKIT_INCLUDE is empty)

A program prints these facts. It is compiled twice, with ferry's header and with CUDA's headers, and must print the same
both times. The list of facts is read from ferry's header. Errors are a line of that header that is not understood, a
declaration that no source in the folders uses, and a source that includes a header of CUDA.
"""
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

PROGRAM = r"""
#include <cxxabi.h>
#include <stddef.h>
#include <stdio.h>
#include <typeinfo>
#include <utility>

template <class Type> const char *text() { return abi::__cxa_demangle(typeid(Type).name(), nullptr, nullptr, nullptr); }
#define TEXT(value) #value
#define MACRO(name) printf(#name "|defined as [%s]\n", TEXT(name))
#define TYPE(name) printf(#name "|%zu bytes, %s\n", sizeof(name), text<name>())
#define ENUM(name) printf(#name "|%zu bytes, used as %s\n", sizeof(name), text<decltype(+std::declval<name>())>())
#define STRUCT(name) printf(#name "|%zu bytes, aligned to %zu\n", sizeof(name), alignof(name))
#define VALUE(name) printf(#name "|%lld, %s\n", (long long)(name), text<decltype(name)>())
#define FIELD(of, name)                                                                                                \
    printf(#of "." #name "|at %zu, %zu bytes, %s\n", offsetof(of, name), sizeof(of::name),                             \
           text<decltype(std::declval<of>().name)>())

int main() {
    FACTS
#define FERRY_DRIVER_RESULT(number, name, traits, text) VALUE(name);
#include "driver/results.inc"
#define FERRY_DRIVER_SYMBOL(need, name, version, parameters)                                                           \
    printf("PFN_" #name "_v" #version "|%s\n", text<PFN_##name##_v##version>());
#include "driver/symbols.inc"
}
"""
OWN, CUDA = '#include "driver/table.h"\n', "#include <cuda.h>\n#include <cudaTypedefs.h>\n"

# The forms that ferry's header may have. The first group of a declaration is its name.
PREPROCESSOR = re.compile(
    r'#pragma once|#include <std(?:def|int)\.h>|#ifdef CUDA_VERSION|#error ".*"|#if defined\(_WIN32\)|#else|#endif'
    r'|#define FERRY_DRIVER_RESULT\(number, name, traits, text\) name = number,'
    r'|#include "driver/results.inc"|#undef FERRY_DRIVER_RESULT'
)
MACRO = re.compile(r"#define (\w+)( .*)?")
CALLING_CONVENTIONS = {"CUDAAPI", "CUDA_CB"}
ALIAS = re.compile(r"using (\w+) = [^{}]+")
CONSTANT = re.compile(r"inline constexpr \w+ (\w+) = [^{}]+")
ENUM = re.compile(r"enum (\w+) : int(?: \{(.*)\})?")
STRUCT = re.compile(r"(?:struct|union) (\w+) \{(.*)\}")
ENUMERATOR = re.compile(r"(\w+) = \w+")
MEMBER = re.compile(r"(?:const )?(?:unsigned (?:long )?)?\w+[ *]+((?:\w+, )*\w+)(?:\[\d+\])?")
NESTED = re.compile(r"(?:struct|union) \{(.*)\}((?: \w+,)* \w+)?")
INCLUDE = re.compile(r"^\s*#\s*include <cuda", re.MULTILINE)
MAY_INCLUDE = {"cpp_cccl.cpp"} # built only where libcu++ is
SKIPPED = 77

problems = []


def statements_of(text):
    """Splits at the semicolons outside braces, without them."""
    depth, begin = 0, 0
    for position, letter in enumerate(text):
        depth += (letter == "{") - (letter == "}")
        if letter == ";" and depth == 0:
            yield text[begin:position].strip()
            begin = position + 1
    if text[begin:].strip():
        yield text[begin:].strip()


def fields_of(body):
    """The path of every field, such as op.ptr.locHint."""
    for statement in statements_of(body):
        if nested := NESTED.fullmatch(statement):
            inner = list(fields_of(nested[1]))
            names = re.findall(r"\w+", nested[2] or "")
            yield from ([f"{name}.{field}" for name in names for field in inner] if names else inner)
        elif member := MEMBER.fullmatch(statement):
            yield from member[1].split(", ")
        else:
            problems.append(f"not understood: {statement}")


def facts_of(header):
    """The facts that the program prints: (macro, name, field)."""
    code = []
    for line in re.sub(r"//.*", "", header).splitlines():
        if not line.startswith("#"):
            code.append(line)
        elif not PREPROCESSOR.fullmatch(line):
            if macro := MACRO.fullmatch(line):
                yield ("MACRO" if macro[1] in CALLING_CONVENTIONS else "VALUE"), macro[1], None
            else:
                problems.append(f"not understood: {line}")
    for statement in statements_of(re.sub(r"\s+", " ", " ".join(code))):
        if alias := ALIAS.fullmatch(statement):
            yield "TYPE", alias[1], None
        elif constant := CONSTANT.fullmatch(statement):
            yield "VALUE", constant[1], None
        elif enum := ENUM.fullmatch(statement):
            yield "ENUM", enum[1], None
            for part in filter(None, (part.strip() for part in (enum[2] or "").split(","))):
                if enumerator := ENUMERATOR.fullmatch(part):
                    yield "VALUE", enumerator[1], None
                else:
                    problems.append(f"not understood: {part}")
        elif struct := STRUCT.fullmatch(statement):
            yield "STRUCT", struct[1], None
            for field in fields_of(struct[2]):
                yield "FIELD", struct[1], field
        else:
            problems.append(f"not understood: {statement}")


def printed_by(cxx, options, headers, facts, source, folder):
    """What the program says about each name."""
    lines = "\n".join(f"{kind}({name}{', ' + field if field else ''});" for kind, name, field in facts)
    # CUDA's structs and enums have tags of their own: tag -> name.
    types = [name for kind, name, _ in facts if kind in ("ENUM", "STRUCT")]
    lines += "".join(f'\nprintf("tag|{name} %s\\n", text<{name}>());' for name in types)
    program = Path(folder, "facts.cpp")
    program.write_text(headers + PROGRAM.replace("FACTS", lines))
    run = [cxx, "-std=c++20", "-w", "-O0", "-I", source, *options, program, "-o", program.with_suffix("")]
    built = subprocess.run(run, capture_output=True, text=True)
    if built.returncode:
        sys.exit(f"with {headers.splitlines()[0]} the comparison does not compile\n{built.stderr}")
    output = subprocess.run([program.with_suffix("")], capture_output=True, text=True, check=True).stdout
    said = [line.split("|", 1) for line in output.splitlines()]
    tags = {tag: name for key, text in said if key == "tag" for name, tag in [text.split(" ")]}
    return {key: re.sub(r"\w+", lambda word: tags.get(word[0], word[0]), text) for key, text in said if key != "tag"}


def check_use(facts, header, folders):
    files = [file for folder in folders for file in Path(folder).rglob("*") if file.suffix in {".h", ".cpp", ".inc"}]
    text = {file: file.read_text() for file in files}
    problems.extend(f"{file} includes a header of CUDA" for file in files
                    if INCLUDE.search(text[file]) and file.name not in MAY_INCLUDE)
    here = Counter(re.findall(r"\w+", header.read_text()))
    elsewhere = set(re.findall(r"\w+", "".join(text[file] for file in files if file != header)))
    for name in sorted({name for kind, name, _ in facts if kind != "ENUM"}):  # an enum is used by its values
        # Macros make the types of entry points from their names.
        if here[name] == 1 and re.sub(r"^PFN_(\w+)_v\d+$", r"\1", name) not in elsewhere:
            problems.append(f"nothing uses {name}")


def main(source, include, cxx, *folders):
    header = Path(source, "driver", "cuda_api.h")
    facts = list(facts_of(header.read_text()))
    check_use(facts, header, folders)
    if include:
        with tempfile.TemporaryDirectory() as folder:
            own = printed_by(cxx, [], OWN, facts, source, folder)
            cuda = printed_by(cxx, ["-isystem", include], CUDA, facts, source, folder)
        for name, text in own.items():
            if text != cuda[name]:
                problems.append(f"{name}: {text} in ferry, {cuda[name]} in CUDA")
        print(f"{len(own)} facts, {len(problems)} problems")
    else:
        print("skipped: -Dtoolkit_include names no CUDA headers to compare with")
    print(*problems, sep="\n")
    return 1 if problems or not facts else 0 if include else SKIPPED


sys.exit(main(*sys.argv[1:]))
