"""The built site: every page exists, no request goes to another host, and no formula is lost."""

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import horizonfree as hf

ROOT = Path(__file__).parent.parent
ASCII = {
    "∑": "sum",
    "⟨": "<",
    "⟩": ">",
    "∗": "*",
    "·": "*",
    "\u0302": "hat",
    "\u0304": "bar",
    "\u0303": "tilde",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built from a copy of its sources."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    builder = shutil.which("zensical", path=path)
    if builder is None:
        pytest.skip("zensical is not installed; the extra docs has it")
    folder = tmp_path_factory.mktemp("site")
    for name in ("docs", "src"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "mkdocs.yml", folder)
    build = subprocess.run(
        [builder, "build", "--strict"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": "docs"},
        capture_output=True,
        text=True,
    )
    assert build.returncode == 0, build.stdout + build.stderr
    return folder / "site"


class Words(HTMLParser):
    """Text outside code, the LaTeX of formulas, and everything that a browser would load."""

    def __init__(self, page):
        super().__init__()
        self.depth, self.text, self.latex, self.loads, self.ids = 0, [], [], [], set()
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.depth += tag in ("code", "pre", "math", "script", "style")
        self.latex += [attributes["data-latex"]] if "data-latex" in attributes else []
        self.ids |= {attributes["id"]} if "id" in attributes else set()
        if tag in ("script", "img", "iframe") or (tag == "link" and attributes.get("rel") != "canonical"):
            self.loads.append(attributes.get("src") or attributes.get("href") or "")

    def handle_endtag(self, tag):
        self.depth -= tag in ("code", "pre", "math", "script", "style")

    def handle_data(self, data):
        if not self.depth:
            self.text.append(data)


def without_names(text, names):
    """A formula without its marks: what ASCII and typeset text have in common."""
    for sign, word in names.items():
        text = text.replace(sign, word)
    return re.sub(r"[_^{}()\s\\]|tilde|~", "", text.replace("star", "*"))


def formulas(source):
    """Pieces of running text that emphasis, links or HTML could swallow, and the LaTeX of a page."""
    fence = re.compile(r"^```math\n(.*?)\n```$|^ *\$\$(.*?)\$\$$", re.DOTALL | re.MULTILINE)
    latex = [(display or inline).strip() for display, inline in fence.findall(source)]
    text = re.sub(
        r"^( *)```.*?^\1```$",
        "",
        fence.sub("", re.sub(r"<!--.*?-->", "", source)),
        flags=re.DOTALL | re.MULTILINE,
    )
    text = re.sub(r"^(?: {4}|#|:::|</?div).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", " ", text, flags=re.DOTALL)
    latex += re.findall(r"\$(?=\S)([^$\n]+?)(?<=\S)\$", text)
    text = re.sub(r"\$[^$\n]+\$", "x", text)
    text = re.sub(r"(?<!\\)\]\([^)]*\)|!?\[", " ", text)
    text = re.sub(r"\*\*(.+?)\*\*", r"\1", text, flags=re.DOTALL)
    text = re.sub(r"(?<!\w)\*(?=\w)([^*]*[\w.:?)])\*(?!\w)", r"\1", text)
    return latex, [word for word in re.findall(r"\S*[_^<>|*]\S*", text) if set(word) - set("|-:*<>")]


def test_no_formula_is_lost(site):
    """Every formula of every page is on the built page, letter by letter, and all LaTeX became MathML."""
    table = (ROOT / "docs" / "typeset.py").read_text()
    greek = re.findall(r'\b([A-Za-z]+)="(\w)"', table)
    signs = re.findall(r'"([<>!|sqrt(+=-]+)": "(.{1,2})"', table)
    assert len(greek) == 28
    assert len(signs) == 6
    names = {sign: word for word, sign in [*greek, *signs]} | ASCII
    num_formulas = 0
    for source in sorted((ROOT / "docs").rglob("*.md")):
        built_page = site / source.relative_to(ROOT / "docs").with_suffix(".html")
        page = Words(built_page.read_text())
        latex, page_text = formulas(source.read_text())
        assert sorted(page.latex) == sorted(latex), source.name
        text = without_names("".join(page.text), names)
        assert not [word for word in page_text if without_names(word, names) not in text], source.name
        num_formulas += len(latex) + len(page_text)
    assert num_formulas > 1500


def test_pages_load_nothing_from_elsewhere(site):
    for page in site.rglob("*.html"):
        foreign = [target for target in Words(page.read_text()).loads if "//" in target]
        assert not foreign, page.name


def test_links_to_parts_of_pages_lead_somewhere(site):
    ids = {page.relative_to(site).as_posix(): Words(page.read_text()).ids for page in site.rglob("*.html")}
    for source in (ROOT / "docs").rglob("*.md"):
        for target, part in re.findall(r"\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)", source.read_text()):
            target_page = (source.parent / target if target else source).resolve().relative_to(ROOT / "docs")
            assert part in ids[target_page.with_suffix(".html").as_posix()], (
                f"{source.name} links to {target}#{part}"
            )


def test_the_reference_has_every_public_name(site):
    ids = Words((site / "api.html").read_text()).ids
    homes = {f"horizonfree.{home}.{name}" for name, home in hf._MODULE_OF.items()}
    assert homes <= ids
    assert "search.json" in {file.name for file in site.iterdir()}
