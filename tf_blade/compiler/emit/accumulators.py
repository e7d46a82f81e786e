"""The variables of one reduction in a pass.

`part` takes in the elements of the loop at hand. Long float sums and products go from it into a
`total` of doubles, block by block, so that they stay accurate.

    Accumulator      one variable, which OpenMP splits into lanes and joins again after each loop
    LaneAccumulator  lanes that stay apart through all loops of a pass and are joined once: whole
                     vectors and masked ones go into the same lanes
"""

from __future__ import annotations

from tf_blade.compiler.emit import c
from tf_blade.compiler.emit.reduction import SIGNS, SUM_BLOCK, combine, neutral
from tf_blade.compiler.emit.scope import KernelText
from tf_blade.compiler.ir import dims as d
from tf_blade.compiler.ir.types import DType
from tf_blade.compiler.schedule.kernel import Accumulate, Pass


class Accumulator:
    """A variable for each reduction: see the module."""

    def __init__(self, what: Accumulate, p: Pass, text: KernelText) -> None:
        self.what = what
        self.dtype = what.root.type.dtype
        self.name = text.unique(text.value_name(what.root))
        self.part = f"{self.name}_part"
        self.total = f"{self.name}_total"
        count = d.product([v.extent for v in p.loops])
        short = isinstance(count, int) and count <= SUM_BLOCK
        self.blocked = self.dtype.is_float and what.kind in ("sum", "prod") and not short
        # Where a row may be one block, whose sum then is the result: it need not be converted.
        self.fits = ""
        if (
            self.blocked
            and self.dtype is DType.F32
            and len(p.loops) == 1
            and not isinstance(count, int)
        ):
            self.fits = f"{text.dim(count)} <= {SUM_BLOCK}"
            self.last = f"{self.name}_last"
        self.function = ""
        if self.dtype.is_float and what.kind in ("max", "min"):
            self.function = f"{what.kind}_{c.type_name(self.dtype)}"
            text.functions.update([self.function, f"reduce_{self.function}"])

    @property
    def kind(self) -> str:
        """The variables' type: narrow integers add up modulo their range in any wider type."""
        narrow = self.dtype.size < 4
        return "i32" if narrow else c.type_name(self.dtype)

    @property
    def neutral(self) -> str:
        return neutral(self.what.kind, self.dtype)

    def declarations(self) -> list[str]:
        """Lines before all loops."""
        if not self.blocked:
            return [self.start_part()]
        lines = [f"f64 {self.total} = {self.neutral};"]
        return [*lines, f"{self.kind} {self.last} = {self.neutral};"] if self.fits else lines

    def start_part(self) -> str:
        return f"{self.kind} {self.part} = {self.neutral};"

    def end_part(self) -> str:
        return self._take(self.part)

    def _take(self, part: str) -> str:
        """Takes a block's result into the total."""
        if self.fits:
            part = f"{self.last} = {part}"
        return f"{self.total} {SIGNS[self.what.kind]}= {part};"

    def step(self, element: str) -> str:
        return f"{self.part} = {combine(self.what.kind, self.dtype, self.part, element)};"

    def clause(self) -> str:
        sign = self.function or SIGNS.get(self.what.kind, self.what.kind)
        return f"reduction({sign} : {self.part})"

    def result(self) -> list[str]:
        """Lines after all loops."""
        return self._named(self.total if self.blocked else self.part)

    def _named(self, source: str) -> list[str]:
        kind = c.type_name(self.dtype)
        if self.fits:
            source = f"({self.fits} ? {self.last} : ({kind}){source})"
        return [f"const {kind} {self.name} = ({kind}){source};"]


class LaneAccumulator(Accumulator):
    """Lanes for each reduction: see the module. For elements of four bytes.

    chains: vectors that take turns, so that a step needn't wait for the one before it.
    """

    def __init__(self, what: Accumulate, p: Pass, text: KernelText, chains: int) -> None:
        super().__init__(what, p, text)
        self.lanes = f"{self.name}_lanes"
        self.chains = chains
        # Where a pass has loops in loops, joining the lanes for each would be most of the work.
        self.many_parts = self.blocked and len(p.loops) > 1 and what.kind == "sum"
        text.functions.add("lane_totals" if self.many_parts else "lane_accumulators")

    def declarations(self) -> list[str]:
        if self.many_parts:
            return [f"LaneTotals {self.total};"]
        return super().declarations()

    def start_part(self) -> str:
        return f"Lanes<{self.kind}, {self.chains}> {self.lanes}({self.neutral});"

    def end_part(self) -> str:
        if self.many_parts:
            return f"{self.total}.add({self.lanes});"
        return self._take(self._joined())

    def load(self) -> list[str]:
        """Lines before a loop over lanes."""
        count = "LANES" if self.chains == 1 else f"{self.chains} * LANES"
        return [f"{self.kind} {self.part}[{count}];", f"{self.lanes}.get({self.part});"]

    def store(self) -> str:
        """A line after it."""
        return f"{self.lanes}.set({self.part});"

    def step(self, element: str) -> str:
        part = f"{self.part}[lane]"
        return f"{part} = {combine(self.what.kind, self.dtype, part, element)};"

    def result(self) -> list[str]:
        if self.many_parts:
            return self._named(f"{self.total}.sum()")
        return self._named(self.total if self.blocked else self._joined())

    def _joined(self) -> str:
        step = combine(self.what.kind, self.dtype, "a", "b")
        return f"{self.lanes}.join([]({self.kind} a, {self.kind} b) {{ return {step}; }})"
