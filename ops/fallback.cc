#include "fallback.h"

#include <functional>

namespace blade {

using tensorflow::FunctionLibraryRuntime;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

absl::Status Fallback::Run(OpKernelContext* ctx, const CallInputs& call) {
  FunctionLibraryRuntime* library = ctx->function_library();
  if (library == nullptr) {
    return absl::InternalError("no function library to run the fallback in");
  }
  FunctionLibraryRuntime::Handle handle;
  TF_RETURN_IF_ERROR(Instantiate(library, &handle));

  // Everything runs on this thread: it may be one that the function would have to wait for.
  std::function<void(std::function<void()>)> runner = [](const std::function<void()>& f) { f(); };
  FunctionLibraryRuntime::Options options(ctx->step_id());
  options.cancellation_manager = ctx->cancellation_manager();
  options.step_container = ctx->step_container();
  options.stats_collector = ctx->stats_collector();
  options.runner = &runner;
  options.run_all_kernels_inline = true;

  std::vector<Tensor> inputs, outputs;
  for (int i = 0; i < call.size(); ++i) {
    TF_ASSIGN_OR_RETURN(Tensor input, call.Value(ctx, i));
    inputs.push_back(std::move(input));
  }
  TF_RETURN_IF_ERROR(library->RunSync(std::move(options), handle, inputs, &outputs));
  if (static_cast<int>(outputs.size()) != ctx->num_outputs()) {
    return absl::InternalError(absl::StrCat("The fallback ", function_.name(), " has ",
                                            outputs.size(), " outputs, the op has ",
                                            ctx->num_outputs()));
  }
  for (int i = 0; i < ctx->num_outputs(); ++i) ctx->set_output(i, std::move(outputs[i]));
  return absl::OkStatus();
}

absl::Status Fallback::Instantiate(Library* library, Library::Handle* handle) {
  tensorflow::mutex_lock lock(mutex_);
  for (const auto& [known, its_handle] : handles_) {
    if (known == library) {
      *handle = its_handle;
      return absl::OkStatus();
    }
  }
  FunctionLibraryRuntime::InstantiateOptions options;
  TF_RETURN_IF_ERROR(library->Instantiate(
      function_.name(), tensorflow::AttrSlice(&function_.attr()), options, handle));
  handles_.emplace_back(library, *handle);
  return absl::OkStatus();
}

}  // namespace blade
