"""The fusion plan as a table."""

from __future__ import annotations

from tf_blade.compiler.fuse.plan import plan
from tf_blade.compiler.ir.parser import parse
from tf_blade.debug.fusions import (
    ClusterFusions,
    Fusion,
    fusions_of,
    fusions_renderable,
    read_fusions,
)
from tf_blade.report_table import render_text

SOFTMAX_AND_PRODUCT = """
program p(%x: f32[a, b], %w: f32[b, 4]) -> (%7, %8) {
  symbol a = dim(%x, 0)
  symbol b = dim(%x, 1)
  %0: f32[a] = reduce(%x, kind=max, dims=[1])  // Softmax
  %1: f32[a, b] = broadcast_in_dim(%0, shape=[a, b], dims=[0])  // Softmax
  %2: f32[a, b] = sub(%x, %1)  // Softmax
  %3: f32[a, b] = exp(%2)  // Softmax
  %4: f32[a] = reduce(%3, kind=sum, dims=[1])  // Softmax
  %5: f32[a, b] = broadcast_in_dim(%4, shape=[a, b], dims=[0])  // Softmax
  %7: f32[a, b] = div(%3, %5)  // Softmax
  %8: f32[a, 4] = dot_general(%7, %w, transpose_a=false, transpose_b=false, activation=none)  // dot
}
"""


def test_each_kernel_says_which_shapes_made_it_one():
    softmax, product = fusions_of(plan(parse(SOFTMAX_AND_PRODUCT)))
    assert softmax == Fusion(
        name="row_reduce_0",
        loops="rows [a] columns [b]",
        makes=("%7",),
        ops={"reduce": 2, "sub": 1, "exp": 1, "div": 1},
        nodes=("Softmax",),
        why="%0, %4 reduced over the same columns [b]; %3, %7 of the same shape [a, b]",
    )
    assert (product.name, product.makes, product.nodes) == ("dot_general_0", ("%8",), ("dot",))
    assert product.why == "alone: result"


def test_the_table_has_a_row_for_each_kernel(three_dump):
    clusters = read_fusions(three_dump)
    text = render_text(fusions_renderable(clusters))
    assert [c.name for c in clusters] == [f"blade_cluster_{i}" for i in range(3)]
    for cluster in clusters:
        assert all(kernel.name in text for kernel in cluster.kernels)
        assert "dim 0 of %p0" in cluster.facts
        assert all(line.strip() in text for line in cluster.facts.splitlines())


def test_shapes_are_not_taken_for_markup():
    kernel = Fusion("loop_0", "[s0, 4]", ("%1",), {"exp": 2}, ("a",), "alone: result")
    text = render_text(fusions_renderable([ClusterFusions("blade_cluster_0", (kernel,))]))
    assert "[s0, 4]" in text and "2 exp" in text and "1 kernel" in text


def test_a_model_without_clusters_says_so():
    assert "nothing was compiled" in render_text(fusions_renderable([]))
