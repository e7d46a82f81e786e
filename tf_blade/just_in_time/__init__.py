"""Compiling the graphs of a running process: tf.functions and TF1 sessions.

TensorFlow hands each graph to a Grappler optimizer (ops/jit/), which asks this package:

  service.py        the thread that answers, the options, the end of the process
  switch.py         whether TensorFlow hands graphs over
  partial_runs.py   sessions' partial runs, which are left alone
  bridge.py         the C functions
  graphs.py         a graph as Grappler has it <-> as the passes have it
  shapes.py         shapes of arguments that stand for more than one trace
  sizes.py          sizes in a graph that come from the arguments' shapes
  compile_graph.py  lookups and clusters of one graph
  executables.py    compiling in the background, each distinct source once
  stats.py          what came of it

Importing the package brings none of that; `tf_blade` has the names for users.
"""
