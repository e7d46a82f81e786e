"""Saves a tf.function or ConcreteFunction as a SavedModel with one signature."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tf_blade.errors import InputError
from tf_blade.signatures import DEFAULT_SIGNATURE


def save_function(function: Any, path: str) -> None:
    """Saves the function as signature "serving_default", and as the loaded object's `__call__`.

    Raises InputError if the function has no single input signature, or holds resources that can't
    be saved with it.
    """
    concrete = _concrete(function)
    names, specs = _inputs(concrete)
    structured = concrete.structured_outputs
    keys = output_names(structured)

    @tf.function(
        input_signature=[
            tf.TensorSpec(s.shape, s.dtype, n) for n, s in zip(names, specs, strict=True)
        ]
    )
    def signature(*tensors: tf.Tensor) -> dict[str, tf.Tensor]:
        flat = concrete._call_flat(list(tensors), concrete.captured_inputs)
        return dict(zip(keys, tf.nest.flatten(flat, expand_composites=True), strict=True))

    module = tf.Module()
    # Saving finds variables and tables through the module; the function only knows handles.
    module.captured = _captured_objects(function, concrete)
    call = _call_function(function, concrete)
    if call is not None:
        module.__call__ = call
    try:
        tf.saved_model.save(module, path, signatures={DEFAULT_SIGNATURE: signature})
    except AssertionError as error:
        raise InputError(
            "the function uses a table or variable that isn't reachable from it, so it can't be "
            "saved alone. Put both in a tf.Module, save that with tf.saved_model.save and pass "
            "the folder."
        ) from error


def output_names(structured: Any) -> list[str]:
    """Names of a function's outputs in flat order: a dict's keys, else output_0, output_1 …"""
    flat = tf.nest.flatten(structured, expand_composites=True)
    if isinstance(structured, dict) and len(structured) == len(flat):
        return [str(key) for key in sorted(structured)]
    return [f"output_{i}" for i in range(len(flat))]


def _concrete(function: Any) -> Any:
    if isinstance(function, tf.types.experimental.ConcreteFunction):
        return function
    if getattr(function, "input_signature", None) is not None:
        return function.get_concrete_function()
    traced = function._list_all_concrete_functions()
    if len(traced) == 1:
        return traced[0]
    problem = "was never called" if not traced else f"was called with {len(traced)} signatures"
    raise InputError(
        f"the tf.function has no input_signature and {problem}, so its inputs are not known. "
        "Give it one, @tf.function(input_signature=[tf.TensorSpec(…)]), or pass "
        "function.get_concrete_function(tf.TensorSpec(…))."
    )


def _call_function(function: Any, concrete: Any) -> Any:
    """The function under its own argument structure, or None if that has more than tensors.

    A function without input_signature is wrapped: saving it would trace the user's object again.
    """
    if getattr(function, "input_signature", None) is not None:
        return function
    arguments, keywords = concrete.structured_input_signature
    leaves = tf.nest.flatten(arguments)
    if keywords or not all(isinstance(leaf, tf.TypeSpec) for leaf in leaves):
        return None
    return tf.function(lambda *args: concrete(*args), input_signature=arguments)


def _inputs(concrete: Any) -> tuple[list[str], list[tf.TensorSpec]]:
    """Unique names and specs of the tensor arguments, in flat order."""
    flat = tf.nest.flatten(concrete.structured_input_signature, expand_composites=True)
    specs = [spec for spec in flat if isinstance(spec, tf.TensorSpec)]
    names: list[str] = []
    for i, spec in enumerate(specs):
        name = spec.name or f"input_{i}"
        names.append(name if name not in names else f"{name}_{i}")
    return names, specs


def _captured_objects(function: Any, concrete: Any) -> list[Any]:
    """Variables, and trackable objects that the Python function closes over (tables among them)."""
    found = list(concrete.variables)
    python = getattr(function, "python_function", None)
    python = getattr(python, "__wrapped__", python)
    held = [cell.cell_contents for cell in getattr(python, "__closure__", None) or ()]
    code = getattr(python, "__code__", None)
    if python is not None and code is not None:
        held += [python.__globals__[n] for n in code.co_names if n in python.__globals__]
    held.append(getattr(python, "__self__", None))
    found += [v for v in held if isinstance(v, tf.__internal__.tracking.Trackable)]
    unique = {id(value): value for value in found}
    return list(unique.values())
