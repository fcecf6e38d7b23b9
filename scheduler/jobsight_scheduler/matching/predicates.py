"""The grammar of predicates, preferences and coefficients, parsed by a restriction of Python's own parser.

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
character as it is. Python's parser sees a letter in place of each name, number and string; nothing is ever evaluated.
"""

from __future__ import annotations

import ast
import math
import re
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

LONGEST_PREDICATE = 2_000
DEEPEST_NESTING = 40


class PredicateError(ValueError):
    """A text that is not a predicate; the message has the fault and its character."""


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

_TOKEN = re.compile(
    r"""(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    |(?P<word>\b(?:and|or|not|in)\b(?!\.))
    |(?P<name>[^\W\d][\w.]*)
    |`(?P<quoted>[^`]+)`
    |'(?P<single>(?:[^'\\]|\\.)*)'
    |"(?P<double>(?:[^"\\]|\\.)*)"
    |(?P<sign>==|!=|<=|>=|[-+*/()<>,\[\]])
    |(?P<other>\S)""",
    re.VERBOSE | re.DOTALL,
)
_PLAIN = re.compile(r"(?!(?:and|or|not|in|true|false)$)[^\W\d][\w.]*")
_INSTEAD = {"=": "==", "&": "and", "|": "or", "!": "not", "^": "* or /", "%": "* or /"}
_SIGNS: dict[type[ast.AST], str] = {
    ast.And: "and", ast.Or: "or", ast.Not: "not", ast.USub: "negate",
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/",
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.In: "in", ast.NotIn: "in",
}  # fmt: skip
_FIRST_LETTER = 0x4E00  # thousands of strings of which each is a name to Python


@lru_cache(maxsize=20_000)
def parse(text: str) -> Node:
    """Parse ``text`` into a tree.

    Raises:
        PredicateError: it is too long, too deep or not of the grammar.
    """
    if len(text) > LONGEST_PREDICATE:
        raise PredicateError(f"{len(text):,} characters, where {LONGEST_PREDICATE:,} are allowed")
    leaves: list[Node] = []

    def letter(found: re.Match[str]) -> str:
        if found.lastgroup in ("word", "sign"):
            return found[0]
        leaves.append(_leaf(found))
        return chr(_FIRST_LETTER + len(leaves) - 1).ljust(len(found[0]))

    plain = re.sub(r"\s", " ", _TOKEN.sub(letter, text))
    begin = len(plain) - len(plain.lstrip())
    try:
        tree = ast.parse(plain[begin:], mode="eval").body
    except SyntaxError as error:
        at = begin + error.offset - 1 if error.offset else len(text)
        found = repr(text[at:].split()[0][:40]) if text[at:].strip() else "the end"
        raise PredicateError(f"character {at + 1}: {found} is not expected there") from error
    except (MemoryError, RecursionError) as error:
        raise PredicateError(f"nested more than {DEEPEST_NESTING} deep") from error
    return _node(tree, leaves, DEEPEST_NESTING)


def _leaf(found: re.Match[str]) -> Node:
    kind, at = found.lastgroup or "", found.start() + 1
    part = found[kind]
    if kind == "number":
        if not math.isfinite(number := float(part)):
            raise PredicateError(f"character {at}: the number {part[:40]} is too large")
        return Constant(number, False)
    if kind in ("single", "double"):
        return Constant(re.sub(r"\\(.)", r"\1", part, flags=re.DOTALL), True)
    if kind == "other":
        if part in "'\"`":
            raise PredicateError(f"character {at}: a quote that is not closed")
        hint = f"; write {_INSTEAD[part]}" if part in _INSTEAD else ""
        raise PredicateError(f"character {at}: unexpected {part!r}{hint}")
    return Constant(float(part == "true"), False) if part in ("true", "false") else Name(part)


def _node(tree: ast.expr, leaves: list[Node], deepest: int) -> Node:
    if not deepest:
        raise PredicateError(f"nested more than {DEEPEST_NESTING} deep")

    def inner(*trees: ast.expr) -> tuple[Node, ...]:
        return tuple(_node(one, leaves, deepest - 1) for one in trees)

    match tree:
        case ast.Name(letter) if len(letter) == 1:
            return leaves[ord(letter) - _FIRST_LETTER]
        case ast.List(items):
            return Listed(inner(*items))
        case ast.BoolOp(sign, operands):
            return Operation(_SIGNS[type(sign)], inner(*operands))
        case ast.UnaryOp(ast.Not() | ast.USub() as sign, operand):
            return Operation(_SIGNS[type(sign)], inner(operand))
        case ast.BinOp(left, sign, right) if type(sign) in _SIGNS:
            return Operation(_SIGNS[type(sign)], inner(left, right))
        case ast.Compare(left, signs, others) if all(type(sign) in _SIGNS for sign in signs):
            parts = [
                Operation(_SIGNS[type(s)], pair) for s, pair in zip(signs, pairwise(inner(left, *others)), strict=True)
            ]
            parts = [
                Operation("not", (p,)) if isinstance(s, ast.NotIn) else p for s, p in zip(signs, parts, strict=True)
            ]
            return parts[0] if len(parts) == 1 else Operation("and", tuple(parts))
    raise PredicateError("not a predicate; compare and calculate with names, numbers, strings and lists")


@lru_cache(maxsize=20_000)
def names_in(node: Node) -> frozenset[str]:
    """Return every name that ``node`` reads."""
    match node:
        case Name(name):
            return frozenset({name})
        case Listed(parts) | Operation(_, parts):
            return frozenset().union(*map(names_in, parts))
        case _:
            return frozenset()


def text_of(node: Node) -> str:
    """Write ``node`` as text."""
    match node:
        case Name(name):
            return name if _PLAIN.fullmatch(name) else f"`{name}`"
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
