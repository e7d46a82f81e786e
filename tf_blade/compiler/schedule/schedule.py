"""From a fusion plan to kernels and buffers."""

from __future__ import annotations

from dataclasses import dataclass

from tf_blade.compiler.fuse.index import mul
from tf_blade.compiler.fuse.plan import Plan
from tf_blade.compiler.fuse.plan import plan as fuse
from tf_blade.compiler.fuse.products import product_of
from tf_blade.compiler.ir.dims import simplify
from tf_blade.compiler.ir.loops import nested_programs
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.ir.types import TensorType
from tf_blade.compiler.schedule.columns import column_reduce_kernel
from tf_blade.compiler.schedule.kernel import (
    Conv,
    Fft,
    FirstEqual,
    Gemm,
    HostStores,
    Positions,
    RowUpdate,
    Step,
    WhileLoop,
)
from tf_blade.compiler.schedule.loops import (
    concatenate_kernels,
    loop_kernel,
    pad_kernel,
    row_reduce_kernel,
)
from tf_blade.compiler.schedule.memory import Memory, Slot, plan_memory
from tf_blade.compiler.schedule.scan import scan_kernel
from tf_blade.compiler.schedule.scatter import scatter_kernel
from tf_blade.compiler.schedule.split import split_columns, split_rows
from tf_blade.compiler.schedule.text import schedule_text
from tf_blade.compiler.schedule.top_k import top_k_kernel


@dataclass
class Schedule:
    """What a run does, step by step, and where values live. `str(schedule)` is its text."""

    plan: Plan
    memory: Memory
    steps: list[Step]

    def __str__(self) -> str:
        return schedule_text(self)


def schedule(plan: Plan) -> Schedule:
    """Chooses loops and buffers for every group of the plan."""
    memory = plan_memory(plan)
    stored = memory.stored
    steps: list[Step] = []
    for group in plan.groups:
        if group.kind == "loop":
            steps.append(loop_kernel(group, plan.roots, stored))
        elif group.kind == "row_reduce":
            kernels, parts = split_rows(row_reduce_kernel(group, plan.roots, stored))
            steps.extend(kernels)
            _add_temporaries(memory, parts)
        elif group.kind == "column_reduce":
            columns, parts = split_columns(column_reduce_kernel(group, plan.roots, stored))
            steps.extend(columns)
            _add_temporaries(memory, parts)
        elif group.kind == "concatenate":
            steps.extend(concatenate_kernels(group, plan.roots))
        elif group.kind == "pad":
            steps.append(pad_kernel(group, plan.roots))
        elif group.kind == "scan":
            steps.append(scan_kernel(group, plan.roots))
        elif group.kind == "scatter":
            steps.append(scatter_kernel(group, plan.roots))
        elif group.kind == "top_k":
            steps.append(top_k_kernel(group, plan.roots))
        elif group.kind == "dot_general":
            product = product_of(group.roots[0], plan.roots)
            assert product is not None
            steps.append(Gemm(group, product))
        elif group.kind == "conv":
            steps.append(Conv(group))
        elif group.kind in ("rfft", "irfft"):
            steps.append(Fft(group))
        elif group.kind == "positions":
            steps.append(Positions(group))
        elif group.kind == "first_equal":
            (root,) = group.roots
            places = simplify(2 * root.type.shape[0] + 1)  # at most half of them are taken
            table = Value(f"{root.name}_table", TensorType(root.type.dtype, (places,)))
            _add_temporaries(memory, [table])
            steps.append(FirstEqual(group, table))
        elif group.kind == "dynamic_update":
            steps.append(RowUpdate(group))
        elif group.kind == "while":
            loop = group.roots[0].op
            assert loop is not None
            condition, body = (schedule(fuse(nested)) for nested in nested_programs(loop))
            steps.append(WhileLoop(group, condition, body))
        else:
            steps.append(HostStores(group))
    return Schedule(plan, memory, steps)


def _add_temporaries(memory: Memory, values: list[Value]) -> None:
    for value in values:
        slot = Slot()
        slot.add(value, mul(value.type.size, value.type.dtype.size))
        memory.slots.append(slot)
