"""The op library and the Python module each have a runtime; a process may use both."""

from __future__ import annotations

import subprocess
import sys

# Both runtimes load their first executable here, from files with the same descriptor number.
BOTH = """
import numpy as np
import tensorflow as tf
from tests.cc.programs import ADD, DENSE, executable
from tests.ops.calls import add, counts, dense
from tf_blade import _runtime

one = tf.ones([2, 2])
containers = executable(ADD), executable(DENSE)
assert add(one, one, cluster="add")[0].numpy().tolist() == [[2, 2], [2, 2]]
module_dense = _runtime.Executable(containers[1])
assert (module_dense.n_inputs, module_dense.n_outputs) == (3, 1)
module_add = _runtime.Executable(containers[0])
assert (module_add.n_inputs, module_add.n_outputs) == (2, 2)
assert dense(one, one, tf.ones([2]), cluster="dense").numpy().tolist() == [[3, 3], [3, 3]]
y, _ = module_add.run([one.numpy(), one.numpy()], [np.dtype(np.float32)] * 2)
assert y.tolist() == [[2, 2], [2, 2]]
assert counts("add").launches == counts("dense").launches == 1
print("both")
"""


def test_neither_takes_the_other_s_executable_for_its_own():
    result = subprocess.run([sys.executable, "-c", BOTH], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-3000:]
    assert result.stdout.strip() == "both"
