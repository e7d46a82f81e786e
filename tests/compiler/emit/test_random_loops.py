"""Random loops give the reference's answers as generated code, also after the rewrites."""

from __future__ import annotations

import numpy as np

from tests.compiler.batch import compile_batch
from tf_blade.compiler import compile_program
from tf_blade.compiler.ir.builder import Builder
from tf_blade.compiler.ir.interpreter import Refused, run
from tf_blade.compiler.ir.program import Program, Value
from tf_blade.compiler.ir.types import DType
from tf_blade.compiler.ir.verifier import verify
from tf_blade.compiler.rewrite import rewrite

COUNT = 48
KINDS = ("vector", "matrix", "array", "scalar")


class Maker:
    """One random loop: a counter, and a few values that its body makes from one another."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.b = b = Builder(f"loop_{seed}")
        self.n = b.param(DType.I32, [])
        matrix = b.param(DType.F32, [None, 4])
        self.rows = b.shape(matrix)[0]
        self.square = b.param(DType.F32, [4, 4], constant=True)
        array = b.param(DType.F32, [None, None, 4])
        b.same_dim(b.shape(array)[1], self.rows, "rows")
        self.array = b.retype(array, (b.shape(array)[0], self.rows, 4))
        vector = b.param(DType.F32, [4])
        scalar = b.param(DType.F32, [])
        self.first = {"matrix": matrix, "array": self.array, "vector": vector, "scalar": scalar}

    def program(self) -> Program:
        b, rng = self.b, self.rng
        kinds = [str(k) for k in rng.choice(KINDS, rng.integers(1, 5))]
        initial = [b.constant(0, DType.I32), *(self.first[k] for k in kinds)]
        fixed = [self.n, self.square, self.array, self.first["matrix"]]

        def condition(params: list[Value]) -> list[Value]:
            return [b.compare("LT", params[0], params[len(initial)])]

        def body(params: list[Value]) -> list[Value]:
            count, *carried = params[: len(initial)]
            _, square, array, matrix = params[len(initial) :]
            pool = {k: [v for k2, v in zip(kinds, carried, strict=True) if k2 == k] for k in KINDS}
            pool["matrix"].append(matrix)
            for _ in range(rng.integers(1, 8)):
                self.step(pool, count, square, array)
            after = [self.pick(pool, k, old) for k, old in zip(kinds, carried, strict=True)]
            return [b.add(count, b.constant(1, DType.I32)), *after]

        results = b.while_loop(initial, fixed, condition, body)
        return b.finish(results[int(rng.integers(2)) :])

    def pick(self, pool: dict[str, list[Value]], kind: str, old: Value) -> Value:
        """A value of the kind, mostly one that the body made."""
        found = pool[kind]
        return found[int(self.rng.integers(len(found)))] if self.rng.random() < 0.3 else found[-1]

    def step(self, pool: dict[str, list[Value]], count: Value, square: Value, array: Value) -> None:
        b, rng = self.b, self.rng
        matrix = pool["matrix"][int(rng.integers(len(pool["matrix"])))]
        choice = int(rng.integers(8))
        if choice == 0:
            pool["matrix"].append(b.unary("tanh", b.dot_general(matrix, square)))
        elif choice == 1:
            pool["matrix"].append(b.sub(matrix, b.gather(array, count, 0)))
        elif choice == 2:
            pool["vector"].append(b.unary("tanh", b.reduce("sum", matrix, [0])))
        elif choice == 3 and pool["vector"]:
            pool["matrix"].append(b.mul(matrix, pool["vector"][-1]))
        elif choice == 4:
            pool["scalar"].append(b.unary("logistic", b.reduce("max", matrix, [0, 1])))
        elif choice == 5 and pool["array"]:
            target = pool["array"][int(rng.integers(len(pool["array"])))]
            pool["array"].append(b.dynamic_update(target, count, matrix))
        elif choice == 6 and pool["array"]:
            pool["matrix"].append(b.gather(pool["array"][-1], count, 0))
        elif choice == 7 and pool["array"]:
            pool["array"].append(b.binary("min", pool["array"][-1], matrix))

    def inputs(self) -> list[np.ndarray]:
        rng = self.rng
        rows, steps = int(rng.choice([0, 1, 2, 5])), int(rng.choice([0, 1, 3, 6]))
        # The code doesn't look at indices of what has no elements.
        trips = np.int32(rng.integers(-1, steps + (2 if rows else 1)))
        shapes = [(rows, 4), (4, 4), (steps, rows, 4), (4,), ()]
        return [np.asarray(trips), *(rng.standard_normal(s).astype(np.float32) for s in shapes)]


def answer(execute, inputs: list[np.ndarray]) -> list[np.ndarray] | None:  # type: ignore[no-untyped-def]
    try:
        return list(execute(inputs))
    except Refused:
        return None


def test_random_loops_give_the_references_answers():
    makers = [Maker(seed) for seed in range(COUNT)]
    programs = [maker.program() for maker in makers]
    rewritten = [rewrite(Maker(seed).program()) for seed in range(COUNT)]
    for program in (*programs, *rewritten):
        verify(program)
    sources = [compile_program(p) for p in (*programs, *rewritten)]
    hosts = compile_batch(sources)
    answered = refused = 0
    for i, maker in enumerate(makers):
        for _ in range(6):
            inputs = maker.inputs()
            want = answer(lambda x, i=i: run(programs[i], x), inputs)
            for at in (i, COUNT + i):
                kinds = [v.type.dtype for v in programs[i].results]
                got = answer(lambda x, at=at, k=kinds: hosts[at].run(x, k), inputs)
                assert (got is None) == (want is None), f"{inputs[0]} iterations\n{programs[i]}"
                for ours, theirs in zip(got or [], want or [], strict=True):
                    message = f"{inputs[0]} iterations\n{programs[i]}"
                    np.testing.assert_allclose(ours, theirs, 2e-4, 2e-5, err_msg=message)
            answered += want is not None
            refused += want is None
    assert answered > COUNT
    assert refused > 0
