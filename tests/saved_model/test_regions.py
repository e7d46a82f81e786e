"""What is offered for optimising, and what is known of its variables."""

import numpy as np
import pytest
import tensorflow as tf

from tests.saved_model.zoo import v1
from tf_blade import passes, saved_model
from tf_blade.graph.graph import Node
from tf_blade.saved_model import Region


def regions_of(models, name, signatures=None) -> list[Region]:
    return saved_model.read(models[name].path).regions(signatures)


def region_of(models, name, signature) -> Region:
    """The region in which a signature's work begins."""
    return next(r for r in regions_of(models, name) if signature in r.signature_names)


def save(module: tf.Module, path, **signatures) -> list[Region]:
    tf.saved_model.save(module, str(path), signatures=signatures)
    return saved_model.read(path).regions()


def variables(region: Region) -> dict[str, saved_model.Variable]:
    return {v.name.split("/")[0]: v for v in region.variables.values()}


def test_equal_functions_are_one_region(models):
    """Keras writes the same body for `serve` and `serving_default`."""
    (region,) = regions_of(models, "keras3_export")
    assert sorted(region.signature_names) == ["serve", "serving_default"]
    assert any(node.op == "MatMul" for node in region.graph)


def test_a_twin_calls_the_edited_function(tmp_path):
    module = tf.Module()
    module.v, module.w = tf.Variable([2.0, 3.0]), tf.Variable([5.0, 7.0])
    spec = tf.TensorSpec([2], tf.float32, name="x")

    def polynomial(x, a, b):
        for _ in range(6):
            x = tf.tanh(x * a + b)
        return x

    # Captures in another order, equal work; then the same work with the variables swapped.
    module.first = tf.function(lambda x: {"y": polynomial(x, module.v, module.w)}, [spec])
    module.second = tf.function(
        lambda x: {"y": polynomial(x, *reversed([module.w.read_value(), module.v]))}, [spec]
    )
    module.swapped = tf.function(lambda x: {"y": polynomial(x, module.w, module.v)}, [spec])
    names = ("first", "second", "swapped")
    tf.saved_model.save(module, str(tmp_path / "a"), {n: getattr(module, n) for n in names})
    bundle = saved_model.read(tmp_path / "a")
    shared, other = bundle.regions()
    assert shared.signature_names == ["first", "second"] and len(shared.twins) == 1
    assert other.signature_names == ["swapped"]
    for region in (shared, other):
        region.replace(region.graph)
    bundle.write(str(tmp_path / "b"))
    loaded = tf.saved_model.load(str(tmp_path / "b"))
    x = tf.constant([0.1, 0.2])
    for name in names:
        expected = getattr(module, name)(x)["y"]
        np.testing.assert_allclose(loaded.signatures[name](x=x)["y"], expected, rtol=1e-6)


def test_branches_and_loop_bodies_are_regions_with_their_variables(models):
    regions = regions_of(models, "control_flow_v2")
    assert len(regions) == 7  # the function; two branches, cond and body, two cases
    bound = {name for r in regions[1:] for name in variables(r)}
    assert {"scale", "bias"} <= bound


def test_a_loop_variable_has_no_binding(tmp_path):
    module = tf.Module()
    module.offset = tf.Variable([1.0])

    @tf.function(input_signature=[tf.TensorSpec([1], tf.float32, name="x")])
    def predict(x):
        start = tf.constant(0)
        return {
            "y": tf.while_loop(
                lambda i, _: i < 3, lambda i, y: (i + 1, y + module.offset), [start, x]
            )[1]
        }

    module.predict = predict
    body = next(r for r in save(module, tmp_path / "m", p=predict) if "while_body" in r.name)
    assert [v.handle for v in body.variables.values()] == [True]


def test_a_main_graph_loops_counter_has_no_binding(tmp_path):
    """Its first value is a Const of the graph, the next ones aren't."""
    v1.enable_control_flow_v2()
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [], "x")
        y = tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, y * 2.0), [0, x])[1]
        predict = v1.saved_model.predict_signature_def({"x": x}, {"y": tf.identity(y)})
        builder = v1.saved_model.Builder(str(tmp_path / "m"))
        builder.add_meta_graph_and_variables(session, ["serve"], {"predict": predict})
        builder.save()
    _, *functions = saved_model.read(tmp_path / "m").regions()
    assert functions
    counters = {n for r in functions for n in r.variables if "maximum" not in n and r.variables}
    assert not [n for n in counters if "counter" in n or n.startswith("i")]


def test_functions_for_xla_are_left_alone(tmp_path):
    module = tf.Module()
    compiled = tf.function(lambda x: tf.exp(x) * 2.0, jit_compile=True)
    spec = tf.TensorSpec([2], tf.float32, name="x")
    module.predict = tf.function(lambda x: {"y": compiled(x) + 1.0}, [spec])
    (region,) = save(module, tmp_path / "m", predict=module.predict)
    assert not [n for n in region.graph if n.op == "Exp"]


def test_only_the_wanted_signatures_regions(models):
    (region,) = regions_of(models, "shared_functions", ["second"])[:1]
    assert region.signature_names == ["second"]


def test_a_sparse_input_is_three_fed_tensors(tmp_path):
    with tf.Graph().as_default(), v1.Session() as session:
        sparse = v1.sparse_placeholder(tf.float32, [None, 4], "sparse")
        y = tf.identity(v1.sparse_reduce_sum(sparse, 1), name="y")
        predict = v1.saved_model.predict_signature_def({"sparse": sparse}, {"y": y})
        builder = v1.saved_model.Builder(str(tmp_path / "m"))
        builder.add_meta_graph_and_variables(session, ["serve"], {"predict": predict})
        builder.save()
    bundle = saved_model.read(tmp_path / "m")
    sparse = bundle.meta_graphs[0].signatures["predict"].inputs["sparse"]
    assert not sparse.is_dense and len(sparse.tensors) == 3
    (region,) = bundle.regions()
    after = passes.run(region.graph)
    assert len([n for n in after if n.op == "Placeholder"]) == 3
    region.replace(after)
    names = {node.name for node in bundle.meta_graphs[0].graph_def.node}
    assert {n.split(":")[0] for n in sparse.tensors} <= names


def test_every_meta_graph_has_a_region(models):
    assert [r.name for r in regions_of(models, "v1_several_meta_graphs")] == [
        "main graph [serve]",
        "main graph [serve,tripled]",
    ]


# -- variables ----------------------------------------------------------------------------


def test_values_come_from_the_checkpoint(models):
    known = variables(region_of(models, "written_elsewhere", "predict"))
    np.testing.assert_array_equal(known["fixed"].value(), np.full([4], 3.0))
    assert known["fixed"].dtype == tf.float32 and known["fixed"].nbytes == 16


def test_a_variable_that_another_signature_or_a_branch_writes_is_marked(models):
    known = variables(region_of(models, "written_elsewhere", "predict"))
    assert known["fixed"].written_by == ""
    assert "AssignAddVariableOp" in known["total"].written_by
    assert (
        "AssignAddVariableOp" in known["count"].written_by and "cond" in known["count"].written_by
    )


def test_what_only_training_writes_may_be_frozen(models):
    """BatchNormalization's statistics are assigned by the functions traced with training=True."""
    region = region_of(models, "tf_keras_save", "serving_default")
    assert len(region.variables) == 9 and not [v for v in region.variables.values() if v.written_by]


def test_a_function_only_a_user_calls_counts_as_a_writer(tmp_path):
    module = tf.Module()
    module.v = tf.Variable([1.0, 1.0])
    spec = tf.TensorSpec([2], tf.float32, name="x")
    module.child = tf.Module()
    module.child.change = tf.function(lambda x: module.v.assign(x), [spec])
    module.predict = tf.function(lambda x: {"y": x * module.v}, [spec])
    (region,) = save(module, tmp_path / "m", predict=module.predict)
    assert [bool(v.written_by) for v in region.variables.values()] == [True]


def test_a_captured_constant_is_known(models):
    region = region_of(models, "shared_functions", "first")
    (offset,) = (v for v in region.variables.values() if not v.handle)
    np.testing.assert_array_equal(offset.value().ravel(), np.arange(800))


def test_parts_of_a_partitioned_variable_are_slices(models):
    (region,) = regions_of(models, "v1_partitioned_variable")
    parts = [region.variables[f"table/part_{i}"] for i in range(3)]
    assert [p.shape for p in parts] == [(4, 3), (3, 3), (3, 3)]
    whole = saved_model.read(models["v1_partitioned_variable"].path).checkpoint.read("table")
    np.testing.assert_array_equal(np.concatenate([p.value() for p in parts]), whole)


def test_reference_variables_are_known_and_their_writers_too(models):
    (region,) = regions_of(models, "v1_reference_variables")
    known = variables(region)
    assert known["w"].written_by == "", "the training op is in no signature"
    assert "AssignAdd" in known["calls"].written_by


def test_what_the_init_op_writes_is_not_frozen(tmp_path):
    """It runs after the variables were restored."""
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [], "x")
        v = v1.get_variable("v", initializer=1.0, use_resource=True)
        w = v1.get_variable("w", initializer=1.0, use_resource=True)
        y = tf.add(x * v, w, name="y")
        session.run(v1.global_variables_initializer())
        predict = v1.saved_model.predict_signature_def({"x": x}, {"y": y})
        builder = v1.saved_model.Builder(str(tmp_path / "m"))
        builder.add_meta_graph_and_variables(
            session, ["serve"], {"predict": predict}, main_op=v1.assign(v, 5.0).op
        )
        builder.save()
    (region,) = saved_model.read(tmp_path / "m").regions()
    known = variables(region)
    assert known["v"].written_by and not known["w"].written_by


def test_a_table_is_no_variable(models):
    region = region_of(models, "module_with_tables", "predict")
    assert len([n for n in region.graph if n.op.startswith("LookupTableFind")]) == 2
    assert [v.shape for v in region.variables.values() if v.handle] == [(4, 2)]


# -- replacing ----------------------------------------------------------------------------


def test_a_function_with_the_name_of_another_one_is_refused(models):
    bundle = saved_model.read(models["shared_functions"].path)
    region, *_ = bundle.regions()
    functions = list(bundle.meta_graphs[0].library.values())
    with pytest.raises(ValueError, match="already has another function"):
        region.replace(region.graph, {functions[0].signature.name: functions[1]})


def test_other_outputs_are_refused(models):
    (region, *_) = regions_of(models, "shared_functions")
    graph = region.graph
    graph.outputs = graph.outputs[:-1] or [("other", graph.outputs[0][1])]
    with pytest.raises(ValueError, match="other outputs"):
        region.replace(graph)


def test_a_new_node_never_takes_a_name_from_outside_the_cone(models, tmp_path):
    name = "v1_tables_and_assets"
    bundle = saved_model.read(models[name].path)
    (region,) = bundle.regions()
    graph = region.graph
    outside = next(
        n.name for n in bundle.meta_graphs[0].graph_def.node if n.op == "HistogramSummary"
    )
    assert outside not in graph.nodes
    logits = graph.nodes["logits"]
    graph.add(Node(outside, "Identity", list(logits.inputs), attrs=dict(logits.attrs)))
    logits.inputs = [type(logits.inputs[0])(outside)]
    region.replace(graph)
    ops = {n.name: n.op for n in bundle.meta_graphs[0].graph_def.node}
    assert ops[outside] == "HistogramSummary" and ops[f"{outside}_1"] == "Identity"


def test_an_absorbed_output_gets_its_name_back(models, tmp_path):
    """`tripled` is fetched, and read by `out`: passes leave no Identity, writing adds one."""
    bundle = saved_model.read(models["v1_fed_in_the_middle"].path)
    (region,) = bundle.regions()
    graph = region.graph
    graph.redirect(
        {ref: graph.nodes["tripled"].inputs[0] for n, ref in graph.outputs if n == "tripled:0"}
    )
    graph.remove(["tripled"])
    region.replace(passes.run(graph))
    nodes = {n.name: n for n in bundle.meta_graphs[0].graph_def.node}
    assert nodes["tripled"].op == "Identity"


def test_a_fed_tensor_is_never_computed_through(models):
    (region,) = regions_of(models, "v1_fed_in_the_middle")
    after = passes.run(region.graph)
    fed = [n for n in after if n.op == "Placeholder"]
    assert len(fed) == 2, "the text, and a stand-in for the parsed numbers"
    assert "numbers" in after.nodes, "the other signature computes them"
