"""Before/Expected tests of rewrites on IR texts."""

from __future__ import annotations

import re
from collections.abc import Callable

from tf_blade.compiler.ir.parser import parse
from tf_blade.compiler.ir.program import Program
from tf_blade.compiler.ir.verifier import verify
from tf_blade.compiler.rewrite.pipeline import renumber
from tf_blade.compiler.rewrite.rules import RewriteLog, RuleSet

SYMBOLS = """\
  symbol s0 = dim(%x, 0)
  symbol s1 = dim(%x, 1)
"""


def program(text: str) -> Program:
    """The program of `text`, or of a body: lines of ops, the last one the result.

    In a body, the undefined %names are parameters, with the types that `%name: type` lines at
    the top give them; s0 and s1 are the dims of %x.
    """
    if "program " not in text:
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        params = [line for line in lines if " = " not in line]
        ops = [line for line in lines if " = " in line]
        results = ops[-1].split(":")[0] if ops else params[0].split(":")[0]
        symbols = "".join(
            line + "\n"
            for line in SYMBOLS.splitlines()
            if re.search(rf"\b{line.split()[1]}\b", "".join(params))
        )
        body = "\n".join(ops)
        text = f"program p({', '.join(params)}) -> ({results}) {{\n{symbols}{body}\n}}"
    result = parse(text)
    verify(result)
    return result


def check(
    apply: RuleSet | Callable[[Program], bool], before: str, expected: str | None = None
) -> RewriteLog:
    """The rewrite makes `expected` of `before`; None: it leaves `before` alone."""
    log = RewriteLog()
    got = program(before)
    changed = apply.apply(got, log) if isinstance(apply, RuleSet) else apply(got)
    verify(got)
    want = program(expected if expected is not None else before)
    renumber(got)
    renumber(want)
    assert str(got) == str(want)
    assert changed == (expected is not None)
    return log


def declines(rules: RuleSet, before: str, reason: str) -> None:
    """No rule applies, and the log says why."""
    log = check(rules, before)
    assert any(reason in why for _, why in log.declined), f"{reason!r} is not in:\n{log}"
