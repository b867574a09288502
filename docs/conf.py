"""Configuration of the documentation site: Sphinx, MyST-NB (pages that are executed) and sphinx-gallery (examples).

With ALEATOR_DOCS=text nothing is executed, for a quick look at the text.
"""

import os
import sys
import tomllib
import warnings
from pathlib import Path

DOCS = Path(__file__).parent
ROOT = DOCS.parent
sys.path.insert(0, str(DOCS))

from sphinx.application import Sphinx  # noqa: E402

import aleator  # noqa: E402
import generate  # noqa: E402
import reference_check  # noqa: E402

os.environ.setdefault("OMP_NUM_THREADS", "1")  # also of the kernels that execute pages
os.environ["PYTHONWARNINGS"] = "ignore::DeprecationWarning"
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # pages call `aleator`
mathjax_path = "mathjax/tex-chtml.js"  # of sphinx-mathjax-offline; nothing is loaded from elsewhere
warnings.filterwarnings("ignore", category=UserWarning, message="FigureCanvasAgg is non-interactive")

REPOSITORY = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Source"]

project = "aleator"
author = "the aleator developers"
copyright = "the aleator developers"
version = release = aleator.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.extlinks",
    "sphinx.ext.linkcode",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",
    "numpydoc",
    "myst_nb",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "generated", "gallery/*.ipynb", "**.ipynb_checkpoints"]
suppress_warnings = ["config.cache", "mystnb.unknown_mime_type"]
nitpicky = False

# ---------------------------------------------------------------- pages

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath", "attrs_inline"]
myst_heading_anchors = 3
nb_execution_mode = "off" if os.environ.get("ALEATOR_DOCS") == "text" else "cache"
nb_execution_cache_path = str(DOCS / "_build" / f"executed-{generate.source_hash()}")
nb_execution_in_temp = True  # some pages write files
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True
nb_ipywidgets_js = {}  # nothing is loaded from elsewhere

extlinks = {"source": (f"{REPOSITORY}/blob/main/%s", "%s")}

# ---------------------------------------------------------------- reference

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "groupwise"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
numpydoc_xref_param_type = False


def linkcode_resolve(domain: str, info: dict[str, str]) -> str | None:
    """The lines of an object in the repository."""
    found = generate.source_of(info["module"], info["fullname"]) if domain == "py" else None
    return f"{REPOSITORY}/blob/main/{found[0]}#L{found[1]}" if found else None


# ---------------------------------------------------------------- gallery

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": "^((?!XX).)*$" if os.environ.get("ALEATOR_DOCS") == "text" else r"/\d\d_",
    "ignore_pattern": "torch_distributed",
    "within_subsection_order": "FileNameSortKey",
    "plot_gallery": os.environ.get("ALEATOR_DOCS") != "text",
    "abort_on_example_error": True,
    "remove_config_comments": True,
    "show_signature": False,
    "min_reported_time": 1e9,
    "write_computation_times": False,
    "reference_url": {},
    "image_scrapers": ("matplotlib",),
    "capture_repr": ("_repr_html_",),
    "doc_module": ("aleator",),
    "backreferences_dir": "generated/backreferences",
}

# ---------------------------------------------------------------- pages as HTML

html_theme = "pydata_sphinx_theme"
html_title = f"aleator {version}"
templates_path = ["_templates"]
html_static_path = ["_static"]
html_css_files = ["aleator.css"]
html_favicon = "_static/icon.svg"
html_extra_path = ["generated/extra"]
html_show_sourcelink = False
html_copy_source = False
html_context = {
    "github_url": REPOSITORY.rsplit("/", 2)[0],
    "github_user": REPOSITORY.split("/")[-2],
    "github_repo": REPOSITORY.split("/")[-1],
    "github_version": "main",
    "doc_path": "docs",
    "default_mode": "auto",
}
html_theme_options = {
    "logo": {"text": f"aleator {version}", "image_light": "_static/icon.svg", "image_dark": "_static/icon.svg"},
    "github_url": REPOSITORY,
    "use_edit_page_button": True,
    "show_prev_next": True,
    "navigation_with_keys": False,
    "navbar_align": "left",
    "navbar_persistent": [],
    "navbar_end": ["search-button", "theme-switcher", "navbar-icon-links"],
    "header_links_before_dropdown": 9,
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "secondary_sidebar_items": {"**": ["page-toc", "edit-this-page"], "index": []},
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "back_to_top_button": False,
}
html_sidebars = {"index": [], "getting-started": [], "which-estimator": [], "concepts": []}


def skipped(app: Sphinx, what: str, name: str, member: object, skip: bool, options: object) -> bool | None:
    """Members of other libraries, and those that only aleator calls, are not shown."""
    function = reference_check.function_of(member)
    inside = str(getattr(function, "__module__", "")).startswith("aleator")
    return None if inside and name not in reference_check.INTERNAL else True


def without_edit_link(app: Sphinx, name: str, template: str, context: dict[str, object], doctree: object) -> None:
    """Pages that are generated have no file to edit."""
    if name.startswith(("gallery/", "reference/api/")):
        context["page_source_suffix"] = ""


def setup(app: Sphinx) -> None:
    """Write the pages and records that are generated."""
    generate.write(DOCS / "generated")
    app.connect("autodoc-skip-member", skipped)
    app.connect("html-page-context", without_edit_link)
    app.connect("build-finished", generate.keep_outputs)
