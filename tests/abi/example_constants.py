#!/usr/bin/env python3
"""Checks that the constants in Python examples have the values of the headers: example_constants.py FOLDER_OF_HEADERS FOLDER"""
import ast
import re
import sys
from pathlib import Path

headers = "".join(file.read_text() for file in Path(sys.argv[1]).glob("*.h"))
number = r"-?(?:0x[0-9a-fA-F]+|\d+)"
defines = re.findall(rf"^#define (FERRY_\w+) \(?({number})u?\b", headers, re.MULTILINE)
values = {name: int(value, 0) for name, value in defines}


def constants(source):
    for statement in ast.walk(ast.parse(source)):
        if isinstance(statement, ast.Assign):
            target, value = statement.targets[0], statement.value
            both_are_tuples = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
            for name, given in zip(target.elts, value.elts) if both_are_tuples else [(target, value)]:
                if isinstance(name, ast.Name) and name.id.startswith("FERRY_"):
                    yield name.id, ast.literal_eval(given)


count = 0
for example in sorted(Path(sys.argv[2]).glob("*.py")):
    for name, value in constants(example.read_text()):
        count += 1
        if values.get(name) != value:
            sys.exit(f"{example.name}: {name} is {value}, but {values.get(name)} in the headers")
if not count:
    sys.exit("no constants found")
print(count, "constants match the headers")
