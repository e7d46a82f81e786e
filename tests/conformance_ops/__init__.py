"""What each op does, as tables: dtypes, broadcasting, empty and rank-0 inputs, NaN and infinities,
indices out of range, class and message of errors. Run as plain TensorFlow and in every other way
that `runners.RUNNERS` lists, and compared."""
