"""Makes docs/develop/measurements.md: what each program compares, and its latest figures.

    python benchmarks/page.py

The question is the first line of a program's docstring, the figures are ``benchmarks/results/NAME.md``.
`python docs/check.py` fails while the page differs.
"""

from __future__ import annotations

import ast
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs/develop/measurements.md"


def question(program: Path) -> str:
    """Return the first line of the program's docstring."""
    text = ast.get_docstring(ast.parse(program.read_text())) or ""
    return text.splitlines()[0]


def page() -> str:
    """Return the page."""
    programs = [
        file for file in sorted(HERE.glob("*.py")) if "__main__" in file.read_text() and file.stem != "__main__"
    ]
    rows = "".join(f"| `benchmarks/{file.name}` | {question(file)} |\n" for file in programs)
    results = []
    for file in sorted((HERE / "results").glob("*.md")):
        title, _, figures = file.read_text().partition("\n")
        results.append(f"\n## {title.removeprefix('# ')}: `python benchmarks/{file.stem}.py`\n{figures}")
    return (HERE / "page.md.in").read_text() + rows + "".join(results)


if __name__ == "__main__":
    PAGE.write_text(page())
