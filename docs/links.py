"""A hook of mkdocs: it makes links that lead out of docs/ work on the site as they do in the repository.

The pages of the top folder (README.md and others) become pages of the site. A linked file or folder elsewhere becomes
a page of its own below files/, with the file's text or the folder's modules. So the site needs no address of a
repository, and `mkdocs build --strict` notices a link that leads nowhere.
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
# A file of the top folder, and the page of the site that it is.
TOP = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "LICENSE": "license.md",
}
_LINK = re.compile(r"\]\((?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")
# What stands behind a language in an opening fence is for our tests.
_FENCE = re.compile(r"^(```\w+) .*$", re.MULTILINE)
_LEXERS = {".py": "python", ".toml": "toml", ".ini": "ini", ".json": "json", ".yml": "yaml", ".patch": "diff"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the top folder, and one for each thing that a page links to outside docs/."""
    for name, uri in TOP.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, uri, content=text if name.endswith(".md") else f"# {name}\n\n{text}"))
    linked = {place for file in files.documentation_pages() for place in _elsewhere(file)}
    for place in sorted(linked):
        files.append(File.generated(config, f"files/{place}.md", content=_shown(place)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Return a page's text with its links as the site needs them."""
    here = page.file.src_uri
    if here.startswith("files/"):
        return markdown

    def on_the_site(link: re.Match[str]) -> str:
        place = _place(here, link["target"])
        return f"]({_relative(here, _uri(place))}{link['anchor'] or ''})" if place else link[0]

    return _LINK.sub(on_the_site, _FENCE.sub(r"\1", markdown))


def _elsewhere(file: File) -> Iterator[str]:
    for link in _LINK.finditer(file.content_string):
        place = _place(file.src_uri, link["target"])
        if place and place not in TOP and not place.startswith("docs/"):
            yield place


def _place(uri: str, target: str) -> str:
    """Return what a link of a page leads to, relative to the root of the repository; '' if it is nothing there."""
    source = next((name for name, page in TOP.items() if page == uri), f"docs/{uri}")
    place = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    known = "://" not in target and not place.startswith("..") and (ROOT / place).exists()
    return place if known else ""


def _uri(place: str) -> str:
    """Return the source of the page of the site that shows a file of the repository."""
    if place.startswith("docs/"):
        return place.removeprefix("docs/")
    return TOP.get(place, f"files/{place}.md")


def _relative(here: str, uri: str) -> str:
    return posixpath.relpath(uri, posixpath.dirname(here) or ".")


def _shown(place: str) -> str:
    """Return the page of one file or folder. The search leaves it out."""
    path = ROOT / place
    body = _modules(path) if path.is_dir() else f"```{_LEXERS.get(path.suffix, 'text')}\n{path.read_text('utf-8')}```\n"
    return f"---\nsearch:\n  exclude: true\nhide: [toc]\n---\n\n# {place}\n\n{body}"


def _modules(folder: Path) -> str:
    """Return the first line of each module of a folder."""
    rows = [(path.name, _summary(path)) for path in sorted(folder.glob("*.py"))]
    return "\n".join(
        ["| module | what lives there |", "| --- | --- |", *(f"| `{name}` | {said} |" for name, said in rows)]
    )


def _summary(path: Path) -> str:
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]
