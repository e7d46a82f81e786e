"""Random TensorFlow graphs, optimised whole and compared with TensorFlow.

    python -m tests.fuzz --minutes 5       # docs/fuzzing.md says what it does with a failure

`graph_maker` grows a graph step by step, `steps_*` are the steps that are TensorFlow's own,
`spelling` writes the graph in TensorFlow's ops, `case` is the result with its feeds, and `subject`
optimises and runs it.
"""
