// Running the function that stands behind a compiled op.
#ifndef TF_BLADE_OPS_FALLBACK_H_
#define TF_BLADE_OPS_FALLBACK_H_

#include <string>
#include <utility>
#include <vector>

#include "call_inputs.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace blade {

// Instantiates and runs the fallback function of one kernel. Thread-safe.
class Fallback {
 public:
  explicit Fallback(tensorflow::NameAttrList function) : function_(std::move(function)) {}

  // Runs it on a call's inputs and sets the context's outputs. On an error none is set.
  absl::Status Run(tensorflow::OpKernelContext* ctx, const CallInputs& call);

 private:
  using Library = tensorflow::FunctionLibraryRuntime;

  absl::Status Instantiate(Library* library, Library::Handle* handle);

  const tensorflow::NameAttrList function_;
  tensorflow::mutex mutex_;
  // A kernel is run by one library, or by a few when it is run eagerly.
  std::vector<std::pair<Library*, Library::Handle>> handles_;
};

}  // namespace blade

#endif  // TF_BLADE_OPS_FALLBACK_H_
