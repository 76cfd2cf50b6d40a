"""What the documentation's site needs beyond MkDocs: its navigation, links out of the folder, markers and formulas.

The pages are written for a repository's file browser too, where links may leave ``docs/``, the word after a fence's
language (``bash gpu``) is ignored, and formulas stand between dollars.
"""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

_OUTSIDE = re.compile(r"(?<!!)\[([^\]]+)\]\(\.\./[^)]*\)")
_MARKED_FENCE = re.compile(r"^```(\w+) [\w ]+$", re.MULTILINE)
_FORMULA = re.compile(r'<(span|div) class="arithmatex">\s*\\[(\[](.*?)\\[)\]]\s*</\1>', re.DOTALL)


def on_config(config: Any) -> Any:
    """The navigation holds every page once: pages that it does not name come last."""
    pages = {path.name for path in Path(config.docs_dir).glob("*.md")}
    named = {name for section in config.nav for names in section.values() for name in names}
    if unnamed := sorted(pages - named):
        config.nav.append({"More": unnamed})
    return config


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Files of the repository are no pages: a link to one becomes its text. Markers are for the tests."""
    return _MARKED_FENCE.sub(r"```\1", _OUTSIDE.sub(r"\1", markdown))


def on_page_content(content: str, **_: Any) -> str:
    """Formulas become MathML, which browsers draw by themselves."""
    from latex2mathml.converter import convert

    def formula(match: re.Match[str]) -> str:
        return convert(html.unescape(match[2]), display="block" if match[1] == "div" else "inline")

    return _FORMULA.sub(formula, content)
