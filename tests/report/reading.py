"""A page as a browser and a person see it."""

import re
from html.parser import HTMLParser


class Page(HTMLParser):
    """What a browser would ask for, every id, and the visible text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.tags: list[str] = []
        self.text = ""
        self._is_hidden = False
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._is_hidden = tag in ("style", "title")
        for name, value in attributes:
            if name in ("src", "href", "xlink:href", "srcset", "data", "action"):
                self.links.append(value or "")
            if name == "id":
                self.ids.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        self._is_hidden = False

    def handle_data(self, data: str) -> None:
        if not self._is_hidden:
            self.text += " ".join(data.split()) + " "


def stands_alone(text: str) -> Page:
    """The page loads no other file and runs no script, ids are unique, every colour follows the theme."""
    page = Page(text)
    assert all(link.startswith(("#", "data:")) for link in page.links)
    assert all(link.startswith("#") for link in re.findall(r"url\(['\"]?([^)]*)", text))
    assert "@import" not in text
    assert set(re.findall(r"https?://[^\"' )]+", text)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert "script" not in page.tags
    assert len(page.ids) == len(set(page.ids))
    for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        assert not re.findall(r":\s*#[0-9a-f]{6}\b", svg)
    return page
