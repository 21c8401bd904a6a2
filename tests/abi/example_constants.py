#!/usr/bin/env python3
"""Checks that the constants in Python examples have the values of the header: example_constants.py HEADER FOLDER"""
import ast
import re
import sys
from pathlib import Path

number = r"-?(?:0x[0-9a-fA-F]+|\d+)"
defines = re.findall(rf"^#define (FERRY_\w+) \(?({number})u?\b", Path(sys.argv[1]).read_text(), re.MULTILINE)
header = {name: int(value, 0) for name, value in defines}


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
        if header.get(name) != value:
            sys.exit(f"{example.name}: {name} is {value}, but {header.get(name)} in the header")
if not count:
    sys.exit("no constants found")
print(count, "constants match the header")
