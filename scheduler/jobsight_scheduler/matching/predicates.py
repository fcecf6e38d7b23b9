"""The grammar of predicates, preferences and coefficients, and its parser. Nothing is ever evaluated as Python.

    predicate  = conjunction, { "or", conjunction }
    conjunction = negation, { "and", negation }
    negation   = "not", negation | comparison
    comparison = sum, { ("==" | "!=" | "<" | "<=" | ">" | ">=" | ["not"], "in"), sum }
    sum        = product, { ("+" | "-"), product }
    product    = factor, { ("*" | "/"), factor }
    factor     = "-", factor | number | string | "true" | "false" | name | "[", [ sum, { ",", sum } ], "]"
                 | "(", predicate, ")"
    name       = letter or "_", { letter | digit | "_" | "." } | "`", any characters, "`"

``a < b < c`` means ``a < b and b < c``. A string is in single or double quotes, in which a backslash keeps the next
character as it is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

LONGEST_PREDICATE = 2_000
DEEPEST_NESTING = 40


class PredicateError(ValueError):
    """A text that is no predicate: what is wrong, at which character."""


class Name(NamedTuple):
    """A field of a resource or, as ``job.priority``, of a job."""

    name: str


class Constant(NamedTuple):
    """A number (true is 1, false 0) or a string. ``is_text`` keeps 1 and "1", equal as keys, apart."""

    value: float | str
    is_text: bool


class Listed(NamedTuple):
    """A list in brackets."""

    items: tuple[Node, ...]


class Operation(NamedTuple):
    """``operator`` is and, or, not, in, negate, or a comparison or arithmetic sign."""

    operator: str
    operands: tuple[Node, ...]


Node = Name | Constant | Listed | Operation

COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})
_TOKEN = re.compile(
    r"""\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    |(?P<name>[^\W\d][\w.]*)
    |`(?P<quoted>[^`]+)`
    |'(?P<single>(?:[^'\\]|\\.)*)'
    |"(?P<double>(?:[^"\\]|\\.)*)"
    |(?P<sign>==|!=|<=|>=|[-+*/()<>,\[\]]))""",
    re.VERBOSE | re.DOTALL,
)
_PLAIN = re.compile(r"[^\W\d][\w.]*")
_WORDS = frozenset({"and", "or", "not", "in", "true", "false"})
_INSTEAD = {"=": "==", "&": "and", "|": "or", "!": "not", "^": "* or /", "%": "* or /"}


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


@lru_cache(maxsize=20_000)
def parse(text: str) -> Node:
    """``text`` as a tree.

    Raises:
        PredicateError: it is too long, too deep or not of the grammar.
    """
    if len(text) > LONGEST_PREDICATE:
        raise PredicateError(f"{len(text):,} characters, where {LONGEST_PREDICATE:,} are allowed")
    return _Parser(_tokens(text)).whole()


@lru_cache(maxsize=20_000)
def names_in(node: Node) -> frozenset[str]:
    """Every name that ``node`` reads."""
    match node:
        case Name(name):
            return frozenset({name})
        case Listed(parts) | Operation(_, parts):
            return frozenset().union(*map(names_in, parts))
        case _:
            return frozenset()


def text_of(node: Node) -> str:
    """``node`` as it would be written."""
    match node:
        case Name(name):
            return name if _PLAIN.fullmatch(name) and name not in _WORDS else f"`{name}`"
        case Constant(value, True):
            return repr(value)
        case Constant(value, _):
            return f"{value:.15g}"
        case Listed(items):
            return f"[{', '.join(map(text_of, items))}]"
        case Operation("not" | "negate" as operator, (operand,)):
            return f"{'not ' if operator == 'not' else '-'}{_inner(operand)}"
        case Operation(operator, operands):
            return f" {operator} ".join(map(_inner, operands))


def _inner(node: Node) -> str:
    return f"({text_of(node)})" if isinstance(node, Operation) else text_of(node)


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            raise _unreadable(text, at)
        kind = str(match.lastgroup)
        part = match[kind]
        if kind in ("single", "double"):
            kind, part = "string", re.sub(r"\\(.)", r"\1", part, flags=re.DOTALL)
        elif kind == "quoted":
            kind = "name"
        elif kind == "name" and part in _WORDS:
            kind = "sign"
        found.append(_Token(kind, part, match.end() - len(match[0].lstrip())))
        at = match.end()
    found.append(_Token("end", "", end))
    return found


def _unreadable(text: str, at: int) -> PredicateError:
    while text[at].isspace():
        at += 1
    character = text[at]
    if character in "'\"`":
        return PredicateError(f"character {at + 1}: a quote that is not closed")
    hint = f"; write {_INSTEAD[character]}" if character in _INSTEAD else ""
    return PredicateError(f"character {at + 1}: unexpected {character!r}{hint}")


class _Parser:
    """Recursive descent; the depth of recursion is bounded by ``DEEPEST_NESTING``."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._next = 0
        self._depth = 0

    def whole(self) -> Node:
        node = self._either()
        if self._token.kind != "end":
            raise self._unexpected("and, or, or the end")
        return node

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _take(self, *signs: str) -> str | None:
        token = self._token
        if token.kind != "sign" or token.text not in signs:
            return None
        self._next += 1
        return token.text

    def _expect(self, sign: str) -> None:
        if self._take(sign) is None:
            raise self._unexpected(repr(sign))

    def _unexpected(self, wanted: str) -> PredicateError:
        token = self._token
        found = "the end" if token.kind == "end" else repr(token.text[:40])
        return PredicateError(f"character {token.at + 1}: {found}, where {wanted} is expected")

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > DEEPEST_NESTING:
            raise PredicateError(f"nested more than {DEEPEST_NESTING} deep at character {self._token.at + 1}")

    def _either(self) -> Node:
        parts = [self._both()]
        while self._take("or"):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else Operation("or", tuple(parts))

    def _both(self) -> Node:
        parts = [self._negation()]
        while self._take("and"):
            parts.append(self._negation())
        return parts[0] if len(parts) == 1 else Operation("and", tuple(parts))

    def _negation(self) -> Node:
        if not self._take("not"):
            return self._comparison()
        self._deeper()
        node = Operation("not", (self._negation(),))
        self._depth -= 1
        return node

    def _comparison(self) -> Node:
        left = self._sum()
        parts: list[Node] = []
        while sign := self._take(*COMPARISONS, "in", "not"):
            if sign == "not":
                self._expect("in")
            right = self._sum()
            part = Operation("in" if sign == "not" else sign, (left, right))
            parts.append(Operation("not", (part,)) if sign == "not" else part)
            left = right
        if not parts:
            return left
        return parts[0] if len(parts) == 1 else Operation("and", tuple(parts))

    def _sum(self) -> Node:
        return self._left_to_right(self._product, "+", "-")

    def _product(self) -> Node:
        return self._left_to_right(self._factor, "*", "/")

    def _left_to_right(self, part: Callable[[], Node], *signs: str) -> Node:
        node = part()
        opened = 0
        while sign := self._take(*signs):
            self._deeper()  # a tree of a hundred terms is a hundred deep
            opened += 1
            node = Operation(sign, (node, part()))
        self._depth -= opened
        return node

    def _factor(self) -> Node:
        self._deeper()
        node = self._leaf()
        self._depth -= 1
        return node

    def _leaf(self) -> Node:
        if self._take("-"):
            return Operation("negate", (self._factor(),))
        if self._take("("):
            inner = self._either()
            self._expect(")")
            return inner
        if self._take("["):
            return self._listed()
        if word := self._take("true", "false"):
            return Constant(float(word == "true"), False)
        token = self._token
        if token.kind not in ("number", "string", "name"):
            raise self._unexpected("a name, a number, a string or (")
        self._next += 1
        if token.kind == "name":
            return Name(token.text)
        if token.kind == "string":
            return Constant(token.text, True)
        if not math.isfinite(number := float(token.text)):
            raise PredicateError(f"character {token.at + 1}: the number {token.text[:40]} is too large")
        return Constant(number, False)

    def _listed(self) -> Node:
        items: list[Node] = []
        while not self._take("]"):
            if items:
                self._expect(",")
            items.append(self._sum())
        return Listed(tuple(items))
