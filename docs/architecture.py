"""The packages of the library and the imports between them, read from the source; draws images/architecture.svg.

    python docs/architecture.py

An arc between two packages says that the lower one imports the upper one; imports inside functions count.
"""

import ast
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
SOURCE = HERE.parent / "src" / "horizonfree"

# From the first to the last: a package imports only packages above it.
PACKAGES = (
    "native mdp planning guarantees models problems oracle estimators theory explorers runs batch sweeps report web cli"
).split()


def purpose(package: str) -> str:
    """The first line of the package's docstring."""
    return (ast.get_docstring(ast.parse((SOURCE / package / "__init__.py").read_text())) or "").split("\n")[0]


def modules() -> dict[str, Path]:
    """Every module by its name inside horizonfree; a package counts under its own name."""
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
        if isinstance(node, ast.Assign) and node.targets[0].id == "_MODULE_OF":  # type: ignore[attr-defined]
            homes: dict[str, str] = ast.literal_eval(node.value)
            return homes
    raise LookupError("horizonfree/__init__.py has no _MODULE_OF")


@cache
def arrows() -> dict[str, set[str]]:
    """The imports of every module."""
    known, homes = modules(), public_homes()
    return {name: imported(path, known, homes) - {name} for name, path in known.items()}


def between_packages() -> set[tuple[str, str]]:
    """(lower, upper) for every pair of packages of which one imports the other."""
    pairs = {(a.split(".")[0], b.split(".")[0]) for a, others in arrows().items() for b in others}
    return {(a, b) for a, b in pairs if a != b and a in PACKAGES and b in PACKAGES}


def draw() -> str:
    """The picture: packages from top to bottom, an arc for every import."""
    height, gap, left, width = 34, 10, 16, 540
    top = {name: 16 + i * (height + gap) for i, name in enumerate(PACKAGES)}
    total = 16 + len(PACKAGES) * (height + gap)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 830 {total}" font-family="sans-serif" font-size="13">',
        "<title>The packages of horizonfree, and which imports which</title>",
        f'<rect width="830" height="{total}" fill="#fff"/>',
    ]
    for a, b in sorted(
        between_packages(), key=lambda pair: (PACKAGES.index(pair[0]), PACKAGES.index(pair[1]))
    ):
        y, z = top[a] + height / 2, top[b] + height / 2
        reach = 24 + 20 * (PACKAGES.index(a) - PACKAGES.index(b))
        x = left + width
        lines.append(
            f'<path d="M{x} {y} C{x + reach} {y} {x + reach} {z} {x} {z}" fill="none" stroke="#3b6ea5" '
            'stroke-opacity=".45" stroke-width="1.3"/>'
        )
    for name in PACKAGES:
        y = top[name]
        lines += [
            f'<rect x="{left}" y="{y}" width="{width}" height="{height}" rx="6" fill="#eef3f8" stroke="#3b6ea5"/>',
            f'<text x="{left + 12}" y="{y + 22}" font-weight="bold" fill="#16324f">{name}/</text>',
            f'<text x="{left + 112}" y="{y + 22}" fill="#333" font-size="12">{purpose(name).replace("`", "")}</text>',
        ]
    return "\n".join([*lines, "</svg>"]) + "\n"


if __name__ == "__main__":
    (HERE / "images" / "architecture.svg").write_text(draw())
