"""The memory-bound graphs: each a function of arrays whose shapes are unknown when it is traced.

Graphs are written the way models write them (Keras' normalisations, BERT's mask, rotary embeddings
by halves), over `x` with `rows` rows of `width`; a graph that needs a multiple of something takes
the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Feeds = dict[str, np.ndarray]
Shape = tuple[int, ...]

GRAPHS: dict[str, Graph] = {}
_GROUPS = 8  # of group_norm
_SPOTS = 16  # pixels of an image of group_norm
_HEADS = 4  # of heads


@dataclass(frozen=True)
class Graph:
    """One graph.

    Attributes:
      name: the signature's name.
      function: TensorFlow tensors to a tensor.
      shapes: (rows, width) -> the shape of each input. All are f32 but `mask`, which is i32 of
        zeros and ones.
    """

    name: str
    function: Callable[..., Any]
    shapes: Callable[[int, int], Mapping[str, Shape]]

    def feeds(self, rows: int, width: int) -> Feeds:
        """Random inputs, always the same."""
        random = np.random.default_rng(rows * 65537 + width)
        found: Feeds = {}
        for name, shape in self.shapes(rows, width).items():
            if name == "mask":
                found[name] = (random.random(shape) < 0.8).astype(np.int32)
            elif name == "variance":
                found[name] = random.uniform(0.5, 2.0, shape).astype(np.float32)
            else:
                found[name] = random.standard_normal(shape, np.float32)
        return found

    def specs(self) -> dict[str, Any]:
        """The inputs' TensorSpecs; every dim is unknown."""
        import tensorflow as tf

        return {
            name: tf.TensorSpec([None] * len(shape), _dtype(name), name)
            for name, shape in self.shapes(8, 8).items()
        }


def _dtype(name: str) -> Any:
    return np.int32 if name == "mask" else np.float32


def _graph(shapes: Callable[[int, int], Mapping[str, Shape]]) -> Callable[[Any], Any]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        GRAPHS[function.__name__] = Graph(function.__name__, function, shapes)
        return function

    return register


def _even(n: int) -> int:
    return n + n % 2


def _one(rows: int, width: int) -> dict[str, Shape]:
    return {"x": (rows, width)}


def _scaled(rows: int, width: int) -> dict[str, Shape]:
    return {"x": (rows, width), "gamma": (width,), "beta": (width,)}


@_graph(_scaled)
def layer_norm(x: Any, gamma: Any, beta: Any) -> Any:
    import tensorflow as tf

    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-5)


@_graph(lambda rows, width: _scaled(rows, width) | {"residual": (rows, width)})
def residual_layer_norm(x: Any, gamma: Any, beta: Any, residual: Any) -> Any:
    return layer_norm(x + residual, gamma, beta)


@_graph(lambda rows, width: {"x": (rows, width), "gamma": (width,)})
def rms_norm(x: Any, gamma: Any) -> Any:
    import tensorflow as tf

    return x * tf.math.rsqrt(tf.reduce_mean(tf.square(x), -1, keepdims=True) + 1e-6) * gamma


def _images(rows: int, width: int) -> dict[str, Shape]:
    channels = -(-width // _GROUPS) * _GROUPS
    return {"x": (-(-rows // _SPOTS), _SPOTS, channels), "gamma": (channels,), "beta": (channels,)}


@_graph(_images)
def group_norm(x: Any, gamma: Any, beta: Any) -> Any:
    import tensorflow as tf

    n, spots, channels = tf.unstack(tf.shape(x))
    grouped = tf.reshape(x, [n, spots, _GROUPS, channels // _GROUPS])
    mean, variance = tf.nn.moments(grouped, [1, 3], keepdims=True)
    normal = tf.reshape((grouped - mean) * tf.math.rsqrt(variance + 1e-5), [n, spots, channels])
    return normal * gamma + beta


@_graph(_one)
def softmax(x: Any) -> Any:
    import tensorflow as tf

    return tf.nn.softmax(x)


@_graph(lambda rows, width: {"x": (rows, width), "mask": (rows, width)})
def masked_softmax(x: Any, mask: Any) -> Any:
    import tensorflow as tf

    return tf.nn.softmax(x * 0.125 + (1.0 - tf.cast(mask, tf.float32)) * -1e4)


@_graph(_one)
def log_softmax(x: Any) -> Any:
    import tensorflow as tf

    return tf.nn.log_softmax(x)


@_graph(lambda rows, width: {"x": (rows, width), "bias": (width,)})
def gelu_bias(x: Any, bias: Any) -> Any:
    """What is left of GELU, bias and dropout where dropout is off."""
    import tensorflow as tf

    return tf.nn.gelu(x + bias)


@_graph(lambda rows, width: {"x": (rows, 2 * width)})
def swiglu(x: Any) -> Any:
    import tensorflow as tf

    gate, value = tf.split(x, 2, axis=-1)
    return tf.nn.silu(gate) * value


def _angles(rows: int, width: int) -> dict[str, Shape]:
    shape = (rows, _even(width))
    return {"x": shape, "cosine": shape, "sine": shape}


@_graph(_angles)
def rotary(x: Any, cosine: Any, sine: Any) -> Any:
    import tensorflow as tf

    first, second = tf.split(x, 2, axis=-1)
    return x * cosine + tf.concat([-second, first], -1) * sine


@_graph(lambda rows, width: _scaled(rows, width) | {"mean": (width,), "variance": (width,)})
def batch_norm_relu(x: Any, gamma: Any, beta: Any, mean: Any, variance: Any) -> Any:
    import tensorflow as tf

    return tf.nn.relu(tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-3))


@_graph(lambda rows, width: {"x": (rows, width), "y": (rows, width)})
def chain(x: Any, y: Any) -> Any:
    """Ten element-wise ops."""
    import tensorflow as tf

    a = tf.abs(x * 0.5 + y)
    b = tf.maximum(a - 0.25, x) * y
    return tf.minimum(tf.square(b) + x, 4.0) * 0.75 - y


@_graph(_one)
def column_sums(x: Any) -> Any:
    import tensorflow as tf

    return tf.reduce_sum(tf.square(x), 0)


@_graph(lambda rows, width: {"x": (rows, width), "bias": (rows,)})
def transpose(x: Any, bias: Any) -> Any:
    import tensorflow as tf

    return tf.transpose(x) + bias


def _hidden(rows: int, width: int) -> dict[str, Shape]:
    channels = -(-width // _HEADS) * _HEADS
    return {"x": (rows, channels), "bias": (channels,)}


@_graph(_hidden)
def heads(x: Any, bias: Any) -> Any:
    """Rows to heads, as before attention."""
    import tensorflow as tf

    rows, channels = tf.unstack(tf.shape(x))
    return tf.transpose(tf.reshape(x + bias, [rows, _HEADS, channels // _HEADS]), [1, 0, 2])
