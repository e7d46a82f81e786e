"""Emission: a scheduled program as one C++ source file.

The file is compiled once for each instruction set, with -DBLADE_RUN=<name of the run function>,
and once more with -DBLADE_HAS_<isa> for each of them, which makes the table that the host reads.
It includes nothing: the ABI's text is printed at its top.
"""

from __future__ import annotations

from collections.abc import Sequence

from tf_blade.compiler.emit import c
from tf_blade.compiler.emit.abi import abi_header
from tf_blade.compiler.emit.prelude import prelude
from tf_blade.compiler.emit.run import RunPrinter
from tf_blade.compiler.fuse.plan import Plan
from tf_blade.compiler.ir.program import Program
from tf_blade.compiler.schedule import schedule

# A run function of more kernels than this is optimised little: it only reads shapes and calls, and
# GCC took 30 % of its time for one of a thousand.
MANY_KERNELS = 100
_OPTIMIZED_LITTLE = """#if defined(__GNUC__) && !defined(__clang__)
__attribute__((optimize("O1")))
#endif
"""

# Best first; the name of a variant's run function is derived from it.
ISAS = ("x86-64-v4", "x86-64-v3", "x86-64-v2", "aarch64")


def isa_symbol(isa: str) -> str:
    """The ISA's name as part of a C identifier."""
    return isa.replace("-", "_")


def emit(program: Program, plan: Plan) -> str:
    """The program as C++ source text. The same program gives the same text."""
    source = RunPrinter(schedule(plan)).print()
    kernels = [
        "namespace {",
        prelude(source.functions).rstrip(),
        *source.data,
        *source.kernels,
        "}  // namespace",
    ]
    return executable_source(
        program.name,
        comment=f"{program.name}: generated from\n\n{program}",
        kernels="\n\n".join(s for s in kernels if s),
        run="\n".join(f"  {line}" if line else "" for line in source.run),
        n_inputs=len(program.params),
        n_outputs=len(program.results),
        refusals=source.refusals,
        long_run=len(plan.groups) > MANY_KERNELS,
    )


def executable_source(
    name: str,
    *,
    comment: str,
    kernels: str,
    run: str,
    n_inputs: int,
    n_outputs: int,
    refusals: Sequence[str],
    long_run: bool = False,
) -> str:
    """A source file of the form above.

    Args:
      name: the executable's, for messages.
      comment: what the file begins with.
      kernels: definitions that `run` needs.
      run: the body of the run function; its parameters are host, ctx and inputs.
      refusals: what the numbers mean, from 1, that it returns to refuse inputs.
      long_run: whether `run` is long and has nothing in it that is worth optimising.
    """
    signature = "int BLADE_RUN(const BladeHost* host, void* ctx, const BladeTensor* inputs)"
    sections = [
        "\n".join(c.comment(comment)),
        abi_header(),
        "#ifdef BLADE_RUN  // the kernels, for one instruction set",
        kernels,
        f'extern "C" {signature};',
        f"{_OPTIMIZED_LITTLE if long_run else ''}{signature} {{\n{run}\n}}",
        "#else  // the table of what there is",
        _table(name, n_inputs, n_outputs, refusals),
        "#endif",
    ]
    return "\n\n".join(sections) + "\n"


def _table(name: str, n_inputs: int, n_outputs: int, refusals: Sequence[str]) -> str:
    lines: list[str] = ['extern "C" {']
    for isa in ISAS:
        symbol = isa_symbol(isa)
        lines += [
            f"#ifdef BLADE_HAS_{symbol}",
            f"int blade_run_{symbol}(const BladeHost*, void*, const BladeTensor*);",
            "#endif",
        ]
    lines += ["}", "", "static const BladeVariant variants[] = {"]
    for isa in ISAS:
        symbol = isa_symbol(isa)
        lines += [
            f"#ifdef BLADE_HAS_{symbol}",
            f'    {{"{isa}", blade_run_{symbol}}},',
            "#endif",
        ]
    lines += ["};", "", "static const char* const refusals[] = {"]
    lines += [f"    {c.string(reason)}," for reason in refusals]
    lines += ["    nullptr,", "};", ""]
    lines += [
        "static const BladeExecutable executable = {",
        "    BLADE_ABI_VERSION,",
        f"    {n_inputs},",
        f"    {n_outputs},",
        "    sizeof(variants) / sizeof(variants[0]),",
        "    variants,",
        f"    {len(refusals)},",
        "    refusals,",
        f"    {c.string(name)},",
        "};",
        "",
        'extern "C" __attribute__((visibility("default"))) '
        "const BladeExecutable* blade_executable(void) {",
        "  return &executable;",
        "}",
    ]
    return "\n".join(lines)


__all__ = ["ISAS", "emit", "executable_source", "isa_symbol"]
