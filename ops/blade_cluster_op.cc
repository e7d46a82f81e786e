// The op BladeCluster: a subgraph that was compiled into an executable.
#include "output_shapes.h"
#include "tensorflow/core/framework/op.h"

REGISTER_OP("BladeCluster")
    .Input("inputs: Tin")
    .Output("outputs: Tout")
    .Attr("Tin: list(type) >= 0")
    .Attr("Tout: list(type) >= 0")
    .Attr("fallback: func")
    .Attr("executable: string")
    .Attr("constant_inputs: list(int) = []")
    .Attr("output_shapes: list(shape) = []")
    .Attr("cluster: string = ''")
    .Attr("find_repeats: bool = true")
    .Attr("pending: string = ''")
    .Attr("bound_types: list(type) = []")
    .Attr("bound_kinds: list(int) = []")
    .Attr("bound_indices: list(int) = []")
    .Attr("bound_constants: list(string) = []")
    .Attr("bound_containers: list(string) = []")
    .Attr("bound_names: list(string) = []")
    .SetShapeFn(blade::DeclaredShapes)
    .Doc(R"doc(
Runs a compiled subgraph, or the subgraph itself where the compiled form can't.

fallback: The original subgraph, with the same inputs and outputs. It runs when the executable
  can't be used on this machine or doesn't cover the inputs; its results and errors are the op's.
executable: The compiled subgraph with a header that names the processors it was built for.
constant_inputs: Indices of inputs that are the same tensor in every call.
output_shapes: What is known of the outputs' shapes; empty when nothing is.
cluster: The subgraph's name, for messages and counters.
find_repeats: Whether matrix products look for columns of their left side that are the same in every
  row, and compute what these add once.
pending: Where `executable` is empty: the key of one that is compiled in this process meanwhile (see
  cc/pending_executable.h). The subgraph itself runs until it is there.
bound_types: Set in sessions only, as all bound_* are (see call_inputs.h): the types of all inputs,
  also of those that no edge brings.
bound_kinds: What brings each of these.
bound_indices: Its place in the list of its kind.
bound_constants: The constants, serialized TensorProtos.
bound_containers: The containers of the resources.
bound_names: The names of the resources.
)doc");
