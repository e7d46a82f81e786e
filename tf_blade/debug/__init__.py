"""Finding out why a model is slow or wrong: `tf-blade replay`, `bisect` and `inspect --trace`.

alone.py     one cluster outside of its model: compiled, by TensorFlow, by the interpreter
suspects.py  compiled code, and models with it, in a child process that they may crash
replay.py    holds these against each other, and times them
variants.py  an optimised model with only some of its clusters, or some of their changes
search.py    halving
blame.py     what in a cluster is wrong before any of the compiler's changes
bisect.py    from a wrong answer to the change that makes it wrong
trace.py     the compiler's changes, in the terminal and as a page
"""
