"""The end of a process, forks, and what must not be waited for: in processes of their own."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

BEGIN = """
import os, sys, threading, time
import numpy as np, tensorflow as tf, tf_blade
def score(x): return tf.nn.softmax(tf.exp(x * 0.1) * 2.0 + 1.0) * 3.0 - 1.0
x = tf.ones([8, 64])
config = tf_blade.Config(compiler={compiler!r}, cache_dir={cache!r})
"""


def python(code: str, tmp_path: Path, compiler: str = "g++") -> str:
    """What a new process prints that does not hang and does not crash."""
    begin = BEGIN.format(compiler=compiler, cache=str(tmp_path / "cache"))
    done = subprocess.run(
        [sys.executable, "-c", begin + textwrap.dedent(code)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,  # it takes seconds, or else it hangs
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def endless(tmp_path) -> str:
    """A compiler that takes longer than the tests do."""
    command = tmp_path / "endless_g++"
    command.write_text(
        f'#!/bin/sh\ncase "$*" in *-c*) echo $$ > {tmp_path}/pid; exec sleep 600;; esac\n'
        'exec g++ "$@"\n'
    )
    command.chmod(0o755)
    return str(command)


def test_a_process_ends_while_it_compiles_and_threads_wait_and_ends_its_compiler(endless, tmp_path):
    out = python(
        """
        tf_blade.enable(config=config)
        np.testing.assert_allclose(tf.function(score)(x), score(x), rtol=1e-5)
        while not os.path.exists(os.path.dirname(config.cache_dir) + "/pid"): time.sleep(0.01)
        print(tf_blade.jit_stats().pending)
        tf_blade.enable(wait=True, config=config)
        other = tf.function(lambda x: tf.tanh(score(x) * 2.0))
        threading.Thread(target=lambda: other(x), daemon=True).start()
        while tf_blade.jit_stats().pending < 2: time.sleep(0.01)
        print("end")
        """,
        tmp_path,
        endless,
    )
    assert out == "1\nend\n"
    pid = (tmp_path / "pid").read_text().strip()
    state = Path(f"/proc/{pid}/stat")
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_forked_process_leaves_its_graphs_alone_and_one_that_holds_the_lock_does_not_wait(
    tmp_path,
):
    out = python(
        """
        from tensorflow.python.grappler import tf_optimizer
        from tensorflow.core.protobuf import config_pb2
        tf_blade.enable(wait=True, config=config)
        with tf.Graph().as_default() as graph:
            p = tf.compat.v1.placeholder(tf.float32, [None, 4])
            tf.compat.v1.add_to_collection("train_op", score(p))
            meta_graph = tf.compat.v1.train.export_meta_graph(graph=graph)
        # It runs Grappler without releasing Python's global lock.
        tf_optimizer.OptimizeGraph(config_pb2.ConfigProto(), meta_graph)
        print(tf_blade.jit_stats().graphs)
        sys.stdout.flush()
        if os.fork() == 0:
            try:
                tf_blade.enable(config=config)
            except tf_blade.TfBladeError as error:
                print("forked" in str(error))
            sys.exit(0)  # and not os._exit: what runs at the end runs here, too
        os.wait()
        tf.function(score)(x)
        print(tf_blade.jit_stats().compiled_calls)
        """,
        tmp_path,
    )
    assert out.split() == ["0", "True", "1"]
