"""Parts of the `feature_columns` benchmark."""
