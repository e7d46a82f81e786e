"""TensorFlow without oneDNN is what answers are compared with, on every processor.

TensorFlow turns oneDNN on by itself on some processors only, and there its softmax of a row with a
NaN has zeros in it, and some convolutional models crash it (tf_blade/trial.py). Tests of what
happens with oneDNN start processes of their own. TF_ENABLE_ONEDNN_OPTS=1 runs all with it.
"""

import os

os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
