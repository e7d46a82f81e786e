"""Sample feeds that the user gives: read from memory or files, and held against the signatures."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.framework import tensor_pb2

from tf_blade.errors import InputError, SignatureError
from tf_blade.graph.types import Shape
from tf_blade.saved_model import Signature, SignatureTensor
from tf_blade.signatures import default_signature, describe

ODD_BATCH = 7

# Signature name -> input name -> shape.
LikelyShapes = Mapping[str, Mapping[str, Shape]]


@dataclass(frozen=True)
class FeedSet:
    """Values for all inputs of one signature, and a name for reports ("batch 7", "inputs[0]")."""

    label: str
    values: Mapping[str, Any]


def likely_shapes(given: Mapping[str, Sequence[FeedSet]]) -> LikelyShapes:
    """The shapes of dense inputs; dims that differ from feed set to feed set are None."""
    found: dict[str, dict[str, Shape]] = {}
    for signature, sets in given.items():
        shapes = found[signature] = dict[str, Shape]()
        for name, value in sets[0].values.items():
            arrays = [feeds.values[name] for feeds in sets]
            if all(isinstance(x, np.ndarray) and x.ndim == value.ndim for x in arrays):
                sizes = zip(*(x.shape for x in arrays), strict=True)
                shapes[name] = tuple(dim[0] if len(set(dim)) == 1 else None for dim in sizes)
    return found


def read_inputs(inputs: Any, signatures: Mapping[str, Signature]) -> dict[str, list[FeedSet]]:
    """Feed sets for each signature that the given inputs fit.

    Args:
      inputs: one of
        - a dict, input name -> array (or list, or number);
        - a list of such dicts;
        - a dict, signature name -> one of the above;
        - the path of an `.npz` file whose keys are input names;
        - the path of a folder with one serialized TensorProto per input, `NAME.pb`, or of a folder
          of such folders (each is one set of feeds).
      signatures: the signatures to be optimised.

    Returns: signature name -> feed sets; signatures whose input names differ are left out.

    Raises:
      InputError: a file that can't be read or is of the wrong kind.
      SignatureError: the feeds fit no signature, or have a wrong name, dtype or shape.
    """
    if isinstance(inputs, str | os.PathLike):
        return _match(_read_path(Path(inputs)), signatures)
    if isinstance(inputs, Mapping) and inputs and all(_is_feeds(v) for v in inputs.values()):
        found = {}
        for name, value in inputs.items():
            if name not in signatures:
                raise SignatureError(
                    f"inputs name the signature '{name}', which is not among those to be optimised "
                    f"({', '.join(signatures)})."
                )
            found[name] = [_fit(feeds, signatures[name]) for feeds in _feed_sets(value)]
        return found
    return _match(_feed_sets(inputs), signatures)


def _is_feeds(value: Any) -> bool:
    """Whether a value stands for whole feeds (not for one tensor)."""
    if isinstance(value, Mapping):
        return True
    return isinstance(value, list) and bool(value) and all(isinstance(v, Mapping) for v in value)


def _feed_sets(value: Any) -> list[FeedSet]:
    if isinstance(value, Mapping):
        return [FeedSet("inputs", value)]
    if isinstance(value, Sequence) and value and all(isinstance(v, Mapping) for v in value):
        return [FeedSet(f"inputs[{i}]", feeds) for i, feeds in enumerate(value)]
    raise InputError(
        f"inputs is of type {type(value).__name__}; it must be a dict of input name -> array, a "
        "list of such dicts, the path of an .npz file or of a folder of TensorProto .pb files."
    )


def _match(sets: list[FeedSet], signatures: Mapping[str, Signature]) -> dict[str, list[FeedSet]]:
    """Fits the sets to every signature with the same input names; to none is an error."""
    names = set(sets[0].values)
    fitting = [sig for sig in signatures.values() if set(sig.inputs) == names]
    if not fitting:
        # Explain against the signature that comes closest.
        default = default_signature(signatures)
        best = max(
            signatures.values(),
            key=lambda sig: (len(names & set(sig.inputs)), sig.name == default),
        )
        _fit(sets[0], best)
    return {sig.name: [_fit(feeds, sig) for feeds in sets] for sig in fitting}


def _fit(feeds: FeedSet, signature: Signature) -> FeedSet:
    """The feeds as arrays of the signature's dtypes. Raises SignatureError where they don't fit."""
    where = f"signature '{signature.name}'"
    for name in feeds.values:
        if name not in signature.inputs:
            close = difflib.get_close_matches(name, signature.inputs, n=1)
            hint = f" Did you mean '{close[0]}'?" if close else ""
            raise SignatureError(
                f"{where} has no input '{name}' (has: {_short(list(signature.inputs))}).{hint} "
                "Rename it in inputs=, or choose another signature with signatures=[…]."
            )
    missing = [name for name in signature.inputs if name not in feeds.values]
    if missing:
        raise SignatureError(
            f"{where}: {feeds.label} has no value for input '{missing[0]}'"
            + (f" (and {len(missing) - 1} more)" if len(missing) > 1 else "")
            + f". It needs: {_short(list(signature.inputs))}."
        )
    values: dict[str, Any] = {}
    for name, info in signature.inputs.items():
        value = feeds.values[name]
        # Sparse and composite tensors are TensorFlow's own objects, which it checks itself.
        dense = info.is_dense
        values[name] = _as_array(value, info, f"{where}, input '{name}'") if dense else value
    return FeedSet(feeds.label, values)


def _as_array(value: Any, info: SignatureTensor, where: str) -> np.ndarray:
    if isinstance(value, tf.Tensor):
        value = value.numpy()
    typed = isinstance(value, np.ndarray | np.generic)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise SignatureError(f"{where}: the value is not a rectangular array ({error}).") from error
    array = _cast(array, info.dtype, typed, where)
    if info.shape is not None:
        fits = len(info.shape) == array.ndim and all(
            want in (None, have) for want, have in zip(info.shape, array.shape, strict=True)
        )
        if not fits:
            raise SignatureError(
                f"{where}: shape {list(array.shape)} does not fit the signature's {describe(info)}."
            )
    return array


def _cast(array: np.ndarray, dtype: tf.DType, typed: bool, where: str) -> np.ndarray:
    if dtype == tf.string:
        if array.dtype.kind in "SU" or (
            array.dtype.kind == "O" and all(isinstance(x, bytes | str) for x in array.ravel())
        ):
            encoded = [x if isinstance(x, bytes) else str(x).encode() for x in array.ravel()]
            flat = np.empty(array.size, object)
            flat[:] = encoded
            return flat.reshape(array.shape)
        raise SignatureError(f"{where}: dtype {array.dtype}, but the signature wants string.")
    wanted = np.dtype(dtype.as_numpy_dtype)
    if array.dtype == wanted:
        return array
    # Python lists and numbers have no dtype of their own: they take the signature's.
    kinds = {"b": "b", "i": "biu", "u": "biu", "f": "biuf", "c": "biufc", "V": "biuf"}
    if not typed and array.dtype.kind in kinds.get(wanted.kind, ""):
        cast = array.astype(wanted)
        if wanted.kind in "iu" and not np.array_equal(cast, array):
            raise SignatureError(f"{where}: values are outside the range of {dtype.name}.")
        return cast
    raise SignatureError(
        f"{where}: dtype {array.dtype}, but the signature wants {dtype.name}. "
        f"Convert it, for instance with .astype('{dtype.name}')."
    )


def _short(names: Sequence[str], limit: int = 8) -> str:
    shown = ", ".join(names[:limit])
    return f"{shown}, … {len(names) - limit} more" if len(names) > limit else shown


# -- files --------------------------------------------------------------------------------


def _read_path(path: Path) -> list[FeedSet]:
    if path.is_dir():
        files = sorted(path.glob("*.pb"))
        if files:
            return [FeedSet("inputs", _read_protos(files))]
        folders = sorted(p for p in path.iterdir() if p.is_dir() and list(p.glob("*.pb")))
        if folders:
            return [FeedSet(p.name, _read_protos(sorted(p.glob("*.pb")))) for p in folders]
        raise InputError(f"'{path}' holds no TensorProto files (NAME.pb, one for each input).")
    if not path.exists():
        raise InputError(f"the inputs file '{path}' does not exist.")
    try:
        loaded = np.load(path, allow_pickle=False)
        if not isinstance(loaded, np.lib.npyio.NpzFile):
            raise InputError(
                f"'{path}' holds one array without a name. Save the feeds with "
                "np.savez(path, input_name=array, …)."
            )
        with loaded:
            return [FeedSet("inputs", {name: loaded[name] for name in loaded.files})]
    except InputError:
        raise
    except Exception as error:  # numpy raises ValueError, BadZipFile, EOFError, …
        hint = ""
        if "allow_pickle" in str(error) or "Object arrays" in str(error):
            hint = " Save strings as bytes: array.astype('S')."
        raise InputError(
            f"can't read '{path}' as an .npz file of arrays: {error}.{hint}"
        ) from error


def _read_protos(files: Sequence[Path]) -> dict[str, np.ndarray]:
    feeds = {}
    for file in files:
        try:
            feeds[file.stem] = tf.make_ndarray(tensor_pb2.TensorProto.FromString(file.read_bytes()))
        except (DecodeError, TypeError, ValueError, OSError) as error:
            raise InputError(f"'{file}' is not a serialized TensorProto: {error}.") from error
    return feeds


# -- more cases from one ------------------------------------------------------------------


def with_other_batches(sets: Sequence[FeedSet], signature: Signature) -> list[FeedSet]:
    """The given sets, and from the first one also a single row and an odd batch with equal rows.

    Only where every input's first dim is unknown and as long as the others': else it may not be a
    batch. A model may still refuse the new sets; whoever runs them must expect that.
    """
    first = sets[0]
    if not signature.inputs or not all(info.is_dense for info in signature.inputs.values()):
        return list(sets)
    lengths = {np.shape(v)[0] if np.ndim(v) else -1 for v in first.values.values()}
    shapes = [info.shape for info in signature.inputs.values()]
    batched = all(shape is not None and shape[:1] == (None,) for shape in shapes)
    if not batched or len(lengths) != 1 or min(lengths) < 1:
        return list(sets)
    (rows,) = lengths
    picks = {
        f"{first.label}, 1 row": [0],
        f"{first.label}, {ODD_BATCH} rows": [(i // 2) % rows for i in range(ODD_BATCH)],
    }
    more = [
        FeedSet(label, {name: value[pick] for name, value in first.values.items()})
        for label, pick in picks.items()
    ]
    return [*sets, *more]
