"""Change one expression of the source at random, run the nearest tests, and report whether a test fails.

    python tests/mutate.py --count 40 --seed 0
    python tests/mutate.py --only src/horizonfree/models/tabular/radius.py:52     (every change of that line)

Every change is made in a temporary copy of src; the tree is never written. A survivor is either equivalent (the change
cannot matter) or shows that a test is missing; tests/mutations.md lists both. Module constants, annotations, messages
of errors and docstrings are left alone.
"""

import argparse
import ast
import copy
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = Path("src/horizonfree")
# Folders or files of each group, and how often a change falls into it.
GROUPS = {
    "certificates": (0.5, ["guarantees", "models"]),
    "explorers": (0.2, ["explorers"]),
    "planning": (0.15, ["planning"]),
    "storage": (0.15, ["runs"]),
}
OPERATORS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.And: ast.Or, ast.Or: ast.And,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
}  # fmt: skip
SWAPPED = [("minimum", "maximum"), ("min", "max"), ("argmin", "argmax")]
NAMES = {x: y for a, b in SWAPPED for x, y in ((a, b), (b, a))}
SKIPPED = (ast.Raise, ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom)
MAX_FILES = 6  # of tests per change
PYTEST = "-x -q -n 0 -p no:cacheprovider -rfE"
BUDGETS = ["tests/guarantees/test_budgets.py"]
Change = tuple[Path, int, str, str, str]  # file, line, before, after, source


def nodes(tree: ast.AST, at_top: bool = True) -> Iterator[ast.AST]:
    """Nodes whose change may matter."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, SKIPPED) or (at_top and isinstance(child, (ast.Assign, ast.AnnAssign))):
            continue
        if isinstance(child, ast.arg) or (
            isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
        ):
            continue
        if isinstance(child, ast.AnnAssign):
            child = child.value or ast.Pass()
        if isinstance(tree, ast.FunctionDef) and child in (tree.returns, *tree.decorator_list):
            continue
        yield child
        yield from nodes(child, False)


def variants(node: ast.AST) -> Iterator[ast.AST]:
    """The node with one thing changed."""
    if isinstance(node, (ast.BinOp, ast.BoolOp)) and type(node.op) in OPERATORS:
        yield replace_fields(node, op=OPERATORS[type(node.op)]())
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in OPERATORS:
        yield replace_fields(node, ops=[OPERATORS[type(node.ops[0])](), *node.ops[1:]])
    elif isinstance(node, ast.UnaryOp) and not isinstance(node.operand, ast.Constant):
        yield node.operand
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield replace_fields(node, value=node.value + 1)
        yield replace_fields(node, value=node.value - 1)
    elif isinstance(node, ast.Constant) and type(node.value) is float:
        yield replace_fields(node, value=2 * node.value if node.value else 1.0)
    elif isinstance(node, ast.Attribute) and node.attr in NAMES:
        yield replace_fields(node, attr=NAMES[node.attr])
    elif isinstance(node, ast.Name) and node.id in NAMES:
        yield replace_fields(node, id=NAMES[node.id])


def replace_fields(node: ast.AST, **fields: object) -> ast.AST:
    other = copy.copy(node)
    for name, value in fields.items():
        setattr(other, name, value)
    return other


def changes(path: Path) -> list[Change]:
    """All changes of a file."""
    tree = ast.parse((ROOT / path).read_text())
    mutations = []
    for parent in [tree, *nodes(tree)]:
        inside = set(map(id, nodes(parent, parent is tree)))
        for name, value in ast.iter_fields(parent):
            for i, child in enumerate(value if isinstance(value, list) else [value]):
                if not isinstance(child, ast.AST) or id(child) not in inside:
                    continue
                for other in variants(child):
                    line, source_line = child.lineno, ast.unparse(parent).split("\n")[0]
                    set_child(parent, name, i, other)
                    mutations.append(
                        (path, line, source_line, ast.unparse(parent).split("\n")[0], ast.unparse(tree))
                    )
                    set_child(parent, name, i, child)
    return mutations


def set_child(parent: ast.AST, name: str, i: int, child: ast.AST) -> None:
    if isinstance(value := getattr(parent, name), list):
        value[i] = child
    else:
        setattr(parent, name, child)


def nearest(path: Path) -> list[str]:
    """Test files, the nearest first: of the same name, of budgets, that name the module, and the rest of the folder."""
    folder = ROOT / "tests" / path.relative_to(PACKAGE).parent
    while not folder.is_dir():
        folder = folder.parent
    files = sorted(folder.rglob("test_*.py"), key=lambda x: (len(x.parts), x))
    stem = path.stem.removesuffix("_loop")
    mentioning = [x for x in files if re.search(rf"\b{stem}\b", x.read_text())]
    same_name = [x for x in files if x.stem == f"test_{stem}"]
    paths = [str(x.relative_to(ROOT)) for x in (*same_name, *mentioning, *files)]
    budgets = [x for x in paths if x.endswith("test_budgets.py")]
    budgets += BUDGETS * (path.parts[2] in ("models", "guarantees"))
    return list(dict.fromkeys(paths[:1] + budgets + paths))[:MAX_FILES]


def failure(source: Path, tests: list[str], seconds: float, skipped: list[str]) -> str | None:
    """The first test that fails; None where all pass."""
    arguments = ["-m", "pytest", *PYTEST.split(), "-m", "not slow", *tests]
    arguments += [f"--deselect={x}" for x in skipped]
    env = os.environ | {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            [sys.executable, *arguments], cwd=ROOT, env=env, capture_output=True, text=True, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return "(no end)"
    if done.returncode in (0, 5):
        return None
    match = re.search(r"^(?:FAILED|ERROR) (\S+(?:\[.*?\])?)", done.stdout, re.MULTILINE)
    return match[1] if match else "(a crash)"


def outcome(change: Change, tests: list[str], seconds: float, failing: list[str]) -> str:
    """Whether a test fails with the change that passes without it; `broken` collects those that fail anyway."""
    path, _, _, _, text = change
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        (source.parent / path).write_text(text)
        while True:
            test = failure(source, tests, seconds, failing)
            if test is None:
                return "survived"
            if test.startswith("(") or failure(ROOT / "src", [test], seconds, []) is None:
                return f"killed by {test}" if test != "(no end)" else "survived so far (time is up)"
            failing.append(test)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", metavar="FILE:LINE", help="every change of one line")
    parser.add_argument("--seconds", type=float, default=300, help="for the tests of one change")
    parser.add_argument(
        "--skip", type=int, default=0, help="changes that were tried before, of the same seed"
    )
    args = parser.parse_args()
    rng, mutants = random.Random(args.seed), []
    if args.only:
        file, _, line = args.only.rpartition(":")
        mutants = [x for x in changes(Path(file)) if x[1] == int(line)]
    while not args.only and len(mutants) < args.count:
        group = rng.choices(list(GROUPS), [weight for weight, _ in GROUPS.values()])[0]
        roots = [ROOT / PACKAGE / x for x in GROUPS[group][1]]
        files = sorted(y for x in roots for y in (x.rglob("*.py") if x.is_dir() else [x]) if y.exists())
        sizes = [len(x.read_text()) for x in files]
        mutations = changes(rng.choices(files, sizes)[0].relative_to(ROOT))
        if mutations:
            mutants.append(rng.choice(mutations))
    failing: list[str] = []
    for change in mutants[args.skip :]:
        path, line, old_text, new_text, _ = change
        start = time.monotonic()
        result = outcome(change, nearest(path), args.seconds, failing)
        print(
            f"{path}:{line}  {old_text}  ->  {new_text}\n    {result}, {time.monotonic() - start:.0f} s",
            flush=True,
        )
    if failing:
        print("fail without any change:", *failing)


if __name__ == "__main__":
    main()
