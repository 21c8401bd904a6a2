"""The Python code in the documents runs as it stands, on the software driver."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("document", ["README.md", "bindings/python/README.md"])
def test_the_python_of_a_document_runs(document, capsys):
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / document).read_text(), re.M | re.S)
    assert blocks
    for block in blocks:
        exec(compile(block.replace("ferry.open()", "ferry.open(software=True)"), document, "exec"), {})
    assert "route: " in capsys.readouterr().out
