"""Programs with scans, scatters, products and other ops that have kernels of their own."""

from __future__ import annotations

from tests.compiler.emit.example import Example

OPS = [
    # -- scans ----------------------------------------------------------------------------
    Example(
        "scans",
        "(%x: f32[a, b, c], %n: i32[a, b]) -> (%1, %2, %3, %4, %6, %7)",
        """%0: f32[a, b, c] = sin(%x)
        %1: f32[a, b, c] = scan(%0, kind=sum, dim=1, exclusive=false, reverse=true)
        %2: f32[a, b, c] = scan(%0, kind=sum, dim=2, exclusive=true, reverse=false)
        %3: f32[a, b, c] = scan(%0, kind=prod, dim=0, exclusive=true, reverse=true)
        %4: f32[a, b, c] = scan(%0, kind=logsumexp, dim=2, exclusive=false, reverse=false)
        %5: f32[c, b, a] = transpose(%x, perm=[2, 1, 0])
        %6: f32[c, b, a] = scan(%5, kind=logsumexp, dim=0, exclusive=false, reverse=true)
        %7: i32[a, b] = scan(%n, kind=sum, dim=0, exclusive=false, reverse=false)""",
        sizes=(("a", (0, 1, 2, 5, 300)), ("b", (0, 1, 3, 8)), ("c", (0, 1, 4, 9))),
    ),
    Example(
        "ranks",
        "(%x: f32[a, b, 9], %n: i32[c, 5]) -> (%1, %3, %4)",
        """%0: f32[a, b, 9] = sin(%x)
        %1: i32[a, b, 3] = top_k(%0, k=3)
        %2: f32[9, b, a] = transpose(%x, perm=[2, 1, 0])
        %t: f32[b, a, 9] = transpose(%2, perm=[1, 2, 0])
        %3: i32[b, a, 9] = top_k(%t, k=9)
        %4: i32[c, 1] = top_k(%n, k=1)""",
    ),
    # -- sizes that depend on data --------------------------------------------------------
    Example(
        "filter",
        "(%x: f32[a, b], %y: f32[a]) -> (%6, %8, %9)",
        """symbol n = size(%3, a)
        %0: f32[a] = exp(%y)
        %1: bool[a] = compare(%y, %0, direction=LT)
        %2: i64[a] = convert(%1, dtype=i64)
        %3: i64[] = reduce(%2, kind=sum, dims=[0])
        %4: i64[n] = positions(%1, shape=[n])
        %5: f32[n, b] = gather(%x, %4, axis=0, batch_dims=0)
        %6: f32[n, b] = exp(%5)
        %7: f32[n] = reduce(%6, kind=sum, dims=[1])
        %8: f32[] = reduce(%7, kind=max, dims=[0])
        %9: i64[2] = shape_value(dtype=i64, shape=[2], elements=[n, 2*n])""",
    ),
    Example(
        "unique",
        "(%x: i32[a], %w: f32[a]) -> (%5, %8)",
        """symbol n = size(%3, a)
        require n <= 4 "few different numbers"
        %0: i32[a] = first_equal(%x)
        %1: i32[a] = iota(dtype=i32, shape=[a], dim=0)
        %2: bool[a] = compare(%0, %1, direction=EQ)
        %c: i64[a] = convert(%2, dtype=i64)
        %3: i64[] = reduce(%c, kind=sum, dims=[0])
        %4: i64[n] = positions(%2, shape=[n])
        %5: i32[n] = gather(%x, %4, axis=0, batch_dims=0)
        %6: i64[a] = scan(%c, kind=sum, dim=0, exclusive=true, reverse=false)
        %7: i64[a] = gather(%6, %0, axis=0, batch_dims=0)
        %z: f32[] = constant(value=0.0)
        %zs: f32[n] = broadcast_in_dim(%z, shape=[n], dims=[])
        %8: f32[n] = scatter(%zs, %7, %w, kind=sum)""",
    ),
    Example(
        "halved_until_small",
        "(%x: f32[a], %m: bool[a], %k: i32[]) -> (%5)",
        """symbol n = size(%1, a)
        %0: i64[a] = convert(%m, dtype=i64)
        %1: i64[] = reduce(%0, kind=sum, dims=[0])
        %2: i64[n] = positions(%m, shape=[n])
        %3: f32[n] = gather(%x, %2, axis=0, batch_dims=0)
        %4: i64[] = while(%k, %3, min_trips=0)
        program condition(%p0: i32[], %p1: f32[n]) -> (%1) {
          %0: i32[] = constant(value=0)
          %1: bool[] = compare(%p0, %0, direction=GT)
        }
        program body(%p0: i32[], %p1: f32[n]) -> (%1, %6) {
          %0: i32[] = constant(value=-1)
          %1: i32[] = add(%p0, %0)
          %2: f32[] = reduce(%p1, kind=max, dims=[0])
          %3: f32[n] = broadcast_in_dim(%2, shape=[n], dims=[])
          %4: f32[n] = sub(%p1, %3)
          %5: f32[n] = reverse(%4, dims=[0])
          %6: f32[n] = exp(%5)
        }
        %5: f32[n] = carried(%4, index=1)""",
    ),
    # -- scatters -------------------------------------------------------------------------
    Example(
        "scatters",
        "(%t: f32[a, b], %i: i32[c], %u: f32[c, b], %v: f32[c, 2, 1, d]) -> (%1, %3, %5, %7, %8)",
        """%0: f32[a, b] = exp(%t)
        %1: f32[a, b] = scatter(%0, %i, %u, kind=sum)
        %2: f32[c, b] = neg(%u)
        %3: f32[a, b] = scatter(%t, %i, %2, kind=max)
        %z: f32[] = constant(value=1.5)
        %4: f32[3, 2, 1, d] = broadcast_in_dim(%z, shape=[3, 2, 1, d], dims=[])
        %5: f32[3, 2, 1, d] = scatter(%4, %i, %v, kind=set)
        %6: i32[5] = constant(value=[5, 4, 3, 2, 1])
        %7: i32[5] = scatter(%6, %i, %i, kind=min)
        %8: i32[5] = scatter(%6, %i, %i, kind=prod)""",
    ),
    # -- matrix products ------------------------------------------------------------------
    Example(
        "matrix_products",
        "(%x: f32[a, b], %w: f32[b, 5] constant, %v: f32[5]) -> (%0, %1, %3)",
        """%0: f32[a, 5] = dot_general(%x, %w, %v, relu)
        %1: f32[b, b] = dot_general(%x, %x, plain_a)
        %2: f32[5, b] = transpose(%w, perm=[1, 0])
        %3: f32[a, 5] = dot_general(%x, %2, plain_b)""",
    ),
    Example(
        "batches_of_matrix_products",
        "(%x: f32[a, b, 4], %y: f32[a, 4, c], %w: f32[4, 3]) -> (%0, %1, %2)",
        """%0: f32[a, b, c] = dot_general(%x, %y, plain)
        %1: f32[a, b, 3] = dot_general(%x, %w, plain)
        %2: f32[a, c, 3] = dot_general(%y, %w, plain_a)""",
    ),
    Example(
        "products_that_end_in_a_scale_or_a_residual",
        "(%x: f32[a, b, 4], %w: f32[4, 6] constant, %v: f32[6], %r: f32[a, b, 6])"
        " -> (%2, %5, %7, %10)",
        """%0: f32[a, b, 6] = dot_general(%x, %w, %v, relu)
        %2: f32[a, b, 6] = add(%r, %0)
        %3: f32[a, b, b] = dot_general(%x, %x, plain_b)
        %c: f32[] = constant(value=0.25)
        %4: f32[a, b, b] = broadcast_in_dim(%c, shape=[a, b, b], dims=[])
        %5: f32[a, b, b] = mul(%3, %4)
        %6: f32[a, b, 4] = dot_general(%5, %x, plain)
        %7: f32[a, b, 4] = add(%6, %x)
        %8: f32[a*b, 4] = reshape(%x, shape=[a*b, 4])
        %9: f32[a*b, 6] = dot_general(%8, %w, plain)
        %11: f32[a, b, 6] = reshape(%9, shape=[a, b, 6])
        %10: f32[a, b, 6] = add(%11, %2)""",
        sizes=(("b", (0, 1, 2, 5, 9)),),
    ),
    Example(
        "a_residual_of_products_over_nothing",
        "(%x: f32[a, b], %y: f32[b, 3], %r: f32[a, 3]) -> (%1)",
        """%0: f32[a, 3] = dot_general(%x, %y, plain)
        %1: f32[a, 3] = add(%0, %r)""",
        sizes=(("b", (0, 1, 4)),),
    ),
    Example(
        "attention_without_copies",
        "(%x: f32[a, b, 24]) -> (%12)",
        """%q: f32[a, b, 8] = slice(%x, start=[0, 0, 0], limit=[a, b, 8], stride=[1, 1, 1])
        %k: f32[a, b, 8] = slice(%x, start=[0, 0, 8], limit=[a, b, 16], stride=[1, 1, 1])
        %v: f32[a, b, 8] = slice(%x, start=[0, 0, 16], limit=[a, b, 24], stride=[1, 1, 1])
        %0: f32[a, b, 2, 4] = reshape(%q, shape=[a, b, 2, 4])
        %1: f32[a, b, 2, 4] = reshape(%k, shape=[a, b, 2, 4])
        %2: f32[a, b, 2, 4] = reshape(%v, shape=[a, b, 2, 4])
        %3: f32[a, 2, b, 4] = transpose(%0, perm=[0, 2, 1, 3])
        %4: f32[a, 2, 4, b] = transpose(%1, perm=[0, 2, 3, 1])
        %5: f32[a, 2, b, 4] = transpose(%2, perm=[0, 2, 1, 3])
        %6: f32[a, 2, b, b] = dot_general(%3, %4, plain)
        %7: f32[a, 2, b, b] = tanh(%6)
        %8: f32[a, 2, b, 4] = dot_general(%7, %5, plain)
        %9: f32[a, b, 2, 4] = transpose(%8, perm=[0, 2, 1, 3])
        %10: f32[a, b, 8] = reshape(%9, shape=[a, b, 8])
        %12: f32[a, b, 8] = neg(%10)""",
        sizes=(("b", (0, 1, 2, 5, 9)),),
    ),
    Example(
        "matrix_product_of_constants",
        "(%x: f32[a, 2]) -> (%0, %2, %4)",
        """%w: f32[2, 2] = constant(value=[[1.0, 2.0], [3.0, 4.0]])
        %0: f32[a, 2] = dot_general(%x, %w, plain)
        %one: f32[] = constant(value=1.0)
        %1: f32[2, 3] = broadcast_in_dim(%one, shape=[2, 3], dims=[])
        %2: f32[a, 3] = dot_general(%x, %1, plain)
        %ones: f32[3, 2] = constant(value=[[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]])
        %3: f32[2, 3] = transpose(%ones, perm=[1, 0])
        %4: f32[a, 3] = dot_general(%x, %3, plain)""",
    ),
    Example(
        "fourier_transforms_of_what_is_computed",
        "(%x: f32[a, b, 12], %y: f32[b, 4], %z: f32[b, 4]) -> (%4, %7)",
        """%0: f32[a, b, 12] = tanh(%x)
        %1: f32[2, a, b, 7] = rfft(%0)
        %2: f32[2, a, b, 7] = mul(%1, %1)
        %3: f32[a, b, 7] = reduce(%2, kind=sum, dims=[0])
        %4: f32[a, b, 7] = sqrt(%3)
        %5: f32[b, 7] = irfft(%y, %z, length=7)
        %6: f32[b, 7] = mul(%5, %5)
        %7: f32[b, 7] = sub(%5, %6)""",
    ),
]
