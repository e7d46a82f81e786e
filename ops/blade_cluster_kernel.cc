// The CPU kernel of BladeCluster: TensorFlow as a host of the ABI in cc/blade_abi.h.
#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "blade_abi.h"
#include "counters.h"
#include "executable.h"
#include "gemm/gemm.h"
#include "gemm/packed_b.h"
#include "host_standalone.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "thread_pool.h"

namespace {

using tensorflow::DataType;
using tensorflow::FunctionLibraryRuntime;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

constexpr uintptr_t kInputAlignment = 16;  // of BladeTensor::data

// One call of the kernel: the inputs as the ABI has them, and the host's functions.
class Call {
 public:
  Call(OpKernelContext* ctx, const std::vector<bool>& is_constant, blade::PackedConstants* packed)
      : ctx_(ctx), is_constant_(is_constant), packed_(packed) {}

  // The status of Executable::Run. When it isn't 0, the context has no outputs.
  int Run(const blade::Executable& executable) {
    if (!TakeInputs()) return BLADE_OUT_OF_MEMORY;
    int status = executable.Run(kHost, this, inputs_.data());
    for (int i = 0; status == BLADE_OK && i < ctx_->num_outputs(); ++i) {
      if (ctx_->mutable_output(i) == nullptr) status = BLADE_HOST_ERROR;
    }
    if (status != BLADE_OK) ReleaseOutputs();
    return status;
  }

 private:
  static const BladeHost kHost;

  static Call& From(void* ctx) { return *static_cast<Call*>(ctx); }

  bool TakeInputs() {
    const int n = ctx_->num_inputs();
    int total_rank = 0;
    for (int i = 0; i < n; ++i) total_rank += ctx_->input(i).dims();
    dims_.resize(total_rank);
    inputs_.resize(n);
    BladeInt* dims = dims_.data();
    for (int i = 0; i < n; ++i) {
      const Tensor& tensor = ctx_->input(i);
      BladeTensor& input = inputs_[i];
      input.data = tensor.data();
      input.dims = dims;
      input.rank = tensor.dims();
      input.dtype = tensor.dtype();
      for (int d = 0; d < input.rank; ++d) *dims++ = tensor.dim_size(d);
      // A slice of another tensor may begin anywhere.
      if (reinterpret_cast<uintptr_t>(input.data) % kInputAlignment != 0) {
        Tensor copy;
        if (!ctx_->allocate_temp(tensor.dtype(), tensor.shape(), &copy).ok()) return false;
        std::memcpy(copy.data(), tensor.data(), tensor.TotalBytes());
        input.data = copy.data();
        copies_.push_back(std::move(copy));
      }
    }
    return true;
  }

  void ReleaseOutputs() {
    for (int i = 0; i < ctx_->num_outputs(); ++i) {
      if (ctx_->mutable_output(i) != nullptr) delete ctx_->release_output(i).tensor;
    }
  }

  static bool MakeShape(int rank, const BladeInt* dims, TensorShape* shape) {
    static_assert(sizeof(BladeInt) == sizeof(int64_t));
    const absl::InlinedVector<int64_t, 8> sizes(dims, dims + rank);
    return TensorShape::BuildTensorShape(sizes, shape).ok();
  }

  void* AllocateOutput(int index, int rank, const BladeInt* dims) {
    alignas(64) static char empty[64];
    TensorShape shape;
    Tensor* output = nullptr;
    if (index < 0 || index >= ctx_->num_outputs() || ctx_->mutable_output(index) != nullptr ||
        !MakeShape(rank, dims, &shape) || !ctx_->allocate_output(index, shape, &output).ok()) {
      return nullptr;
    }
    return output->NumElements() == 0 ? empty : output->data();
  }

  int ForwardInput(int index, int input, int rank, const BladeInt* dims) {
    TensorShape shape;
    if (index < 0 || index >= ctx_->num_outputs() || ctx_->mutable_output(index) != nullptr ||
        input < 0 || input >= ctx_->num_inputs() ||
        ctx_->input_dtype(input) != ctx_->expected_output_dtype(index) ||
        !MakeShape(rank, dims, &shape)) {
      return BLADE_HOST_ERROR;
    }
    Tensor output(ctx_->input_dtype(input));
    if (!output.CopyFrom(ctx_->input(input), shape)) return BLADE_HOST_ERROR;  // shares the buffer
    ctx_->set_output(index, std::move(output));
    return BLADE_OK;
  }

  void* AllocateTemp(BladeInt bytes) {
    if (bytes < 0) return nullptr;
    // Never empty: an empty tensor has no address.
    const TensorShape shape({bytes > 0 ? static_cast<int64_t>(bytes) : 1});
    if (!ctx_->allocate_temp(tensorflow::DT_INT8, shape, &temp_).ok()) return nullptr;
    return temp_.data();
  }

  void ParallelFor(BladeInt total, double cost_cycles, BladeBody body, const void* args) {
    if (total <= 0) return;
    const auto* workers = ctx_->device()->tensorflow_cpu_worker_threads();
    const BladeInt block = blade::BlockSize(total, cost_cycles, workers->num_threads);
    // A thread of the pool that waits for the pool can wait forever.
    if (block >= total || workers->workers->CurrentThreadId() >= 0) return body(args, 0, total);
    workers->workers->ParallelFor(
        total, tensorflow::thread::ThreadPool::SchedulingParams::Fixed(block),
        [body, args](int64_t begin, int64_t end) { body(args, begin, end); });
  }

  int Gemm(const BladeGemm& gemm) {
    const blade::PackedB* packed = nullptr;
    const int input = gemm.b_constant_input;
    if (input >= 0 && input < ctx_->num_inputs() && is_constant_[input] &&
        gemm.b == ctx_->input(input).data()) {
      packed = packed_->Find(gemm);
      if (packed == nullptr) {
        packed = packed_->FindOrPack(gemm, std::make_shared<Tensor>(ctx_->input(input)));
      }
    }
    const blade::GemmHost host = {kHost.parallel_for, this,
                                  ctx_->device()->tensorflow_cpu_worker_threads()->num_threads};
    return blade::RunGemm(gemm, host, packed);
  }

  OpKernelContext* ctx_;
  const std::vector<bool>& is_constant_;
  blade::PackedConstants* packed_;
  absl::InlinedVector<BladeTensor, 16> inputs_;
  absl::InlinedVector<BladeInt, 64> dims_;
  absl::InlinedVector<Tensor, 1> copies_;  // of inputs that are not aligned
  Tensor temp_;
};

const BladeHost Call::kHost = {
    BLADE_ABI_VERSION,
    [](void* ctx, int index, int rank, const BladeInt* dims) {
      return From(ctx).AllocateOutput(index, rank, dims);
    },
    [](void* ctx, int index, int input, int rank, const BladeInt* dims) {
      return From(ctx).ForwardInput(index, input, rank, dims);
    },
    [](void* ctx, BladeInt bytes) { return From(ctx).AllocateTemp(bytes); },
    [](void* ctx, BladeInt total, double cost_cycles, BladeBody body, const void* args) {
      From(ctx).ParallelFor(total, cost_cycles, body, args);
    },
    [](void* ctx, const BladeGemm* gemm) { return From(ctx).Gemm(*gemm); },
};

// Instantiates and runs the fallback function. Thread-safe.
class Fallback {
 public:
  explicit Fallback(tensorflow::NameAttrList function) : function_(std::move(function)) {}

  absl::Status Run(OpKernelContext* ctx) {
    FunctionLibraryRuntime* library = ctx->function_library();
    if (library == nullptr) {
      return absl::InternalError("BladeCluster needs a function library to run its fallback");
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
    for (int i = 0; i < ctx->num_inputs(); ++i) inputs.push_back(ctx->input(i));
    TF_RETURN_IF_ERROR(library->RunSync(std::move(options), handle, inputs, &outputs));
    if (static_cast<int>(outputs.size()) != ctx->num_outputs()) {
      return absl::InternalError(absl::StrCat("The fallback ", function_.name(), " has ",
                                              outputs.size(), " outputs, the op has ",
                                              ctx->num_outputs()));
    }
    for (int i = 0; i < ctx->num_outputs(); ++i) ctx->set_output(i, std::move(outputs[i]));
    return absl::OkStatus();
  }

 private:
  absl::Status Instantiate(FunctionLibraryRuntime* library,
                           FunctionLibraryRuntime::Handle* handle) {
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

  const tensorflow::NameAttrList function_;
  tensorflow::mutex mutex_;
  // A kernel is run by one library, or by a few when it is run eagerly.
  std::vector<std::pair<FunctionLibraryRuntime*, FunctionLibraryRuntime::Handle>> handles_;
};

class BladeClusterOp : public OpKernel {
 public:
  explicit BladeClusterOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    std::vector<int32_t> constant_inputs;
    tensorflow::NameAttrList fallback;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("constant_inputs", &constant_inputs));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("fallback", &fallback));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("cluster", &cluster_));
    if (cluster_.empty()) cluster_ = name();
    fallback_ = std::make_unique<Fallback>(std::move(fallback));
    counters_ = blade::ClusterCounters::For(cluster_);

    is_constant_.assign(ctx->num_inputs(), false);
    for (const int32_t index : constant_inputs) {
      OP_REQUIRES(ctx, index >= 0 && index < ctx->num_inputs(),
                  absl::InvalidArgumentError(
                      absl::StrCat("BladeCluster ", cluster_, ": constant_inputs has ", index,
                                   ", the op has ", ctx->num_inputs(), " inputs")));
      is_constant_[index] = true;
    }
    packed_ = std::make_unique<blade::PackedConstants>(ctx->num_inputs());
    Load(ctx);
  }

  void Compute(OpKernelContext* ctx) override {
    if (executable_ != nullptr) {
      const int status = Call(ctx, is_constant_, packed_.get()).Run(*executable_);
      if (status == BLADE_OK) {
        counters_->CountLaunch();
        return;
      }
      CountFallback(executable_->Reason(status));
    } else {
      CountFallback(load_error_);
    }
    OP_REQUIRES_OK(ctx, fallback_->Run(ctx));
  }

 private:
  // Sets executable_, or load_error_. A model must load on a machine that can't run its code.
  void Load(OpKernelConstruction* ctx) {
    for (int i = 0; i < ctx->num_inputs() + ctx->num_outputs(); ++i) {
      const bool is_input = i < ctx->num_inputs();
      const int index = is_input ? i : i - ctx->num_inputs();
      const DataType type = is_input ? ctx->input_type(index) : ctx->output_type(index);
      if (blade::SizeOf(type) == 0) {
        load_error_ =
            absl::StrCat(is_input ? "input " : "output ", index, " has dtype ",
                         tensorflow::DataTypeString(type), ", which has no compiled form");
        return;
      }
    }
    // Not GetAttr: it copies, and executables are large.
    const tensorflow::AttrValue* attr = tensorflow::AttrSlice(ctx->def()).Find("executable");
    if (attr == nullptr) {
      load_error_ = "the node has no executable";
      return;
    }
    executable_ = blade::Executable::Load(attr->s(), &load_error_);
    if (executable_ == nullptr) return;
    if (executable_->n_inputs() != ctx->num_inputs() ||
        executable_->n_outputs() != ctx->num_outputs()) {
      load_error_ = absl::StrCat("the executable has ", executable_->n_inputs(), " inputs and ",
                                 executable_->n_outputs(), " outputs, the node ", ctx->num_inputs(),
                                 " and ", ctx->num_outputs());
      executable_ = nullptr;
    }
  }

  void CountFallback(const std::string& cause) {
    if (!counters_->CountFallback(cause)) return;
    LOG(WARNING) << "tf-blade: cluster '" << cluster_ << "' runs in TensorFlow: " << cause
                 << ". Said once; tf_blade.library.counters() has the numbers.";
  }

  std::string cluster_;
  std::shared_ptr<const blade::Executable> executable_;
  std::string load_error_;  // why executable_ is null
  std::vector<bool> is_constant_;
  std::unique_ptr<blade::PackedConstants> packed_;
  std::unique_ptr<Fallback> fallback_;
  blade::ClusterCounters* counters_ = nullptr;
};

REGISTER_KERNEL_BUILDER(Name("BladeCluster").Device(tensorflow::DEVICE_CPU), BladeClusterOp);

}  // namespace
