"""Run the tour and the core tests with the lowest and the newest versions of the dependencies, on every Python found.

    python tests/versions.py [--python 3.12 path/to/python3.13] [--only lowest]

Each combination has an environment of its own under .cache/versions; a failure leaves it there. Needs uv.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
RESOLUTIONS = {"lowest": "lowest-direct", "newest": "highest"}
CORE = ["tests/planning", "tests/guarantees", "tests/mdp", "tests/models", "tests/adversary"]
OPTIONS = ["-n", "2", "--dist", "loadfile", "-m", "not slow"]
TESTS = [
    "pytest>=9.0",
    "pytest-timeout>=2.3",
    "pytest-xdist>=3.6",
    "hypothesis>=6.100",
    "beartype>=0.20",
    "clarabel>=0.11",
    "pandas>=2.2.3",
    "httpx>=0.27",
]


def interpreters(requested: list[str]) -> dict[str, str]:
    """Version and path of each Python on this machine."""
    if shutil.which("pyenv"):  # its commands are visible only for the versions that are named here
        versions = subprocess.run(["pyenv", "versions", "--bare"], capture_output=True, text=True).stdout
        os.environ["PYENV_VERSION"] = ":".join(versions.split())
    paths = {}
    for version in requested:
        answer = subprocess.run(
            ["uv", "python", "find", "--no-python-downloads", version], capture_output=True, text=True
        )
        if answer.returncode == 0:
            paths[version] = answer.stdout.strip()
        else:
            print(f"Python {version} is not on this machine: skipped")
    return paths


def check(name: str, python: str, resolution: str) -> bool:
    """Install, print the versions, run the tour and the core tests; whether all passed."""
    folder = ROOT / ".cache" / "versions" / name
    shutil.rmtree(folder, ignore_errors=True)
    environment = os.environ | {"VIRTUAL_ENV": str(folder)}
    run = folder / "bin"
    steps = [
        ["uv", "venv", "-q", "--python", python, str(folder)],
        # together: what the tests need must not replace what the library was resolved to
        ["uv", "pip", "install", "-q", "--resolution", resolution, f"{ROOT}[gymnasium,report,web]", *TESTS],
        [
            str(run / "python"),
            "-c",
            "import jax, numpy; print('jax', jax.__version__, 'numpy', numpy.__version__)",
        ],
        [str(run / "horizonfree"), "tour"],
        # old dependencies warn of each other: those warnings are no failures
        [str(run / "python"), "-m", "pytest", *OPTIONS, "-W", "default::DeprecationWarning", *CORE],
    ]
    for step in steps:
        stdout = subprocess.DEVNULL if step[-1] == "tour" else None
        if subprocess.run(step, cwd=ROOT, env=environment, stdout=stdout).returncode:
            print(f"{name}: FAILED at {' '.join(step)}")
            return False
    print(f"{name}: passed")
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", nargs="+", default=list(PYTHONS))
    parser.add_argument("--only", choices=list(RESOLUTIONS))
    args = parser.parse_args()
    results = {
        f"{version}-{name}": check(f"{version.replace('/', '-')}-{name}", python, resolution)
        for version, python in interpreters(args.python).items()
        for name, resolution in RESOLUTIONS.items()
        if args.only in (None, name)
    }
    print("\n".join(f"{name}: {'passed' if is_good else 'failed'}" for name, is_good in results.items()))
    return 0 if results and all(results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
