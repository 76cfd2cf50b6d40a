"""The documentation builds as a site without a warning, links lead somewhere, what is generated is up to date."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from corecode.config import Profile
from pipelines.profiles import field_names, reference

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_YAML = re.compile(r"^```yaml\n(.*?)^```", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as both GitHub and the site make them."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    words = (re.sub(r"[^\w\s-]", "", heading.lower()).strip() for heading in _HEADING.findall(text))
    return {re.sub(r"\s", "-", word) for word in words}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in _LINK.findall(_FENCE.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_fields_of_a_profile_are_read(page: Path) -> None:
    """Those that a page shows by themselves are laid over a shipped profile."""
    shipped = yaml.safe_load((ROOT / "pipelines/profiles/smollm2.yaml").read_text(encoding="utf-8"))
    for block in _YAML.findall(page.read_text(encoding="utf-8")):
        shown = yaml.safe_load(block)
        Profile.model_validate({"name": "shown"} | (shown if "model" in shown else shipped | shown))


def test_the_reference_of_profiles_is_up_to_date() -> None:
    assert reference.PAGE.read_text(encoding="utf-8") == reference.page(), "run: make docs"


def test_every_field_is_explained() -> None:
    text = reference.page()
    for name in field_names():
        assert f"| `{name}` |" in text
    assert not re.findall(r"^\| `\w+\.[\w.]+` \| (?!section).*\|  \|$", text, re.MULTILINE)


def test_the_site_builds_without_a_warning_and_needs_no_network(tmp_path: Path) -> None:
    done = subprocess.run(
        # Not quiet: then it would not count the warnings that it is strict about.
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    built = {path.name for path in (tmp_path / "site").glob("*.html")}
    assert {f"{page.stem}.html" for page in PAGES[1:]} <= built
    for page in sorted((tmp_path / "site").glob("*.html")):
        html = page.read_text(encoding="utf-8")
        assert not re.findall(r"<(?:script|img|iframe)[^>]+src=.?https?:", html), page.name
        assert not re.findall(r"<link[^>]+rel=.?(?:stylesheet|preconnect)[^>]+https?:", html), page.name
    method = (tmp_path / "site" / "method.html").read_text(encoding="utf-8")
    assert method.count("<math") > 20
    assert 'class="arithmatex"' not in method
