"""Compiles the C files of src/horizonfree/native/ into one shared library, if there is a C compiler.

A hook of Hatch, not scikit-build-core or meson-python: the library is one call of the compiler per processor level, has
no dependencies but the C library, and is optional. No headers of jaxlib are needed: the stable C API of XLA's foreign
functions is vendored (native/xla/), so an isolated build does not install jaxlib, and a wheel built here also works
with later versions of jaxlib. The wheels depend on no Python version; auditwheel tags them manylinux_2_17.
"""

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

FOLDER = Path("src/horizonfree/native")
FLAGS = (
    *("-std=gnu11", "-O3", "-shared", "-fPIC", "-fno-semantic-interposition", "-fopenmp-simd", "-Wno-psabi"),
    *(
        "-fno-math-errno",
        "-fno-trapping-math",
        "-fno-signed-zeros",
        "-ffinite-math-only",
        "-ffp-contract=fast",
    ),
)
# native/library.py selects one when it loads the library.
BUILDS: dict[str, tuple[str, ...]] = {"baseline": ()}
if platform.machine() in ("x86_64", "AMD64"):
    BUILDS["x86-64-v3"] = ("-march=x86-64-v3",)
    BUILDS["x86-64-v4"] = ("-march=x86-64-v4",)


class NativeBuildHook(BuildHookInterface):
    """Libraries beside their sources: native-BUILD.so."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile; Hatch calls this for editable installations, too."""
        libraries = compile_all(find_compiler(), Path(self.root) / FOLDER)
        if not libraries:
            self.app.display_warning(
                "No C compiler: horizonfree will run without its native library, slower."
            )
            return
        build_data["artifacts"] += [str(x.relative_to(self.root)) for x in libraries]
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"


def find_compiler() -> list[str]:
    """The user's compiler (CC), or the system's; empty if there is none, or for a wheel without compiled code.

    Windows has no compiled library: the flags and the names of files are those of GCC and Clang elsewhere.
    """
    if os.environ.get("HORIZONFREE_PURE") or sys.platform == "win32":
        return []
    preferred = shlex.split(os.environ.get("CC", ""))
    return next((x for x in (preferred, ["cc"], ["gcc"], ["clang"]) if x and shutil.which(x[0])), [])


def compile_all(compiler: list[str], folder: Path) -> list[Path]:
    """The builds that the compiler can compile. Those of an earlier installation are replaced or removed."""
    libraries = []
    sources = sorted(map(str, folder.glob("*.c")))
    for build, flags in BUILDS.items():
        target = folder / f"native-{build}.so"
        partial = target.with_suffix(f".{os.getpid()}.partial")
        command = [*compiler, *FLAGS, *flags, *sources, "-lm", "-o", str(partial)]
        if compiler and subprocess.run(command, stdout=subprocess.DEVNULL, stderr=sys.stderr).returncode == 0:
            libraries.append(partial.replace(target))
        else:
            target.unlink(missing_ok=True)
    return libraries
