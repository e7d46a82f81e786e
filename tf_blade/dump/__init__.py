"""Dumps: everything about each cluster of a model, on disk, enough to run it alone.

layout.py     the folder's names and format, as docs/debugging.md describes them
write.py      what `optimize` writes when Config.dump_dir is set
subgraph.py   a cluster as a SavedModel of its own: TensorFlow's nodes, or the compiled op
record.py     inputs of each cluster, caught while the model runs on the check's feeds
read.py       reading a dump, with errors that say what is wrong with it
"""
