"""Compiles the loops that are written in C, for the processors that there are, where there is a compiler for it."""

import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = ("src/horizonfree/regression/oracle/loops/search.c",)
# By what `level_here` says of a processor: any, one with vectors of four numbers, of eight.
LEVELS: tuple[tuple[str, ...], ...] = ((), ("-march=x86-64-v3",), ("-march=x86-64-v4",))
if platform.machine() not in ("x86_64", "AMD64"):
    LEVELS = LEVELS[:1]
FLAGS = (
    *("-std=gnu11", "-O3", "-shared", "-fPIC", "-fno-semantic-interposition", "-fopenmp-simd"),
    *(
        "-fno-math-errno",
        "-fno-trapping-math",
        "-fno-signed-zeros",
        "-ffinite-math-only",
        "-ffp-contract=fast",
    ),
)


class LoopsBuildHook(BuildHookInterface):
    """Libraries beside their sources: NAME-LEVEL.so."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and say what was made; Hatch calls it for editable installations, too."""
        compiler = _compiler()
        made = [x for source in SOURCES for x in _compiled(compiler, Path(self.root) / source)]
        if len(made) < len(SOURCES):
            self.app.display_warning("No C compiler made the fast loops: single runs will search in JAX.")
            return
        build_data["artifacts"] += [str(x.relative_to(self.root)) for x in made]
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"


def _compiler() -> list[str]:
    """The user's (CC), or the system's; empty where there is none."""
    asked = shlex.split(os.environ.get("CC", ""))
    return next((x for x in (asked, ["cc"], ["gcc"], ["clang"]) if x and shutil.which(x[0])), [])


def _compiled(compiler: list[str], source: Path) -> list[Path]:
    """One for each level that the compiler knows. An older one is there until then, and never longer."""
    made = []
    for level, flags in enumerate(LEVELS):
        target = source.with_name(f"{source.stem}-{level}.so")
        partial = target.with_suffix(f".{os.getpid()}.partial")
        command = [*compiler, *FLAGS, *flags, str(source), "-lm", "-o", str(partial)]
        if compiler and subprocess.run(command, stdout=subprocess.DEVNULL, stderr=sys.stderr).returncode == 0:
            made.append(partial.replace(target))
        else:
            target.unlink(missing_ok=True)
    return made
