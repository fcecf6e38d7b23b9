"""Makes docs/develop/measurements.md: what each program compares, and where its latest figures are.

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
    rows = []
    for file in sorted(HERE.glob("*.py")):
        if "__main__" not in file.read_text() or file.stem == "__main__":
            continue
        figures = HERE / "results" / f"{file.stem}.md"
        link = f"[figures](../../benchmarks/results/{figures.name})" if figures.exists() else ""
        rows.append(f"| `benchmarks/{file.name}` | {question(file)} | {link} |\n")
    return (HERE / "page.md.in").read_text() + "".join(rows)


if __name__ == "__main__":
    PAGE.write_text(page())
