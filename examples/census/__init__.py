"""A wide & deep model on census rows, with every family of feature column."""
