"""Generated code of fused lookups: a Lookup as one C++ source file.

The file holds the kernels' headers verbatim, a function for each distinct stream, with its
constants (numbers of buckets, boundaries, vocabularies) in the code, and the plan as static data.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from tf_blade.compiler.emit import executable_source
from tf_blade.feature_column.emit.expressions import bool_text
from tf_blade.feature_column.emit.plan import PlanPrinter
from tf_blade.feature_column.spec import Lookup

# In an order in which each needs only those before it.
_HEADERS = (
    "text.h",
    "hashes.h",
    "vocabulary.h",
    "arithmetic.h",
    "plan.h",
    "rows.h",
    "bags.h",
    "task.h",
    "lookup.h",
)
_KERNELS = Path(__file__).resolve().parents[1] / "kernels"


def emit_lookup(name: str, lookup: Lookup, *, find_repeats: bool = True) -> str:
    """The source of an executable that runs the lookup. Equal lookups give equal text.

    Args:
      name: of the lookup, for messages.
      lookup: what to compute.
      find_repeats: whether the code looks for columns whose rows are all the same.
    """
    printer = PlanPrinter(lookup)
    body = "\n\n".join(
        [
            _headers(),
            "namespace blade_lookup {\nnamespace {",
            printer.text(),
            "}  // namespace\n}  // namespace blade_lookup",
        ]
    )
    run = (
        f"  const blade_lookup::LookupOptions options = {{{bool_text(find_repeats)}}};\n"
        "  return blade_lookup::RunLookup(blade_lookup::plan, options, host, ctx, inputs);"
    )
    return executable_source(
        name,
        comment=f"{name}: {len(lookup.bags)} bags of {len(lookup.streams)} streams",
        kernels=body,
        run=run,
        n_inputs=len(lookup.inputs),
        n_outputs=len(lookup.outputs),
        refusals=refusals(printer),
    )


def refusals(printer: PlanPrinter) -> list[str]:
    """What each refusal number of kernels/plan.h means, from 1."""
    return [
        f"column '{column}': {reason}" if column else reason
        for column in printer.columns
        for reason in _reasons()
    ]


@cache
def _reasons() -> list[str]:
    text = (_KERNELS / "plan.h").read_text()
    found = re.search(r"kReasons\[\] = \{(.*?)\};", text, re.DOTALL)
    assert found is not None
    return re.findall(r'"([^"]+)"', found.group(1))


@cache
def _headers() -> str:
    """The kernels' headers without their includes and guards."""
    texts = []
    for name in _HEADERS:
        text = (_KERNELS / name).read_text()
        text = re.sub(r'^#include ".*"\n', "", text, flags=re.MULTILINE)
        texts.append(text.strip())
    return "\n\n".join(texts)
