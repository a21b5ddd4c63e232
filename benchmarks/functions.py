"""How many functions, in how many files, one question enters on its first call, on a 3x3 grid.

Functions of horizonfree only, counted with sys.setprofile; lambdas, comprehensions and code of modules are left out.
`python benchmarks/functions.py --list` names them.
"""

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import horizonfree as hf

SOURCE = str(Path(hf.__file__).parent)


def entered(call: Callable[[], Any]) -> Counter[tuple[str, str]]:
    """(file, function) that a call enters, with how often."""
    found: Counter[tuple[str, str]] = Counter()

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(SOURCE) and not code.co_name.startswith("<"):
            found[code.co_filename.removeprefix(SOURCE + "/"), code.co_qualname] += 1

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


def main() -> None:
    problem = hf.make("zoned-grid", size=3, zones=2, horizon=6)
    run = hf.explore(problem, episodes=20)
    fresh = [hf.explore(problem, episodes=20, seed=1) for _ in range(2)]
    goal = hf.goal(problem, 8)
    run.plan(goal)  # modules are imported before anything is counted
    run.certificate()
    calls: dict[str, Callable[[], Any]] = {
        "run.plan": lambda: fresh[0].plan(goal),
        "run.certificate": lambda: fresh[1].certificate(),
        "hf.explore": lambda: hf.explore(problem, episodes=20, seed=2),
    }
    for name, call in calls.items():
        found = entered(call)
        print(f"{name}: {len(found)} functions in {len({file for file, _ in found})} files")
        if "--list" in sys.argv:
            for (file, function), times in sorted(found.items()):
                print(f"    {file:<45} {function} ({times})")


if __name__ == "__main__":
    main()
