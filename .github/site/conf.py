"""Sphinx's configuration; ``build.py`` makes the sources and calls it."""

import re
from typing import Any

from sphinx.application import Sphinx

from purgatory_async.service.contract.version import VERSION

project = "purgatory-async"
version = release = VERSION
author = "The purgatory_async authors"
project_copyright = author
language = "en"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["files"]
nitpicky = False
default_role = "py:obj"
add_module_names = False
toc_object_entries_show_parents = "hide"

myst_heading_anchors = 4
myst_links_external_new_tab = False
suppress_warnings = ["misc.highlighting_failure"]

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
napoleon_numpy_docstring = False
napoleon_use_ivar = True  # attributes are described where they are, too

html_theme = "furo"
html_title = project
html_static_path = ["static"]
html_css_files = ["site.css"]
html_logo = html_favicon = "static/wheel.svg"
html_extra_path = ["../../LICENSE"]
html_domain_indices = False
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
# Both with a contrast of at least 4.5 for every token.
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
html_theme_options = {
    "top_of_page_buttons": [],
    "light_css_variables": {
        "color-brand-primary": "#8f3606",
        "color-brand-content": "#0a5a9c",
        "color-brand-visited": "#6b3fa0",
        "color-code-background": "#f6f7f9",
        "color-sidebar-link-text--top-level": "#333",
        "color-highlight-on-target": "#fff3cf",
    },
    "dark_css_variables": {
        "color-brand-primary": "#ffb08a",
        "color-brand-content": "#7cc0ff",
        "color-brand-visited": "#c9a8ff",
        "color-code-background": "#1e2124",
        "color-sidebar-link-text--top-level": "#cfd0d0",
        "color-highlight-on-target": "#3a3200",
    },
}

_COLUMNS = re.compile(r" *(\S(?:.*?\S)?) {2,}(\S.*)")


def _describe(_: Sphinx, what: str, __: str, thing: Any, ___: object, lines: list[str]) -> None:
    """Make lists of the names that a module's docstring has in columns; say what an exception can be caught as."""
    if what == "module":
        made: list[str] = []
        for paragraph in "\n".join(lines).split("\n\n"):
            made.append(paragraph if made and made[-1].endswith("::") else _as_list(paragraph))
        lines[:] = "\n\n".join(made).splitlines()
    elif what == "exception":
        bases = " and ".join(f"`{base.__name__}`" for base in thing.__bases__)
        lines += ["", f"It is also a {bases}.", ""]


def _as_list(paragraph: str) -> str:
    """Return names in columns as a list of definitions; a paragraph of another form as it is."""
    if paragraph.startswith("|"):  # a table of a package's files, for its developers
        return ""
    rows = [(line, _COLUMNS.match(line)) for line in paragraph.splitlines()]
    enough = 1 if paragraph.startswith("    ") else 2
    if (
        paragraph.lstrip().startswith(">>>")
        or not rows[0][1]
        or sum(bool(found) for _, found in rows) < enough
    ):
        return paragraph
    made: list[str] = []
    for line, found in rows:
        if found:
            made.append(f"{_name(found[1])}\n    {found[2]}")
        elif len(line) - len(line.lstrip()) > len(paragraph) - len(paragraph.lstrip()):
            made[-1] += f" {line.strip()}"
        else:
            made[-1] += f"; {_name(line.strip())}"
    return "\n".join(made)


def _name(text: str) -> str:
    return f"`{text}`" if text.isidentifier() else f"``{text}``"


def setup(app: Sphinx) -> None:
    """Register what is done to each docstring."""
    app.connect("autodoc-process-docstring", _describe, priority=1)  # before Napoleon
