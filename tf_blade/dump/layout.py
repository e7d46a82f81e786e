"""Names in a dump's folder.

DUMP/
  dump.json              format, versions, options
  blade_cluster_0/
    cluster.json         nodes, inputs, outputs, types
    nodes.pbtxt          TensorFlow's nodes, as a FunctionDef
    original/            the same with its constants, as a SavedModel
    1_lowered.ir 2_rewritten.ir 3_fused.txt 3_scheduled.txt 4_kernels.cc
    steps.json           every rewrite, inlining and fusion, with before and after
    samples.json         what each of the samples is, or why there are none
    samples/0000.npz     inputs of one call
  blade_lookup_0/
    cluster.json nodes.pbtxt 4_kernels.cc samples.json
    1_lookup.txt         what it computes, as the runtime reads it
    samples/0000.npz     inputs and TensorFlow's outputs of one call
    samples/tables.npz   the tables
"""

from __future__ import annotations

# Goes up when what a reader needs changes.
FORMAT = 1

DUMP = "dump.json"
CLUSTER = "cluster.json"
NODES = "nodes.pbtxt"
ORIGINAL = "original"
LOWERED, REWRITTEN, FUSED = "1_lowered.ir", "2_rewritten.ir", "3_fused.txt"
SCHEDULED, KERNELS = "3_scheduled.txt", "4_kernels.cc"
LOOKUP = "1_lookup.txt"
STEPS = "steps.json"
SAMPLES, SAMPLE_FOLDER = "samples.json", "samples"
TABLES = f"{SAMPLE_FOLDER}/tables.npz"

# The only signature of a cluster's SavedModels.
SIGNATURE = "cluster"
