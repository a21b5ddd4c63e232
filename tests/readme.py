"""Run the Python code of README.md where the library is installed: `python tests/readme.py`, on any system."""

import re
from pathlib import Path


def blocks() -> list[str]:
    """The Python blocks, in their order."""
    text = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


if __name__ == "__main__":
    code_blocks = blocks()
    assert code_blocks
    names: dict[str, object] = {}
    for block in code_blocks:
        exec(block, names)
