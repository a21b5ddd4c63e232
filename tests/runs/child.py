"""A process whose children explore until they are killed."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

CHILD = Path(__file__).parents[1] / "reference" / "explorer_child.py"
EPISODES = 100


class Child:
    """The process that forks a child per task."""

    def __init__(self, cache: Path) -> None:
        env = os.environ | {"JAX_PLATFORMS": "cpu", "XDG_CACHE_HOME": str(cache)}
        env.pop("JAX_COMPILATION_CACHE_DIR", None)  # else the library keeps no files of its own
        self.process = subprocess.Popen(
            [sys.executable, str(CHILD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
        )

    def begin(self, folder: Path, **task: Any) -> int:
        """Hand a task to a new child; its process number."""
        defaults = {"explorer": "optimal-design", "episodes": EPISODES, "seed": 0, "save_episodes": 1}
        text = json.dumps(defaults | {"folder": str(folder)} | task)
        self.process.stdin.write(text + "\n")  # type: ignore[union-attr]
        self.process.stdin.flush()  # type: ignore[union-attr]
        return int(self.line("child"))

    def line(self, word: str) -> str:
        """What follows a word, in the next line that begins with it."""
        while text := self.process.stdout.readline():  # type: ignore[union-attr]
            if text.startswith(word):
                return text.removeprefix(word).strip()
        raise AssertionError(f"the child is gone: {self.process.stderr.read()}")  # type: ignore[union-attr]

    def close(self) -> None:
        """No more tasks."""
        self.process.stdin.close()  # type: ignore[union-attr]
        self.process.wait(30)
        self.process.stdout.close()  # type: ignore[union-attr]
        self.process.stderr.close()  # type: ignore[union-attr]
