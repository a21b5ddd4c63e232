"""What the documentation says is true: examples run, names exist, links lead somewhere."""

import importlib
import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.explorers.registry import EXPLORERS
from horizonfree.guarantees.certificate import interval, round_up

ROOT = Path(__file__).parent.parent
HOW_TO = [page.stem for page in sorted((ROOT / "docs" / "how-to").glob("*.md"))]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_the_page_on_problems_and_rewards_runs(capsys):
    text = (ROOT / "docs" / "problems.md").read_text()
    scope: dict = {}
    for example in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(example, scope)
    lines = capsys.readouterr().out.splitlines()
    for expected in ("25 4 4 12 0", "3 500 300", "0.5 2", "6.0 -12.0"):
        assert expected in lines
        assert re.search(rf"print\(.*# {re.escape(expected)}$", text, re.MULTILINE)
    shop, walk, same_problem, sparse = (scope[name] for name in ("shop", "walk", "same", "sparse"))
    dense = hf.Mixture.from_features(sparse.toarray(), horizon=5, bound=1.0, theta=[0.8, 0.2])
    for other in (same_problem, dense):
        np.testing.assert_array_equal(other.kernel().dense(), walk.kernel().dense())
    np.testing.assert_allclose(walk.kernel().dense()[:, 1], [[0.2, 0.8], [0.8, 0.2]])
    steps, plan, cost = scope["steps"], scope["plan"], scope["cost"]
    assert plan.value == pytest.approx(steps.value - 12)  # the same reward, twelve steps lower
    assert plan.gap == pytest.approx(cost.factor * plan.certificate.eps)
    value = scope["best"].V[0, shop.start]
    assert scope["V"][0, shop.start] == pytest.approx(value)
    assert (scope["visits"] * scope["reward"]).sum() == pytest.approx(value)
    assert scope["best"].policy.dtype == np.int32


def test_the_numbers_of_the_page_on_certificates_are_those_of_its_example(capsys):
    """What it prints is what the page says, and so are the numbers of its plan."""
    text = (ROOT / "docs" / "what-a-certificate-means.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    scope: dict = {}
    exec(example, scope)
    expected = re.findall(r"^print\(.*\) +# (.*)$", example, re.MULTILINE)
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line in expected] == expected
    plan, interval_text = scope["plan"], interval(scope["plan"].value_low, scope["plan"].value_high)
    gap = f"{round_up(plan.gap, finest=0.001):.3f}"
    assert (
        f"value {plan.value:.3f}, 95% confidence interval {interval_text}; suboptimality at most {gap}"
        in example
    )
    assert f'"Value {plan.value:.3f}, gap {gap}"' in text
    assert scope["mine"].value < plan.value
    assert lines[-1].startswith("a is better by at least")


@pytest.mark.parametrize(
    "name",
    [
        "README",
        "docs/alternatives",
        "docs/tutorial",
        "docs/constrained",
        "docs/likely",
        "docs/off-policy-evaluation",
        "docs/observed-rewards",
        "docs/verification",
        *(f"docs/how-to/{page}" for page in HOW_TO),
    ],
)
def test_pages_that_teach_print_what_they_say(name, capsys):
    """Every `print(...)  # output` of the page, in order."""
    if name == "docs/verification":
        pytest.importorskip("stormpy", reason="stormpy is not installed")
    scope: dict = {}
    examples = re.findall(r"```python\n(.*?)```", (ROOT / f"{name}.md").read_text(), re.DOTALL)
    for example in examples:
        exec(example, scope)
    expected = re.findall(r"^print\(.*\) +# (.*)$", "\n".join(examples), re.MULTILINE)
    assert len(expected) >= 2
    assert capsys.readouterr().out.splitlines() == expected


def test_the_explorer_of_the_contributing_page_runs(capsys):
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)
    exec(example, {"__name__": "contributed"})
    assert capsys.readouterr().out.splitlines() == re.findall(r"^# (.+)$", example, re.MULTILINE)


def test_the_page_on_noise_runs(capsys):
    text = (ROOT / "docs" / "noise.md").read_text()
    examples = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    scope: dict = {}
    for example in examples:
        exec(example, scope)
    expected = re.findall(r"^print\(.*\) +# (.*)$", "".join(examples), re.MULTILINE)
    lines = capsys.readouterr().out.splitlines()
    assert lines[: len(expected)] == expected
    assert len(lines) == len(expected) + 1
    assert lines[-1].startswith("2,000 samples")


def test_the_table_of_problems_is_right():
    """Every name, its sizes at the defaults, and no year that its source does not have."""
    text = (ROOT / "docs" / "problems.md").read_text()
    rows = re.findall(
        r"^\| `([a-z-]+)` \| .*? \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (.*) \|$", text, re.MULTILINE
    )
    assert sorted(name for name, *_ in rows) == list(hf.problems())
    for name, *sizes, source in rows:
        problem = hf.make(name)
        assert [int(size) for size in sizes] == [
            problem.num_states,
            problem.num_actions,
            problem.model.dim,
            problem.horizon,
        ]
        for year in re.findall(r"\d{4}", source):
            assert year in hf.problems()[name].source


def test_links_lead_to_files(subtests):
    """Formulas such as [PV](s,a) count: Markdown reads them as links."""
    for page in PAGES:
        with subtests.test(page.name):
            text = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)|\$[^$\n]+\$", "", page.read_text(), flags=re.DOTALL)
            for target in re.findall(r"(?<!\\)\]\((?!https?:)([^)#?]*)[^)]*\)", text):
                if target != "playground/index.html":  # made by `make docs`
                    assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_page_is_in_the_navigation():
    docs = ROOT / "docs"
    pages = [page.relative_to(docs).as_posix() for page in docs.rglob("*.md")]
    shown_pages = re.findall(r"^ +- (?:.+: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(shown_pages) == sorted(pages)


def test_every_public_name_is_in_the_reference():
    documented = re.findall(r"^::: (\S+)$", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE)
    assert len(set(documented)) == len(documented)
    assert {f"horizonfree.{home}.{name}" for name, home in hf._MODULE_OF.items()} <= set(documented)
    for path in documented:  # also results of methods, such as the trade-off of `run.pareto`
        module, name = path.rsplit(".", 1)
        assert hasattr(importlib.import_module(module), name), path


def test_pages_of_algorithms_are_those_of_the_template():
    spec = importlib.util.spec_from_file_location("algorithms", ROOT / "docs" / "algorithms.py")
    algorithms = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(algorithms)
    explorers = {name for page in algorithms.PAGES.values() for name in page["explorers"]}
    assert explorers == set(EXPLORERS), "docs/algorithms.toml lacks or invents explorers"
    for slug in algorithms.PAGES:
        text = (ROOT / "docs" / f"{slug}.md").read_text()
        assert text == algorithms.page(slug, text), f"{slug}: run python docs/algorithms.py"
        image = ROOT / "docs" / "images" / f"measured-{slug}.svg"
        assert algorithms.figure(slug) == (image.read_text() if image.exists() else None), slug


def test_every_function_of_the_paper_map_exists():
    text = (ROOT / "docs" / "paper-map.md").read_text()
    names = re.findall(r"`((?:[a-z_]+\.)+[A-Za-z_]+)(?:\([^`]*\))?`", text)
    assert len(names) > 20
    for name in names:
        if name.endswith(".py"):
            continue
        parts = name.split(".")
        for depth in range(len(parts) - 1, 0, -1):
            try:
                module = importlib.import_module("horizonfree." + ".".join(parts[:depth]))
                break
            except ModuleNotFoundError:
                continue
        else:
            pytest.fail(f"{name} names no module")
        for part in parts[depth:]:
            module = getattr(module, part)


def test_every_test_file_of_the_paper_map_exists():
    text = (ROOT / "docs" / "paper-map.md").read_text()
    for name in re.findall(r"`((?:[a-z]+/)*test_[a-z_]+\.py)`", text):
        assert (ROOT / "tests" / name).exists(), name
