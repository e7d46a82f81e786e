// The op BladeCluster: a subgraph that was compiled into an executable.
#include <vector>

#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/partial_tensor_shape.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace {

using tensorflow::PartialTensorShape;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

absl::Status InferShapes(InferenceContext* c) {
  std::vector<PartialTensorShape> shapes;
  TF_RETURN_IF_ERROR(c->GetAttr("output_shapes", &shapes));
  const bool declared = static_cast<int>(shapes.size()) == c->num_outputs();
  for (int i = 0; i < c->num_outputs(); ++i) {
    ShapeHandle shape = c->UnknownShape();
    if (declared) TF_RETURN_IF_ERROR(c->MakeShapeFromPartialTensorShape(shapes[i], &shape));
    c->set_output(i, shape);
  }
  return absl::OkStatus();
}

}  // namespace

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
    .SetShapeFn(InferShapes)
    .Doc(R"doc(
Runs a compiled subgraph, or the subgraph itself where the compiled form can't.

fallback: The original subgraph, with the same inputs and outputs. It runs when the executable
  can't be used on this machine or doesn't cover the inputs; its results and errors are the op's.
executable: The compiled subgraph with a header that names the processors it was built for.
constant_inputs: Indices of inputs that are the same tensor in every call.
output_shapes: What is known of the outputs' shapes; empty when nothing is.
cluster: The subgraph's name, for messages and counters.
)doc");
