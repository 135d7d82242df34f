"""Sphinx builds the documentation from this: ``tox -e docs``, or ``sphinx-build -W -n docs docs/_build/html``.

What can be made from the package is made from it while Sphinx starts (``_ext/distcheck_docs.py``): the pages of the
rules, the index of error messages, the pages of the commands and of the facts. Only the rest stands here as Markdown.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE / "_ext")]

import distcheck  # noqa: E402 - the checkout's own package, not an installed one
from distcheck.core.model import page_url  # noqa: E402 - as above

project = "distcheck"
author = "The authors of distcheck"
project_copyright = author
version = release = distcheck.__version__

extensions = [
    # Markdown, as the pages of the rules and the README are written in it
    "myst_parser",
    # the API reference from docstrings
    "sphinx.ext.autodoc",
    "distcheck_docs",
]
exclude_patterns = ["_build", "_ext"]
nitpicky = True
highlight_language = "text"
# options, messages and commands are pasted: what stands here as -- must stay so
smartquotes = False

myst_enable_extensions = ["attrs_block", "deflist"]
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = "distcheck"
# findings carry the address of their rule's page, which is defined here only
html_baseurl = page_url("").partition("rules/")[0]
html_static_path = ["_static"]
html_css_files = ["distcheck.css"]
html_show_sourcelink = False
html_use_index = False
html_copy_source = False
