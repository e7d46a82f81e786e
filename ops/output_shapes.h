// The shape function of ops that declare their outputs' shapes in an attr.
#ifndef TF_BLADE_OPS_OUTPUT_SHAPES_H_
#define TF_BLADE_OPS_OUTPUT_SHAPES_H_

#include <vector>

#include "tensorflow/core/framework/partial_tensor_shape.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace blade {

// Outputs have the shapes of attr "output_shapes", or unknown ones if it has another length.
inline absl::Status DeclaredShapes(tensorflow::shape_inference::InferenceContext* c) {
  std::vector<tensorflow::PartialTensorShape> shapes;
  TF_RETURN_IF_ERROR(c->GetAttr("output_shapes", &shapes));
  const bool declared = static_cast<int>(shapes.size()) == c->num_outputs();
  for (int i = 0; i < c->num_outputs(); ++i) {
    tensorflow::shape_inference::ShapeHandle shape = c->UnknownShape();
    if (declared) TF_RETURN_IF_ERROR(c->MakeShapeFromPartialTensorShape(shapes[i], &shape));
    c->set_output(i, shape);
  }
  return absl::OkStatus();
}

}  // namespace blade

#endif  // TF_BLADE_OPS_OUTPUT_SHAPES_H_
