"""Loads SavedModels and asks them; as a script, in a process of its own.

    python -m tests.saved_model.answers JOBS.pickle ANSWERS.pickle

A job is (folder, loader, questions); loaders: "v2" is tf.saved_model.load, "v1" the session loader.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tests.saved_model.zoo import Question

Job = tuple[str, str, list[Question]]
Answer = dict[str, np.ndarray]


def ask(folder: str, loader: str, questions: list[Question]) -> list[Answer]:
    """Answers in the order of the questions; questions with equal tags share one loaded model."""
    return _ask_v2(folder, questions) if loader == "v2" else _ask_v1(folder, questions)


def ask_in_fresh_process(jobs: list[Job], scratch: Path) -> list[list[Answer] | str]:
    """Answers of each job, or the error's text."""
    (scratch / "jobs.pickle").write_bytes(pickle.dumps(jobs))
    command = [sys.executable, "-m", "tests.saved_model.answers"]
    command += [str(scratch / "jobs.pickle"), str(scratch / "answers.pickle")]
    subprocess.run(command, check=True, cwd=Path(__file__).parents[2])
    found: list[list[Answer] | str] = pickle.loads((scratch / "answers.pickle").read_bytes())
    return found


def _ask_v2(folder: str, questions: list[Question]) -> list[Answer]:
    loaded: dict[tuple[str, ...], Any] = {}
    answers = []
    for tags, signature, feeds in questions:
        key = tuple(tags)
        if key not in loaded:
            loaded[key] = tf.saved_model.load(folder, tags=tags)
        outputs = loaded[key].signatures[signature](
            **{name: tf.constant(value) for name, value in feeds.items()}
        )
        answers.append({name: tensor.numpy() for name, tensor in outputs.items()})
    return answers


def _ask_v1(folder: str, questions: list[Question]) -> list[Answer]:
    v1 = tf.compat.v1
    sessions: dict[tuple[str, ...], Any] = {}
    answers = []
    for tags, name, feeds in questions:
        key = tuple(tags)
        if key not in sessions:
            session = v1.Session(graph=tf.Graph())
            sessions[key] = (session, v1.saved_model.load(session, tags, folder))
        session, meta = sessions[key]
        signature = meta.signature_def[name]
        fetches = {key: info.name for key, info in signature.outputs.items()}
        fed = {signature.inputs[key].name: value for key, value in feeds.items()}
        answers.append(session.run(fetches, fed))
    return answers


def _main(jobs_path: str, answers_path: str) -> None:
    found: list[list[Answer] | str] = []
    for job in pickle.loads(Path(jobs_path).read_bytes()):
        try:
            found.append(ask(*job))
        except Exception as error:  # the test shows it
            found.append(f"{type(error).__name__}: {error}")
    Path(answers_path).write_bytes(pickle.dumps(found))


if __name__ == "__main__":
    _main(*sys.argv[1:])
