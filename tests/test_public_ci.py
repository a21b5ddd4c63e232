"""The files for public hosting, as far as they can be checked offline; and the paper's claims about the package."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
YAML = [
    *WORKFLOWS,
    *sorted((ROOT / ".github").glob("*.yml")),
    *sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")),
    ROOT / ".pre-commit-config.yaml",
    ROOT / "CITATION.cff",
]
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def commands(workflow: Path) -> list[str]:
    jobs = yaml.safe_load(workflow.read_text())["jobs"].values()
    return [step["run"] for job in jobs for step in job["steps"] if "run" in step]


@pytest.mark.parametrize("path", YAML, ids=lambda path: path.name)
def test_yaml_parses(path):
    assert isinstance(yaml.safe_load(path.read_text()), dict)


def test_commands_of_workflows_are_targets_of_the_makefile():
    """One line each, and every target exists; settings are variables that the Makefile reads."""
    makefile = (ROOT / "Makefile").read_text()
    targets = set()
    for command in [line for path in WORKFLOWS for line in commands(path)]:
        match = re.fullmatch(r"make ([\w-]+)((?: [A-Z]+=(?:\w+|\"[^\"]*\"))*)", command)
        assert match, command
        assert match[1] in TARGETS, command
        for name in re.findall(r"([A-Z]+)=", match[2]):
            assert re.search(rf"^{name} \?=|\$\({name}\)", makefile, re.MULTILINE), command
        targets.add(match[1])
    assert targets == {
        *("lint", "test", "test-core", "test-versions", "docs", "wheels", "cibuildwheel"),
    }


def test_pre_commit_runs_what_the_makefile_has():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    assert [hook["entry"] for hook in hooks] == ["make lint"]


def test_workflows_test_the_versions_that_are_declared():
    versions = {
        line.rsplit(" ", 1)[1]
        for line in PROJECT["project"]["classifiers"]
        if re.search(r"Python :: 3\.\d+$", line)
    }
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text())["jobs"]
    for name in ("tests", "windows", "versions"):
        assert set(jobs[name]["strategy"]["matrix"]["python"]) == versions
    lowest = min(versions, key=lambda x: int(x.split(".")[1]))
    assert PROJECT["project"]["requires-python"] == f">={lowest}"


def test_no_address_is_invented():
    """While the project has no public address, nothing claims one."""
    assert "urls" not in PROJECT["project"]
    assert "repository-code" not in yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert "[project.urls]" in (ROOT / "RELEASING.md").read_text()


def test_the_paper_cites_what_the_bibliography_has():
    """Each reference once, each cited, and a paper of about 1,000 words."""
    paper = (ROOT / "paper.md").read_text()
    head, body = paper.split("---\n", 2)[1:]
    assert yaml.safe_load(head)["bibliography"] == "docs/references.bib"
    entries = re.findall(r"^@\w+\{([\w-]+),", (ROOT / "docs" / "references.bib").read_text(), re.MULTILINE)
    assert len(entries) == len(set(entries))
    assert set(re.findall(r"@([a-z]+\d{4}[a-z]*)", body)) == set(entries)
    assert 800 <= len(body.split()) <= 1200
