"""Matrix products that are none: over one element, each result is a single multiplication.

DCN's cross layers are full of them, a product [B, D, 1] x [B, 1, 1] for each row of the batch. As a
multiplication they join the elementwise code around them.
"""

from __future__ import annotations

from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.rewrite.rules import Match, RuleSet, op, value

rules = RuleSet("products")


# dot_general(a [*batch, m, 1], b [*batch, 1, n]) -> mul(broadcast(a), broadcast(b))
@rules.rule(op("dot_general", value("a"), value("b")))
def outer_product(m: Match) -> Value | None:
    attrs = m.root.attrs
    if m.a.type.shape[-2 if attrs["transpose_a"] else -1] != 1:
        return None
    *batch, rows, columns = m.type.shape
    rank = len(batch)
    a = m.reshape(m.a, [*batch, rows])
    b_shared = m.b.type.rank == 2
    b = m.reshape(m.b, [columns] if b_shared else [*batch, columns])
    b_dims = [rank + 1] if b_shared else [*range(rank), rank + 1]
    product = m.make(
        "mul",
        [
            m.broadcast(a, m.type.shape, [*range(rank), rank]),
            m.broadcast(b, m.type.shape, b_dims),
        ],
    )
    if attrs["activation"] == "none":
        return product
    return m.make("max", [product, m.splat(0)])
