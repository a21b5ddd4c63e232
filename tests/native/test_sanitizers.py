"""The kernels on odd shapes, compiled with the sanitizers for addresses and undefined behaviour."""

import subprocess

import pytest

from horizonfree.native import library
from tests.native.test_library import ROOT, build

__all__ = ["build"]


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["ORACLE", "DESIGN", "PLANNING", "HINGE", "PENALISED", "CHORD"])
@pytest.mark.parametrize("level", ["baseline", "x86-64-v3", "x86-64-v4"])
def test_no_kernel_leaves_its_arrays(build, kernel, level, tmp_path):
    compiler = build.find_compiler()
    if not compiler:
        pytest.skip("no C compiler")
    if level not in build.BUILDS or library.BUILDS.index(level) > library.BUILDS.index(library.build_name()):
        pytest.skip(f"{level} does not run here")
    sanitizers = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    command = [*compiler, *(x for x in build.FLAGS if x != "-shared"), *sanitizers, *build.BUILDS[level]]
    empty, program = tmp_path / "empty.c", tmp_path / "odd_shapes"
    empty.write_text("int main(void) { return 0; }\n")
    if subprocess.run([*command, str(empty), "-o", str(program)], check=False).returncode:
        pytest.skip(f"{compiler[0]} has no sanitizers")
    source = str(ROOT / "tests" / "native" / "odd_shapes.c")
    subprocess.run(
        [*command, f"-D{kernel}", f"-I{library.FOLDER}", source, "-lm", "-o", str(program)], check=True
    )
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr[-3000:]
