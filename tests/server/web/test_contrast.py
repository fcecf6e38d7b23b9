"""Contrast of the stylesheet's colours in both themes, by the formula of WCAG 2.2, and links that stand in text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import jobsight_server.web

CSS = (Path(jobsight_server.web.__file__).parent / "static" / "jobsight.css").read_text()
AA = 4.5

SHADES = ("q0", "q1", "q2", "q3", "q4")
PLAIN = ("ground", "surface", "raised")
# What stands on what: every pair that a rule of the stylesheet makes.
PAIRS = [
    *((text, ground) for text in ("ink", "ink-soft", "accent", "warn", "bad") for ground in PLAIN),
    *(("ink", shade) for shade in SHADES),
    *((text, "accent-soft") for text in ("ink", "ink-soft", "accent")),
    *((kind, f"{kind}-soft") for kind in ("good", "warn", "bad")),
    ("surface", "accent"),
]


def colours(theme: str) -> dict[str, str]:
    """Custom properties of one theme."""
    light, dark = re.findall(r":root \{(.*?)\}", CSS, re.DOTALL)
    found = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{3,6})", light))
    return found if theme == "light" else found | dict(re.findall(r"--([\w-]+): (#[0-9a-f]{3,6})", dark))


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(digit * 2 for digit in colour[1:])
    channels = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_text_can_be_read_on_what_it_stands_on(theme: str) -> None:
    known = colours(theme)
    weak = {pair: round(contrast(known[pair[0]], known[pair[1]]), 2) for pair in PAIRS}
    assert {pair: value for pair, value in weak.items() if value < AA} == {}
