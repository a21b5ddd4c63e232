"""The rooms of the library and the imports between them, read from the source; draws images/architecture.svg.

    python docs/architecture.py

A line from one room to another says that files of the lower import files of the upper; imports inside functions count.
"""

import ast
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
SOURCE = HERE.parent / "src" / "horizonfree"

# From the first to the last: a room imports only rooms above it.
ROOMS = "native mdp planning guarantees models problems regression explorers runs batch sweeps report web cli".split()
NOTES = {
    "native": "loops in C, called from XLA or NumPy",
    "mdp": "Space, Kernel, episodes, rewards",
    "planning": "backward induction",
    "guarantees": "Certificate, divergence, bets",
    "models": "what a learner may know: mixture/",
    "problems": "a model, its truth, its layout",
    "regression": "ridge, HOME, radii, oracle/, theory",
    "explorers": "interface, loop, one file each",
    "runs": "explore, drive, run, store",
    "batch": "many seeds at once",
    "sweeps": "grids of explorations, on any engine",
    "report": "one HTML file",
    "web": "the playground",
    "cli": "commands, tour",
}


def modules() -> dict[str, Path]:
    """Every module by its name below the package; a package counts under its own name."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)] = path
    return found


def imported(path: Path, known: dict[str, Path], homes: dict[str, str]) -> set[str]:
    """The modules that a file imports, wherever in it; public names count as the modules where they live."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if not (isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "horizonfree"):
            continue
        base = (node.module or "").removeprefix("horizonfree").removeprefix(".")
        for alias in node.names:
            if base:
                found.add(f"{base}.{alias.name}" if f"{base}.{alias.name}" in known else base)
            else:
                found.add(homes.get(alias.name, alias.name))
    return found & set(known)


def public_homes() -> dict[str, str]:
    """Where each public name lives, as the package itself says it."""
    for node in ast.parse((SOURCE / "__init__.py").read_text()).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "_HOME":  # type: ignore[attr-defined]
            homes: dict[str, str] = ast.literal_eval(node.value)
            return homes
    raise LookupError("horizonfree/__init__.py has no _HOME")


@cache
def arrows() -> dict[str, set[str]]:
    """The imports of every module."""
    known, homes = modules(), public_homes()
    return {name: imported(path, known, homes) - {name} for name, path in known.items()}


def between_rooms() -> set[tuple[str, str]]:
    """(lower, upper) for every pair of rooms of which one imports the other."""
    pairs = {(a.split(".")[0], b.split(".")[0]) for a, others in arrows().items() for b in others}
    return {(a, b) for a, b in pairs if a != b and a in ROOMS and b in ROOMS}


def draw() -> str:
    """The picture: rooms from top to bottom, an arc for every import that skips a room."""
    height, gap, left, width = 34, 10, 16, 390
    files = {name: sum(x.split(".")[0] == name for x in modules()) for name in ROOMS}
    top = {name: 16 + i * (height + gap) for i, name in enumerate(ROOMS)}
    total = 16 + len(ROOMS) * (height + gap)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 680 {total}" font-family="sans-serif" font-size="13">',
        "<title>The rooms of horizonfree, and which imports which</title>",
        f'<rect width="680" height="{total}" fill="#fff"/>',
    ]
    for a, b in sorted(between_rooms(), key=lambda pair: (ROOMS.index(pair[0]), ROOMS.index(pair[1]))):
        y, z = top[a] + height / 2, top[b] + height / 2
        reach = 24 + 20 * (ROOMS.index(a) - ROOMS.index(b))
        x = left + width
        lines.append(
            f'<path d="M{x} {y} C{x + reach} {y} {x + reach} {z} {x} {z}" fill="none" stroke="#3b6ea5" '
            'stroke-opacity=".45" stroke-width="1.3"/>'
        )
    for name in ROOMS:
        y = top[name]
        lines += [
            f'<rect x="{left}" y="{y}" width="{width}" height="{height}" rx="6" fill="#eef3f8" stroke="#3b6ea5"/>',
            f'<text x="{left + 12}" y="{y + 22}" font-weight="bold" fill="#16324f">{name}/</text>',
            f'<text x="{left + 112}" y="{y + 22}" fill="#333" font-size="11.5">{NOTES[name]}</text>',
            f'<text x="{left + width - 8}" y="{y + 22}" text-anchor="end" fill="#777" font-size="10">'
            f"{files[name]}</text>",
        ]
    return "\n".join([*lines, "</svg>"]) + "\n"


if __name__ == "__main__":
    (HERE / "images" / "architecture.svg").write_text(draw())
