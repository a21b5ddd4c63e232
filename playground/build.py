"""Build the playground without a server: a folder of static files, with Python and NumPy for the browser.

    python playground/build.py site/playground

Pyodide and NumPy come from the npm registry (`npm pack`); their archives are kept in .cache/ and compared with the
checksums below. NumPy is the build of emscripten-forge for Pyodide's Python 3.11: Pyodide's own packages are not in the
registry. The page, its scripts and the library are those of src/.
"""

import hashlib
import io
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import distribution
from pathlib import Path

import horizonfree as hf
from horizonfree.runs.run import Run
from horizonfree.web.server import SCRIPTS

HERE = Path(__file__).parent
LIBRARY = Path(hf.__file__).parent
CACHE = HERE.parent / ".cache" / "npm"
PYODIDE = (
    "pyodide@0.24.1",
    "7e436894dc22bf8d44d8a2823f66e05be770afde41fb42920bf586f560a695633d30d15b4555f4ac5f62e0e8a444cefc6c679552f2dd549c3c8d8d7bc312a845",
)
NUMPY = (
    "@emscripten-forge/numpy@2.1.1-py311hc8e14bb-0",
    "54f9d283e46e402f73cf46e7073cc8fe6695ca892e6d28322ac7d2aafb3368bb65c91498f8b76d9805298d9f4d944a42dd2592608df48d65d8ea1ad35355e2ac",
)
PYODIDE_FILES = (
    "pyodide.js",
    "pyodide.asm.js",
    "pyodide.asm.wasm",
    "python_stdlib.zip",
    "pyodide-lock.json",
    "package.json",
)
PURE_PACKAGES = ("jaxtyping", "wadler_lindig")  # that the library imports; only annotations
NUMPY_TESTS = ("/tests/", "_tests.cpython", "/_simd.cpython")
# A WebAssembly library with int backtrace(void **, int) { return 0; }, which means that there is no trace.
BACKTRACE = bytes.fromhex(
    "0061736d01000000000f0864796c696e6b2e3001040000000001070160027f7f017f03020100070d01096261636b747261636500000a0601040041000b"
)
POLICY = (
    "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'"
)


def archive(package: str, sha512: str) -> bytes:
    """The archive of a package of the npm registry, downloaded once."""
    file = CACHE / f"{sha512[:16]}.tgz"
    if not file.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as folder:
            subprocess.run(
                ["npm", "pack", package, "--silent", "--pack-destination", folder],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            (archive_path,) = Path(folder).glob("*.tgz")
            archive_path.replace(file)
    content = file.read_bytes()
    if hashlib.sha512(content).hexdigest() != sha512:
        raise SystemExit(
            f"{package} is not the archive with the checksum in {__file__}; delete {file} to download it again"
        )
    return content


def members(content: bytes) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the files of a .tar.gz archive."""
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        for member in tar:
            file = tar.extractfile(member)
            if file is not None:
                yield member.name, file.read()


def python_files() -> Iterator[tuple[str, bytes]]:
    """Everything that Python imports in the browser, without what its standard library has."""
    (inner,) = (content for name, content in members(archive(*NUMPY)) if name.endswith(".tar.gz"))
    for name, content in members(inner):
        _, is_package, path = name.partition("site-packages/")
        if is_package and path.startswith("numpy/") and not any(part in path for part in NUMPY_TESTS):
            yield path, content
        elif name.startswith("info/licenses/"):
            yield f"licenses/numpy/{Path(name).name}", content
    for package in PURE_PACKAGES:
        for path in distribution(package).files or ():
            if path.suffix == ".py" or path.name == "METADATA" or "LICENSE" in path.name:
                yield str(path), path.read_binary()
    for path in sorted(LIBRARY.rglob("*.py")):
        yield str(Path("horizonfree") / path.relative_to(LIBRARY)), path.read_bytes()
    for path in sorted((HERE / "python").rglob("*.py")):
        yield str(path.relative_to(HERE / "python")), path.read_bytes()
    yield "backtrace.so", BACKTRACE


def runs() -> dict[str, tuple[str, Run]]:
    """The runs of the page by name, with their titles."""
    grid = hf.make("zoned-grid", size=6, zones=2, horizon=14)
    river = hf.make("river-swim", states=12, horizon=24)
    lake = hf.make("gymnasium:FrozenLake-v1", horizon=50)
    return {
        "grid": ("a grid with unknown wind", hf.explore(grid, episodes=150, seed=0, progress=False)),
        "river": ("a river", hf.explore(river, episodes=150, seed=0, progress=False)),
        "lake": ("FrozenLake", hf.explore(lake, episodes=2000, seed=0, progress=False)),
    }


def write_run(run: Run, file: Path) -> None:
    """A run as an archive; its problem as arrays, since the browser cannot make every problem."""
    with tempfile.TemporaryDirectory() as folder:
        run_folder = Path(folder) / "run"
        replace(run, problem=run.problem._replace(recipe=None)).save(run_folder)
        write_zip(file, ((path.name, path.read_bytes()) for path in sorted(run_folder.iterdir())))


def write_zip(file: Path, contents: Iterator[tuple[str, bytes]]) -> None:
    """An archive of files."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as target:
        for name, content in contents:
            target.writestr(name, content)


def build(folder: Path) -> None:
    """Write all files of the playground into a folder."""
    for name in ("pyodide", "runs"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name, content in members(archive(*PYODIDE)):
        if Path(name).name in PYODIDE_FILES:
            (folder / "pyodide" / Path(name).name).write_bytes(content)
    write_zip(folder / "python.zip", python_files())
    page = (LIBRARY / "web" / "page.html").read_text()
    charset = '<meta charset="utf-8">\n'
    (folder / "index.html").write_text(
        page.replace(charset, f'{charset}<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n', 1)
    )
    for name in {"page.css", *SCRIPTS} - {"backend.js"}:
        (folder / name).write_bytes((LIBRARY / "web" / name).read_bytes())
    for name in ("backend.js", "worker.js"):
        (folder / name).write_bytes((HERE / name).read_bytes())
    run_list = runs()
    for name, (_, run) in run_list.items():
        write_run(run, folder / "runs" / f"{name}.zip")
    titles = [{"name": name, "title": title} for name, (title, _) in run_list.items()]
    (folder / "runs" / "runs.json").write_text(json.dumps(titles))


def main(folder: Path) -> None:
    """Build it, or say on the page why it is missing."""
    if shutil.which("npm") is not None:
        return build(folder)
    reason = "This site was built without npm, which brings Python for the browser."
    print(f"{folder} has no playground: {reason}", file=sys.stderr)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "index.html").write_text(f"<!doctype html><title>Playground</title><p>{reason}</p>\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
