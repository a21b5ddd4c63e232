"""Pages of single algorithms from one template: guarantee, paper, options, departures, a measured figure.

    python docs/algorithms.py

The part above MARK is written from the header of the explorer's file, its options, and algorithms.toml; what
follows MARK is written by hand. Figures are drawn from the rows of experiments/.
"""

import ast
import json
import math
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

from horizonfree.explorers.registry import EXPLORERS, current_name, label

HERE = Path(__file__).parent
ROOT = HERE.parent
MARK = "<!-- Everything above is written by docs/algorithms.py. -->\n"

# model class: how it is called, what its certificates assume, where they are proved
DATA = tomllib.loads((HERE / "algorithms.toml").read_text())
CLASSES, FIGURES, PAGES = DATA["classes"], DATA["figures"], DATA["pages"]
FIELDS = "Paper|Algorithm|Symbols|Guarantee|Departures"


def header(file: Path) -> dict[str, str]:
    """The fields of the header of an explorer's file."""
    text = ast.get_docstring(ast.parse(file.read_text())) or ""
    found = re.findall(rf"^({FIELDS}):(.*?)(?=^(?:{FIELDS}):|\Z)", text, re.DOTALL | re.MULTILINE)
    return {name: body.strip() for name, body in found}


def flowing(text: str) -> str:
    """A paragraph on one line."""
    return re.sub(r"\s+", " ", text).strip().rstrip(".")


def departures(text: str) -> str:
    """The numbered list of a header; formulas stand between backticks if they are displayed."""
    first, *items = re.split(r"^\s*\d+\. ", text, flags=re.MULTILINE)
    lead = [] if flowing(first) in ("", "none", "besides the above,") else [flowing(first) + "."]
    if not items:
        return "\n".join(["None." if x == "none." else x for x in lead]) or "None."
    return "\n".join(
        [*lead, *([""] if lead else []), *(f"{i}. {flowing(x)}." for i, x in enumerate(items, 1))]
    )


def named(text: str, options: Iterable[str]) -> str:
    """Options as code, which is not typeset; one-letter words and plain English ones are left as they are."""
    for option in sorted((x for x in options if "_" in x), key=len, reverse=True):
        text = re.sub(rf'(?<![\w`]){option}(="[^"]*"|=\w+)?', r"`\g<0>`", text)
    return text


def shown(value: Any) -> str:
    """A default as code."""
    return f"`{value!r}`"


def options(name: str) -> list[str]:
    """Rows of the table of options."""
    entry = EXPLORERS[name]
    return [
        f"| `{option}` | {shown(default) if option != 'reward' else 'required'} | "
        f"{named(entry.meanings[option], entry.options)} |"
        for option, default in entry.options.items()
    ]


def generated(slug: str) -> str:
    """What stands above MARK."""
    page = PAGES[slug]
    entry = EXPLORERS[page["explorers"][0]]
    file = ROOT / "src" / "horizonfree" / "explorers" / f"{entry.path.split(':')[0].split('.')[-1]}.py"
    fields = header(file)
    kind = CLASSES[entry.explorer_type.learns.__name__]
    own = (
        f"The algorithm itself: {page['proved']}."
        if "proved" in page
        else "The algorithm has no guarantee of its own."
    )
    about = [EXPLORERS[name].about for name in page["explorers"]]
    reward = ", reward=reward" if "reward" in entry.options else ""
    lines = [
        f"# {page['title']}" + (" (reconstruction)" if entry.is_reconstruction else ""),
        "",
        *(f"*{x}*" + ("" if len(about) == 1 else "  ") for x in about),
        "",
        '<div class="guarantee" markdown>',
        "",
        "| Guarantee | |",
        "|---|---|",
        f"| **Proved** | Certificates of its data, for every reward, any stopping time: {kind['proofs']}. {own} |",
        f"| **Assumed** | {kind['assumed']}. Episodes start as declared. |",
        f"| **Not proved** | {page['not_proved']}. |",
        "",
        "</div>",
        "",
        f'`hf.explore(problem, "{page["explorers"][0]}"{reward}, episodes=1_000)`, for {kind["name"]}. '
        f"Code: `explorers/{file.name}`. Paper: {flowing(fields['Paper'])}.",
    ]
    rows = list(dict.fromkeys(row for name in page["explorers"] for row in options(name)))
    if rows:
        lines += ["", "## Options", "", "| option | default | meaning |", "|---|---|---|", *rows]
    if slug != "baselines" and not flowing(fields["Departures"]).startswith("none"):
        lines += [
            "",
            "## Departures from the paper",
            "",
            named(departures(fields["Departures"]), entry.options),
        ]
    if figure(slug) is not None:
        lines += [
            "",
            "## Measured",
            "",
            f"![{FIGURES[group(slug)]['title']}](images/measured-{slug}.svg)",
            "",
        ]
        lines += [f"*{FIGURES[group(slug)]['caption']}*"]
    return "\n".join(lines) + "\n\n"


# The figures.

LABELS = {"RF-UCRL": "rf-ucrl", "RF-Express": "rf-express"}
Curves = dict[str, dict[int, float]]


def _rows(experiment: str) -> list[dict[str, Any]]:
    text = (ROOT / "experiments" / experiment / "results" / "rows.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def _medians(points: Iterable[tuple[str, int, float]]) -> Curves:
    found: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for name, episodes, y in points:
        found[name][episodes].append(y)
    return {name: {k: median(ys) for k, ys in sorted(curve.items())} for name, curve in found.items()}


def curves(kind: str) -> Curves:
    """The curves of one model class, from the rows of its experiment."""
    if kind == "mixture":
        return _medians(
            (current_name(x["explorer"]), k, eps)
            for x in _rows("compare_mixture")
            for k, eps in zip(x["rows"]["episodes"], x["rows"]["eps"], strict=True)
        )
    if kind == "tabular":
        return _medians(
            (LABELS.get(x["explorer"], x["explorer"]), x["episodes"], x["eps"])
            for x in _rows("tabular_certificates")
            if x["label"].startswith("double chain")
            and x["support"] == "any"
            and "pooled" not in x["explorer"]
        )
    return _medians(
        (re.split(r" \(|, ", x["explorer"])[0], x["episodes"], x["goals"])
        for x in _rows("linear_mdp")
        if (x["part"], x["problem"], x.get("steps"), x.get("plans"))
        == ("gaps", "lock", "pooled", "likelihood")
        and "literal" not in x["explorer"]
    )


def group(slug: str) -> str:
    """Whose figure a page has."""
    kind = EXPLORERS[PAGES[slug]["explorers"][0]].explorer_type.learns.__name__
    return {"TabularModel": "tabular", "LinearModel": "linear"}.get(kind, "mixture")


def figure(slug: str) -> str | None:
    """The measured figure of a page as SVG; None without data."""
    names, found = PAGES[slug]["explorers"], curves(group(slug))
    own = [name for name in names if name in found]
    if not own:
        return None
    episodes = sorted({k for curve in found.values() for k in curve})
    values = [y for curve in found.values() for y in curve.values()]
    low, high = min(values) / 1.15, max(values) * 1.1

    def x(k: float) -> float:
        return 60 + 380 * math.log(k / episodes[0]) / math.log(episodes[-1] / episodes[0])

    def y(v: float) -> float:
        return 190 - 170 * math.log(v / low) / math.log(high / low)

    lines = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 230" font-family="sans-serif" font-size="12">',
        f"<title>{FIGURES[group(slug)]['title']}</title>",
        '<rect width="640" height="230" fill="#fff"/>',
    ]
    ticks = [t for e in range(-5, 1) for t in (10**e, 2 * 10**e, 5 * 10**e) if low <= t <= high]
    for t in ticks:
        lines.append(f'<path d="M60 {y(t):.1f}H440" stroke="#ddd"/>')
        lines.append(f'<text x="52" y="{y(t) + 4:.1f}" text-anchor="end" fill="#333">{t:g}</text>')
    shown_ticks = episodes if len(episodes) < 5 else [k for k in episodes if k in (25, 50, 100, 200, 300)]
    for k in shown_ticks:
        lines.append(f'<text x="{x(k):.1f}" y="208" text-anchor="middle" fill="#333">{k:,}</text>')
    lines.append('<text x="250" y="225" text-anchor="middle" fill="#333">episodes</text>')
    colours = dict(zip(own, ("#1f6feb", "#d1570a"), strict=False))
    for name in sorted(found, key=lambda n: n in own):
        points = " ".join(f"{x(k):.1f},{y(v):.1f}" for k, v in found[name].items())
        dash = ' stroke-dasharray="5 4"' if name == "uniform" else ""
        width = 2.5 if name in own else 1.2
        lines.append(
            f'<polyline points="{points}" fill="none" stroke="{colours.get(name, "#b5bcc4")}" '
            f'stroke-width="{width}"{dash}/>'
        )
    last: list[float] = []
    for name in own:
        at = y(list(found[name].values())[-1]) + 4
        at = max([at, *(z + 14 for z in last)])
        last.append(at)
        lines.append(
            f'<text x="448" y="{at:.1f}" fill="{colours[name]}" font-weight="bold">{label(name)}</text>'
        )
    return "\n".join([*lines, "</svg>"]) + "\n"


def page(slug: str, old: str) -> str:
    """A page with its generated part made anew."""
    return generated(slug) + MARK + old.partition(MARK)[2]


if __name__ == "__main__":
    for slug in PAGES:
        path = HERE / f"{slug}.md"
        path.write_text(page(slug, path.read_text()))
        drawn = figure(slug)
        if drawn is not None:
            (HERE / "images" / f"measured-{slug}.svg").write_text(drawn)
