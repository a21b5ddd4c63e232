"""Mathematics on the built pages, without a network and without a script: an extension of Python-Markdown.

Two things are typeset. LaTeX, in a fence of the language `math` or between dollars, becomes MathML, which browsers
draw themselves.
Formulas in running text are plain ASCII in the sources, so that they can be read in a terminal, and are set with the
Greek letters, subscripts and signs that they stand for: theta_hat, x_r^2, <x_r, theta>, <= . Code is left alone.
"""

import re
from html import escape
from xml.etree.ElementTree import Element

from latex2mathml.converter import convert
from markdown import Extension, Markdown
from markdown.postprocessors import Postprocessor
from markdown.preprocessors import Preprocessor
from markdown.treeprocessors import Treeprocessor

GREEK = {
    **dict(
        alpha="α", beta="β", gamma="γ", delta="δ", eps="ε", zeta="ζ", eta="η", theta="θ", kappa="κ", lam="λ"
    ),
    **dict(mu="μ", nu="ν", xi="ξ", pi="π", rho="ρ", sigma="σ", tau="τ", phi="φ", chi="χ", psi="ψ", omega="ω"),
    **dict(Gamma="Γ", Delta="Δ", Theta="Θ", Sigma="Σ", Phi="Φ", Psi="Ψ", Omega="Ω"),
}
SIGNS = {"<=": "≤", ">=": "≥", "!=": "≠", "||": "‖", "sqrt(": "√(", "-+": "∓"}
HATS = {"hat": "\u0302", "tilde": "\u0303", "bar": "\u0304"}
NAMES = "(?:" + "|".join(sorted(GREEK, key=len, reverse=True)) + ")"
LOW = "\ue000"  # an underscore of a formula, which emphasis must not see

FENCE = re.compile(r"^```math\n(.*?)\n```$|^ *\$\$(.*?)\$\$$", re.DOTALL | re.MULTILINE)
CODE = re.compile(
    r"(`+)(?!`).*?(?<!`)\1(?!`)|\$(?=\S)(?P<latex>[^$\n]+?)(?<=\S)\$|\]\([^)]*\)|^(?:#|:::)[^\n]*",
    re.DOTALL | re.MULTILINE,
)
STAR = re.compile(rf"(?<![A-Za-z*\\])([A-Za-zθ]|P~?V|P~Q|{NAMES})\*(?!\*)([A-Za-z]?)")
PRODUCT = re.compile(r"<(?=\w)([^<>`\n]*,[^<>`\n]*)>(?!=)")

WORD = re.compile(rf"(?<![A-Za-z])({NAMES})(?![A-Za-z])")
SUM = re.compile(
    rf"(?<!row )(?<!the )(?<!their )\bsum(?={LOW}| (?:[b-zB-HJ-Z]\b|\w+{LOW}|\|\||\(|{NAMES}(?![a-zA-Z])))"
)
BRACES = r"\{(?:[^{}]|\{[^{}]*\})*\}"
SCRIPT = re.compile(
    rf"(?<=[\w)\]|‖∑'∗\u0302-\u0307])([{LOW}^])({BRACES}|\([^()\s]*\)|[+∗]|-?\d+\.\d+|-?\w+(?:,r(?!\w))?)"
)


def mathml(latex: str, display: str = "block") -> str:
    """LaTeX as MathML; the source stays in `data-latex`, for readers and for tests."""
    tag, aligned = "div" if display == "block" else "span", latex.replace("{aligned}", "{align*}")
    return f'<{tag} class="formula" data-latex="{escape(latex)}">{convert(aligned, display=display)}</{tag}>'


class Displays(Preprocessor):
    """LaTeX becomes MathML; inner products and stars are told from HTML and emphasis before these can swallow them."""

    def run(self, lines: list[str]) -> list[str]:
        """Formulas are stashed as they are, so that nothing further touches them."""
        text = FENCE.sub(lambda found: self.stash(found[1] or found[2], "block"), "\n".join(lines))
        pieces, end = [], 0
        for code in CODE.finditer(text):
            pieces += [
                self.prose(text[end : code.start()]),
                self.stash(code["latex"], "inline") if code["latex"] else code[0],
            ]
            end = code.end()
        return "".join([*pieces, self.prose(text[end:])]).split("\n")

    def stash(self, latex: str, display: str) -> str:
        """A mark that the formula replaces in the end."""
        return self.md.htmlStash.store(mathml(latex.strip(), display))

    def prose(self, text: str) -> str:
        """Text between pieces of code."""
        text = STAR.sub(lambda star: star[1] + (f"·{star[2]}" if star[2] else "^∗"), text)
        return re.sub(r"(?<=[^\s_\[(])_(?=[\w{])", LOW, PRODUCT.sub(r"⟨\1⟩", text))


class Scripts(Treeprocessor):
    """Greek letters, signs, subscripts and superscripts in all text that is not code."""

    def run(self, root: Element) -> None:
        """The whole page."""
        self.inside(root)

    def inside(self, element: Element) -> None:
        """Text of this element and what follows each of its children."""
        if element.tag in ("code", "pre", "script", "style") or not isinstance(element.tag, str):
            return
        children = list(element)
        for child in children:
            self.inside(child)
        for child in reversed(children):
            child.tail, added = marked(child.tail or "")
            place = list(element).index(child) + 1
            element[place:place] = added
        element.text, added = marked(element.text or "")
        element[0:0] = added


def marked(text: str) -> tuple[str, list[Element]]:
    """The text up to its first script, and the scripts, each followed by the text after it."""
    if not text.strip():
        return text, []
    text = signs(text)
    found = list(SCRIPT.finditer(text))
    added = []
    for script, following in zip(found, [*[f.start() for f in found[1:]], len(text)]):
        element = Element("sub" if script[1] == LOW else "sup")
        inner = script[2]
        element.text, nested = marked(inner[1:-1] if inner[0] in "{(" else inner)
        element.extend(nested)
        element.tail = text[script.end() : following]
        added.append(element)
    return (text[: found[0].start()] if found else text), added


def signs(text: str) -> str:
    """What stands for one sign becomes that sign."""
    text = SUM.sub("∑", text)
    for ascii_sign, sign in SIGNS.items():
        text = text.replace(ascii_sign, sign)
    text = WORD.sub(lambda word: GREEK[word[1]], text)
    text = re.sub(rf"(\w){LOW}(hat|tilde|bar)(?![a-z])", lambda hat: hat[1] + HATS[hat[2]], text)
    text = re.sub(r"\b([A-Za-z])~", "\\1\u0303", text)
    return re.sub(rf"{LOW}star(?![a-z])", "^∗", text)


class Rest(Postprocessor):
    """Underscores that were no subscripts after all."""

    def run(self, text: str) -> str:
        """The page as it is written."""
        return text.replace(LOW, "_")


class Typeset(Extension):
    """Both, in the places of the pipeline where code has been told from text."""

    def extendMarkdown(self, md: Markdown) -> None:
        """After whitespace is in order, before other fences and HTML are read; after headings got their anchors."""
        md.preprocessors.register(Displays(md), "formulas", 27)
        md.treeprocessors.register(Scripts(md), "scripts", 3)
        md.postprocessors.register(Rest(md), "rest", 1)


def makeExtension(**options: object) -> Typeset:
    """What Python-Markdown asks a module for."""
    return Typeset(**options)
