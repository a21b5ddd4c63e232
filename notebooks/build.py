"""Execute the notebooks and write them as pages of the site: `python notebooks/build.py [NAME ...]`.

A notebook is a script with cells (`# %%`), which Jupyter opens through jupytext and Python runs as it is. Its page and
its figures go to docs/notebooks/.
"""

import base64
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jupytext
from nbclient import NotebookClient

HERE = Path(__file__).parent
PAGES = HERE.parent / "docs" / "notebooks"
NAMES = ("first_steps", "log", "environment", "prism_model", "horizon_figure")
SECONDS = 1200  # of a cell
NOTE = "*This page is an executed notebook: `notebooks/{name}.py` in the repository.*"


def executed(name: str) -> tuple[str, dict[str, bytes]]:
    """The page of a notebook, and its figures by their names."""
    notebook = jupytext.read(HERE / f"{name}.py")
    resources = {"metadata": {"path": str(HERE)}}
    NotebookClient(notebook, timeout=SECONDS, kernel_name="python3", resources=resources).execute()
    parts: list[str] = []
    figures: dict[str, bytes] = {}
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        output = ""
        for kind, content in outputs(cell):
            if kind == "text":
                output += content
            else:
                file = f"{name}_{len(figures) + 1}.png"
                figures[file] = base64.b64decode(content)
                parts.append(f"![Figure {len(figures)}: output of the cell above]({file})")
        if output:
            parts.append(f"```text\n{output.rstrip()}\n```")
    title, _, body = parts[0].partition("\n")
    parts[:1] = [title, NOTE.format(name=name), body.strip()]
    return "\n\n".join(parts) + "\n", figures


def outputs(cell: Any) -> Iterator[tuple[str, str]]:
    """What a cell printed, as text, and its figures as PNG; warnings are not allowed."""
    for output in cell.outputs:
        if output.output_type == "stream":
            if output.name != "stdout":
                raise SystemExit(f"a cell writes to {output.name}: {output.text}")
            yield "text", output.text
        elif "image/png" in output.data:
            yield "image", output.data["image/png"]
        else:
            yield "text", output.data["text/plain"]


def write(name: str) -> None:
    """Execute a notebook and write its page."""
    page, figures = executed(name)
    PAGES.mkdir(parents=True, exist_ok=True)
    (PAGES / f"{name}.md").write_text(page)
    for file, content in figures.items():
        (PAGES / file).write_bytes(content)


if __name__ == "__main__":
    for name in sys.argv[1:] or NAMES:
        print(name, flush=True)
        write(name)
