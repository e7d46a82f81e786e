"""Rewrite rules as data: a pattern, and a function from a match to the value that replaces it.

    rules = RuleSet("algebra")

    # neg(neg(x)) -> x
    @rules.rule(op("neg", op("neg", X)))
    def neg_of_neg(m):
        return m.x

A pattern names parts of the program; the function reads them as attributes of the match (`m.x`,
values), builds new ops with `m.make(kind, operands, **attrs)`, and returns a value, or
`Decline(reason)` when the rule would be wrong or useless here. Declined matches are counted with
their reasons in a `RewriteLog`. Operands of commutative ops match in either order; a name used
twice must be the same value twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from tf_blade.compiler.ir.ops import IrError, infer_type, same_type
from tf_blade.compiler.ir.program import Op, Program, Value
from tf_blade.compiler.ir.refusals import may_refuse
from tf_blade.compiler.ir.sizes import computed_sizes
from tf_blade.compiler.ir.types import TensorType
from tf_blade.compiler.rewrite.dce import drop_dead
from tf_blade.steps import Description, Steps

COMMUTATIVE = frozenset("add mul max min and or xor".split())
# Characters of node names that a merged source keeps.
MAX_SOURCE = 200
# Sweeps over a program before a rule set gives up on a fixed point.
MAX_SWEEPS = 50


@dataclass(frozen=True)
class Pattern:
    """What a value must look like.

    Attributes:
      kinds: the op's kind is one of these; None: any value at all.
      operands: patterns of the op's operands, one each; None: any operands.
      name: the value's name in the match, '' for none.
      test: an additional condition on the value.
    """

    kinds: frozenset[str] | None = None
    operands: tuple[Pattern, ...] | None = None
    name: str = ""
    test: Callable[[Value], bool] | None = None


def value(name: str, test: Callable[[Value], bool] | None = None) -> Pattern:
    """Any value, called `name`."""
    return Pattern(name=name, test=test)


def op(
    kind: str, *operands: Pattern, name: str = "", test: Callable[[Value], bool] | None = None
) -> Pattern:
    """The result of an op of this kind (several: separated by spaces). No operand patterns: any
    operands."""
    return Pattern(frozenset(kind.split()), operands or None, name, test)


def splat(name: str, number: float | None = None) -> Pattern:
    """A tensor of one repeated constant, of `number` if given (either zero is 0)."""

    def test(v: Value) -> bool:
        found = splat_of(v)
        return found is not None and (number is None or found == number)

    return Pattern(name=name, test=test)


X, Y, Z = value("x"), value("y"), value("z")


def splat_of(v: Value) -> np.ndarray | None:
    """The repeated element, as a rank 0 array, of a constant or a broadcast constant."""
    while v.op is not None and v.op.kind in ("broadcast_in_dim", "reshape"):
        v = v.op.operands[0]
    if v.op is None or v.op.kind != "constant":
        return None
    elements = v.op.attrs["value"]
    if elements.size == 0:
        return None
    first = elements.reshape(-1)[:1]
    # By bytes, so that 0.0 and -0.0 differ and a NaN is itself.
    same = elements.tobytes() == first.tobytes() * elements.size
    return first.reshape(()) if same else None


@dataclass(frozen=True)
class Decline:
    """The pattern matches, the rule does not apply; the reason is a sentence for the log."""

    reason: str


@dataclass
class RewriteLog:
    """What happened: how often each rule applied, and why matches were declined.

    steps: watches and limits what is applied. None: everything is.
    """

    applied: Counter[str] = field(default_factory=Counter)
    declined: Counter[tuple[str, str]] = field(default_factory=Counter)
    steps: Steps | None = None

    def allow(self, rule: str, describe: Callable[[], Description]) -> bool:
        """Whether the rule may be applied now; it is counted if so."""
        if self.steps is not None and not self.steps.allow("rewrite", rule, describe):
            return False
        self.applied[rule] += 1
        return True

    def __str__(self) -> str:
        lines = [f"{count:5} {name}" for name, count in self.applied.most_common()]
        lines += [
            f"{count:5} {name} declined: {reason}"
            for (name, reason), count in self.declined.most_common()
        ]
        return "\n".join(lines)


class Match:
    """A place where a pattern fits. Named values are attributes."""

    def __init__(self, root: Op, names: dict[str, Value], ops: list[Op], sweep: _Sweep) -> None:
        self.root = root
        self.new_ops: list[Op] = []
        self._names = names
        self._sweep = sweep
        self._ops = ops

    def __getattr__(self, name: str) -> Value:
        try:
            return self.__dict__["_names"][name]
        except KeyError:
            raise AttributeError(f"the pattern names no {name!r}") from None

    @property
    def ops(self) -> list[Op]:
        """The matched ops."""
        return self._ops

    @property
    def type(self) -> TensorType:
        """The type of the value to replace."""
        return self.root.result.type

    def make(self, kind: str, operands: Sequence[Value], /, **attrs: Any) -> Value:
        """The result of a new op; its source is that of all matched ops."""
        result = Value(self._sweep.fresh_name(), infer_type(kind, list(operands), attrs))
        source = merge_sources(*(matched.source for matched in self._ops))
        result.op = Op(kind, list(operands), attrs, result, source)
        self.new_ops.append(result.op)
        return result

    def constant(self, array: Any) -> Value:
        """A constant of the dtype of the value to replace."""
        return self.make("constant", [], value=np.asarray(array, dtype=self.type.dtype.numpy))

    def splat(self, number: Any) -> Value:
        """`number` in every element of the type of the value to replace."""
        scalar = self.constant(number)
        return scalar if self.type.rank == 0 else self.broadcast(scalar, self.type.shape, ())

    def broadcast(self, v: Value, shape: Sequence[Any], dims: Sequence[int]) -> Value:
        return self.make("broadcast_in_dim", [v], shape=tuple(shape), dims=tuple(dims))

    def reshape(self, v: Value, shape: Sequence[Any]) -> Value:
        return v if v.type.shape == tuple(shape) else self.make("reshape", [v], shape=tuple(shape))

    def describe(self, by: Value) -> Description:
        """The matched ops, what replaces the last of them, and the nodes they came from."""
        matched = dict.fromkeys(reversed(self._ops))
        after = [str(new) for new in self.new_ops]
        if by.op not in self.new_ops:
            after.append(f"{self.root.result} is {by}")
        sources = merge_sources(*(each.source for each in matched))
        return "\n".join(map(str, matched)), "\n".join(after), sources

    def single_use(self, v: Value) -> bool:
        """Whether nothing but the matched ops reads the value: a rule that absorbs it would
        otherwise compute it twice."""
        return self._sweep.uses[v] == 1


RuleFunction = Callable[[Match], "Value | Decline | None"]


@dataclass(frozen=True)
class Rule:
    """None from `function` means, silently, that there is nothing to do."""

    name: str
    pattern: Pattern
    function: RuleFunction


@dataclass
class RuleSet:
    """Rules tried in order at every op; `a + b` tries those of a, then those of b."""

    name: str
    rules: list[Rule] = field(default_factory=list)

    def rule(self, *patterns: Pattern) -> Callable[[RuleFunction], RuleFunction]:
        """Registers a function for each of the patterns."""

        def register(function: RuleFunction) -> RuleFunction:
            self.rules += [Rule(function.__name__, p, function) for p in patterns]
            return function

        return register

    def __add__(self, other: RuleSet) -> RuleSet:
        return RuleSet(f"{self.name}+{other.name}", self.rules + other.rules)

    def apply(self, program: Program, log: RewriteLog | None = None) -> bool:
        """Rewrites the program in place until no rule applies; says whether any did.

        Ops that nothing reads any more are dropped.
        """
        changed = False
        for _ in range(MAX_SWEEPS):
            # A log of its own for each sweep: only the last one says what stays declined.
            declined = RewriteLog(steps=log.steps if log is not None else None)
            sweep = _Sweep(self, program, declined)
            again = sweep.run()
            changed |= again
            if log is not None:
                log.applied += declined.applied
            if not again:
                break
        if log is not None:
            log.declined += declined.declined
        return changed


class _Sweep:
    """One pass over the ops in order, replacing as it goes."""

    def __init__(self, rules: RuleSet, program: Program, log: RewriteLog) -> None:
        self.program = program
        self.log = log
        self.by_kind: dict[str, list[Rule]] = {}
        for rule in rules.rules:
            for kind in rule.pattern.kinds or ():
                self.by_kind.setdefault(kind, []).append(rule)
        self.uses: Counter[Value] = Counter(program.results)
        self.uses.update(size.value for size in computed_sizes(program).values())
        for each in program.ops:
            self.uses.update(each.operands)
        self._names = fresh_names(program)

    def fresh_name(self) -> str:
        return next(self._names)

    def run(self) -> bool:
        replaced: dict[Value, Value] = {}
        kept: list[Op] = []
        for each in self.program.ops:
            each.operands = [replaced.get(v, v) for v in each.operands]
            new = self._rewrite(each) if self.uses[each.result] else None
            if new is None:
                kept.append(each)
                continue
            match, by = new
            for made in match.new_ops:
                self.uses.update(made.operands)
            kept += match.new_ops
            self.uses[by] += self.uses[each.result]
            self._release(each)
            replaced[each.result] = by
        self.program.ops = kept
        self.program.replace_values(replaced)
        drop_dead(self.program)
        return bool(replaced)

    def _release(self, dead: Op) -> None:
        """Takes the uses that end with this op's result off the counts."""
        self.uses[dead.result] = 0
        stack = [dead]
        while stack:
            for operand in stack.pop().operands:
                self.uses[operand] -= 1
                if self.uses[operand] == 0 and operand.op is not None:
                    stack.append(operand.op)

    def _loses_an_error(self, match: Match, by: Value) -> bool:
        """Whether an op that may refuse, and isn't one that the rule matched, is then unread."""
        uses = Counter({by: self.uses[match.root.result]})
        for made in match.new_ops:
            uses.update(made.operands)
        stack = [match.root]
        while stack:
            for operand in stack.pop().operands:
                uses[operand] -= 1
                if operand.op is not None and self.uses[operand] + uses[operand] == 0:
                    if operand.op not in match.ops and may_refuse(operand.op):
                        return True
                    stack.append(operand.op)
        return False

    def _rewrite(self, root: Op) -> tuple[Match, Value] | None:
        for rule in self.by_kind.get(root.kind, ()):
            for names, ops in _match(rule.pattern, root.result, {}, []):
                match = Match(root, names, ops, self)
                outcome = rule.function(match)
                if isinstance(outcome, Value) and outcome is not root.result:
                    _agree(rule, root, outcome, match)
                    if self._loses_an_error(match, outcome):
                        self.log.declined[rule.name, "what it drops may be an error"] += 1
                        continue
                    if self.log.allow(rule.name, partial(match.describe, outcome)):
                        return match, outcome
                if isinstance(outcome, Decline):
                    self.log.declined[rule.name, outcome.reason] += 1
        return None


def _match(
    pattern: Pattern, v: Value, names: dict[str, Value], ops: list[Op]
) -> Iterator[tuple[dict[str, Value], list[Op]]]:
    """Every way in which the pattern fits the value, as names and matched ops."""
    if pattern.kinds is not None and (v.op is None or v.op.kind not in pattern.kinds):
        return
    if pattern.test is not None and not pattern.test(v):
        return
    if pattern.name:
        if names.get(pattern.name, v) is not v:
            return
        names = {**names, pattern.name: v}
    if pattern.kinds is None or v.op is None:
        yield names, ops
        return
    ops = [*ops, v.op]
    if pattern.operands is None:
        yield names, ops
        return
    if len(pattern.operands) != len(v.op.operands):
        return
    orders = [list(v.op.operands)]
    if v.op.kind in COMMUTATIVE:
        orders.append(orders[0][::-1])
    for operands in orders:
        yield from _match_all(pattern.operands, operands, names, ops)


def _match_all(
    patterns: Sequence[Pattern], values: Sequence[Value], names: dict[str, Value], ops: list[Op]
) -> Iterator[tuple[dict[str, Value], list[Op]]]:
    if not patterns:
        yield names, ops
        return
    for first_names, first_ops in _match(patterns[0], values[0], names, ops):
        yield from _match_all(patterns[1:], values[1:], first_names, first_ops)


def _agree(rule: Rule, root: Op, outcome: Value, match: Match) -> None:
    """The replacement is of the replaced type; dims may differ in form only."""
    old, new = root.result.type, outcome.type
    if old == new:
        return
    if not same_type(old, new):
        raise IrError(f"rule {rule.name}: replaces {root} by {new}")
    if outcome.op in match.new_ops:
        outcome.type = old


def merge_sources(*sources: str) -> str:
    """The node names of all, each once, cut off after MAX_SOURCE characters."""
    names: dict[str, None] = {}
    for source in sources:
        names.update(dict.fromkeys(name for name in source.split(", ") if name))
    cut = names.pop("…", 0) is None
    text = ""
    for name in names:
        longer = f"{text}, {name}" if text else name
        if text and len(longer) > MAX_SOURCE:
            cut = True
            break
        text = longer
    return f"{text}, …" if cut else text


def fresh_names(program: Program) -> Iterator[str]:
    """Names that no value of the program has."""
    taken = {v.name for v in program.values()}
    number = len(program.ops)
    while True:
        if str(number) not in taken:
            yield str(number)
        number += 1
