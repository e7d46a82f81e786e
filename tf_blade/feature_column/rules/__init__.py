"""What TensorFlow's ops mean to the recogniser, one short rule an op, in files by family."""

from tf_blade.feature_column.rules import (  # noqa: F401  # importing registers the rules
    bags,
    bincount,
    clip,
    elements,
    indices,
    partitions,
    pieces,
    pooling,
    positions,
    shapes,
    tables,
    weighted_indicator,
)
