"""Reading, editing and writing SavedModels as protos; nothing is re-exported."""

from tf_blade.saved_model.bundle import Bundle, MetaGraph
from tf_blade.saved_model.reader import read
from tf_blade.saved_model.regions import Region
from tf_blade.saved_model.signatures import Signature, SignatureTensor
from tf_blade.saved_model.variables import Variable

__all__ = [
    "Bundle",
    "MetaGraph",
    "Region",
    "Signature",
    "SignatureTensor",
    "Variable",
    "read",
]
