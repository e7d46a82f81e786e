"""Compiling the graphs of a running process: tf.functions and TF1 sessions.

TensorFlow hands each graph to a Grappler optimizer (ops/jit/), which asks this package:

  service.py        the thread that answers, switching on and off, the end of the process
  graphs.py         a graph as Grappler has it <-> as the passes have it
  shapes.py         shapes of arguments that stand for more than one trace
  compile_graph.py  lookups and clusters of one graph
  executables.py    compiling in the background, each distinct source once
  stats.py          what came of it
"""

from tf_blade.just_in_time.service import disable, enable, jit, jit_stats
from tf_blade.just_in_time.stats import JitStats

__all__ = ["JitStats", "disable", "enable", "jit", "jit_stats"]
