// The op BladeLookup: fused embedding columns, interpreted.
#include "output_shapes.h"
#include "tensorflow/core/framework/op.h"

REGISTER_OP("BladeLookup")
    .Input("inputs: Tin")
    .Output("outputs: Tout")
    .Attr("Tin: list(type) >= 0")
    .Attr("Tout: list({float}) >= 1")
    .Attr("fallback: func")
    .Attr("lookup: string")
    .Attr("output_shapes: list(shape) = []")
    .Attr("columns: string = ''")
    .Attr("find_repeats: bool = true")
    .Attr("bound_types: list(type) = []")
    .Attr("bound_kinds: list(int) = []")
    .Attr("bound_indices: list(int) = []")
    .Attr("bound_constants: list(string) = []")
    .Attr("bound_containers: list(string) = []")
    .Attr("bound_names: list(string) = []")
    .SetShapeFn(blade::DeclaredShapes)
    .Doc(R"doc(
Looks up a group of feature columns in one pass, or runs the original subgraph where that can't be
done.

fallback: The original subgraph, with the same inputs and outputs. It runs when the lookup can't be
  read or refuses the inputs; its results and errors are the op's.
lookup: What to compute, as tf_blade.feature_column.text writes it. Inputs after those it reads are
  resources that only the fallback reads.
output_shapes: What is known of the outputs' shapes; empty when nothing is.
columns: The group's name, for messages and counters.
find_repeats: Whether to look for columns that hold the same in every row, and compute them once.
bound_types: Set in sessions only, as all bound_* are (see call_inputs.h): the types of all inputs,
  also of those that no edge brings.
bound_kinds: What brings each of these.
bound_indices: Its place in the list of its kind.
bound_constants: The constants, serialized TensorProtos.
bound_containers: The containers of the resources.
bound_names: The names of the resources.
)doc");
