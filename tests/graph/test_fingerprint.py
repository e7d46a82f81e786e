import tensorflow as tf

from tests.passes.graphs import function_graph
from tf_blade.graph.bodies import Bodies
from tf_blade.graph.fingerprint import Fingerprint, Fingerprints

X = tf.TensorSpec([2], tf.float32, name="x")
Y = tf.TensorSpec([2], tf.float32, name="y")


def fingerprint(function, *signature, arguments=("a", "b")) -> Fingerprint | None:
    graph = function_graph(function, *(signature or (X, Y)))
    library = dict(graph.library) | {graph.name: graph.to_function_def()}
    count = len(graph.args)
    return Fingerprints(Bodies(library)).of(graph.name, arguments[:count])


def plain(x, y):
    return tf.exp(x) * y + 1.0


def test_names_calls_and_identities_do_not_matter():
    exp = tf.function(lambda v: tf.exp(v, name="another_name"))

    def in_pieces(x, y):
        x = tf.stop_gradient(exp(tf.identity(x)))
        return tf.identity(x * y) + 1.0

    assert fingerprint(in_pieces) == fingerprint(plain)


def test_arguments_are_known_by_what_they_are_bound_to():
    swapped = fingerprint(lambda x, y: tf.exp(y) * x + 1.0)
    assert swapped != fingerprint(plain)
    rebound = fingerprint(lambda x, y: tf.exp(y) * x + 1.0, arguments=("b", "a"))
    assert rebound == fingerprint(plain)


def test_constants_attributes_and_result_order_matter():
    def product(x, y, transpose):
        return tf.matmul(tf.reshape(x, [1, 2]), tf.reshape(y, [2, 1]), transpose_a=transpose)

    different = [
        plain,
        lambda x, y: tf.exp(x) * y + 2.0,
        lambda x, y: (tf.exp(x), y),
        lambda x, y: (y, tf.exp(x)),
        lambda x, y: tf.reduce_sum(x, keepdims=True) + y,
        lambda x, y: tf.reduce_sum(x, keepdims=False) + y,
    ]
    found = [fingerprint(function) for function in different]
    assert len({(f.outputs, f.effects) for f in found}) == len(different)


def test_branches_are_compared_by_what_they_do():
    def branching(factor):
        return lambda x, y: tf.cond(x[0] > 0, lambda: x * factor, lambda: y)

    assert fingerprint(branching(2.0)) == fingerprint(branching(2.0))
    assert fingerprint(branching(2.0)) != fingerprint(branching(3.0))


def test_an_assertion_counts_and_its_message_does_not():
    def checked(limit, message):
        def body(x, y):
            tf.debugging.Assert(x[0] < limit, [message])
            return plain(x, y)

        return body

    assert fingerprint(checked(1.0, "a")) == fingerprint(checked(1.0, "b"))
    assert fingerprint(checked(1.0, "a")) != fingerprint(checked(2.0, "a"))
    assert fingerprint(checked(1.0, "a")) != fingerprint(plain)


def test_functions_that_write_cannot_be_compared():
    variable = tf.Variable([1.0, 1.0])

    def writes(x):
        variable.assign(x)
        return x

    assert fingerprint(writes, X) is None
    assert fingerprint(lambda x: x + variable, X) is not None


def test_size_counts_what_computes():
    assert fingerprint(plain).size == 4  # Exp, Mul, the constant, AddV2
