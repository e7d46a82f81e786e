// Where the inputs of a compiled op come from.
//
// Usually from its edges. A session's graph may have been rewritten by bind_inputs_pass.cc: then
// arguments of the call, constants and resources are found here, and no nodes bring them.
#ifndef TF_BLADE_OPS_CALL_INPUTS_H_
#define TF_BLADE_OPS_CALL_INPUTS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_var.h"

namespace blade {

// The attrs that say so; absent where all inputs are edges.
constexpr char kBoundTypes[] = "bound_types";            // of all inputs
constexpr char kBoundKinds[] = "bound_kinds";            // an InputKind each
constexpr char kBoundIndices[] = "bound_indices";        // in the list of its kind
constexpr char kBoundConstants[] = "bound_constants";    // serialized TensorProtos
constexpr char kBoundContainers[] = "bound_containers";  // of the resources
constexpr char kBoundNames[] = "bound_names";

// kTable: a hash table, which only fallbacks read.
enum InputKind : int64_t { kEdge, kArgument, kConstant, kVariable, kTable };

// One kernel's inputs. Thread-safe after Init.
class CallInputs {
 public:
  // Reads the op's attrs.
  absl::Status Init(tensorflow::OpKernelConstruction* ctx);

  int size() const { return static_cast<int>(types_.size()); }
  tensorflow::DataType dtype(int i) const { return types_[i]; }
  InputKind kind(int i) const { return inputs_[i].kind; }

  // Input i; null if it isn't a tensor, or the call lacks it.
  const tensorflow::Tensor* At(tensorflow::OpKernelContext* ctx, int i) const;

  // Input i, resources as handles: for functions that are called with all inputs.
  absl::StatusOr<tensorflow::Tensor> Value(tensorflow::OpKernelContext* ctx, int i) const;

  // The inputs that are kVariable, in order; null where there is none of that name.
  absl::Status LookUp(tensorflow::OpKernelContext* ctx,
                      std::vector<tensorflow::core::RefCountPtr<tensorflow::Var>>* found) const;

 private:
  struct Input {
    InputKind kind;
    int index;
  };

  std::vector<tensorflow::DataType> types_;
  std::vector<Input> inputs_;
  std::vector<tensorflow::Tensor> constants_;
  std::vector<std::string> containers_, names_;
  std::vector<std::pair<const std::string*, const std::string*>> variables_;

  struct Known {
    tensorflow::core::WeakPtr<tensorflow::Var> variable;
    const void* address;  // of what may be gone
  };

  // The variables that were found last: looking up a name takes several times as long.
  mutable tensorflow::mutex mutex_;
  mutable std::vector<Known> known_ TF_GUARDED_BY(mutex_);
};

}  // namespace blade

#endif  // TF_BLADE_OPS_CALL_INPUTS_H_
