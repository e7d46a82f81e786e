#include "op_call.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "conv/conv.h"
#include "fft/fft.h"
#include "gemm/gemm.h"
#include "huge_pages.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/platform/env.h"
#include "thread_pool.h"

namespace blade {

using tensorflow::DT_RESOURCE;
using tensorflow::LookupResource;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::Var;
using tensorflow::core::RefCountPtr;

namespace {

constexpr uintptr_t kInputAlignment = 16;  // of BladeTensor::data

bool MakeShape(int rank, const BladeInt* dims, TensorShape* shape) {
  static_assert(sizeof(BladeInt) == sizeof(int64_t));
  const absl::InlinedVector<int64_t, 8> sizes(dims, dims + rank);
  return TensorShape::BuildTensorShape(sizes, shape).ok();
}

// How many calls are running. They share the threads: with as many clients as threads each works
// alone, since handing work around then costs time and gains none.
std::atomic<int> running{0};

OpCall& From(void* ctx) { return *static_cast<OpCall*>(ctx); }

}  // namespace

OpCall::OpCall(OpKernelContext* ctx, const CallInputs& sources, int n_inputs,
               const CallProducts* products, ClusterCounters* counters, CallHistory* history)
    : ctx_(ctx),
      sources_(sources),
      n_inputs_(n_inputs),
      products_(products),
      counters_(counters),
      history_(history) {
  const bool alone = running.fetch_add(1, std::memory_order_relaxed) == 0;
  size_ = Size();
  const int64_t last = history_->size.load(std::memory_order_relaxed);
  // Half the size is likely to be worth it too, and a crew that was called in vain isn't again.
  if (alone && last >= 0 && size_ >= last / 2) {
    crew_ = std::make_shared<Crew>();
    const int helpers = std::min(history_->helpers.load(std::memory_order_relaxed), Threads() - 1);
    Crew::Call(crew_, helpers, Scheduler());
  }
}

OpCall::~OpCall() {
  if (crew_ != nullptr) {
    crew_->Dismiss();
    history_->size.store(helpers_ > 0 ? size_ : -1, std::memory_order_relaxed);
    history_->helpers.store(helpers_, std::memory_order_relaxed);
  }
  running.fetch_sub(1, std::memory_order_relaxed);
  for (Var* variable : locked_) variable->mu()->unlock_shared();
}

bool OpCall::TakeVariables(int count) {
  variables_.reserve(count);
  values_.reserve(count);
  std::vector<RefCountPtr<Var>> by_name;
  if (!sources_.LookUp(ctx_, &by_name).ok()) return false;
  bool in_place = false;
  auto named = by_name.begin();
  for (int i = 0; i < n_inputs_; ++i) {
    if (sources_.dtype(i) != DT_RESOURCE) continue;
    variables_.emplace_back();
    if (sources_.kind(i) == kVariable) {
      variables_.back() = std::move(*named++);
      if (variables_.back() == nullptr) return false;
    } else {
      const Tensor* handle = sources_.At(ctx_, i);
      if (handle == nullptr || handle->NumElements() != 1) return false;
      const auto& resource = handle->scalar<tensorflow::ResourceHandle>()();
      if (!LookupResource(ctx_, resource, &variables_.back()).ok()) return false;
    }
    in_place |= variables_.back()->copy_on_read_mode.load();
  }
  if (in_place) {
    // In one order everywhere, or two calls and two writers could wait for each other.
    for (const auto& variable : variables_) locked_.push_back(variable.get());
    std::sort(locked_.begin(), locked_.end());
    locked_.erase(std::unique(locked_.begin(), locked_.end()), locked_.end());
    for (Var* variable : locked_) variable->mu()->lock_shared();
  }
  for (const auto& variable : variables_) {
    if (in_place) {
      values_.push_back(*variable->tensor());
    } else {
      tensorflow::tf_shared_lock lock(*variable->mu());
      // A writer may have turned the mode on since it was looked at.
      if (variable->copy_on_read_mode.load()) return false;
      values_.push_back(*variable->tensor());
    }
    if (!values_.back().IsInitialized()) return false;
  }
  MoveTables();
  return true;
}

void OpCall::MoveTables() const {
  if (history_->moving_tables.load(std::memory_order_relaxed) || HugePageSize() == 0) return;
  if (history_->moving_tables.exchange(true)) return;
  std::vector<Tensor> tables;
  for (const Tensor& value : values_) {
    if (value.TotalBytes() >= HugePageSize()) tables.push_back(value);
  }
  if (tables.empty()) return;
  // Each is held while it is moved: a variable that is assigned meanwhile gets a buffer of its own.
  ctx_->env()->SchedClosure([tables = std::move(tables)]() mutable {
    for (; !tables.empty(); tables.pop_back()) {
      MoveToHugePages(tables.back().data(), tables.back().TotalBytes());
    }
  });
}

int OpCall::TakeInputs() {
  const int n = n_inputs_;
  int n_variables = 0;
  for (int i = 0; i < n; ++i) n_variables += sources_.dtype(i) == DT_RESOURCE;
  if (n_variables > 0 && !TakeVariables(n_variables)) return BLADE_HOST_ERROR;

  tensors_.resize(n);
  int total_rank = 0;
  int variable = 0;
  for (int i = 0; i < n; ++i) {
    const bool is_variable = sources_.dtype(i) == DT_RESOURCE;
    tensors_[i] = is_variable ? &values_[variable++] : sources_.At(ctx_, i);
    if (tensors_[i] == nullptr) return BLADE_HOST_ERROR;
    total_rank += tensors_[i]->dims();
  }
  dims_.resize(total_rank);
  inputs_.resize(n);
  BladeInt* dims = dims_.data();
  for (int i = 0; i < n; ++i) {
    const Tensor& tensor = *tensors_[i];
    BladeTensor& input = inputs_[i];
    input.data = tensor.data();
    input.dims = dims;
    input.rank = tensor.dims();
    input.dtype = tensor.dtype();
    for (int d = 0; d < input.rank; ++d) *dims++ = tensor.dim_size(d);
    // A slice of another tensor may begin anywhere; strings are objects, and aligned as such.
    if (reinterpret_cast<uintptr_t>(input.data) % kInputAlignment != 0 &&
        tensor.dtype() != tensorflow::DT_STRING) {
      Tensor copy;
      if (!ctx_->allocate_temp(tensor.dtype(), tensor.shape(), &copy).ok()) {
        return BLADE_OUT_OF_MEMORY;
      }
      std::memcpy(copy.data(), tensor.data(), tensor.TotalBytes());
      input.data = copy.data();
      copies_.push_back(std::move(copy));
    }
  }
  return BLADE_OK;
}

int OpCall::Finish(int status) {
  for (int i = 0; status == BLADE_OK && i < ctx_->num_outputs(); ++i) {
    if (ctx_->mutable_output(i) == nullptr) status = BLADE_HOST_ERROR;
  }
  if (status == BLADE_OK) return status;
  for (int i = 0; i < ctx_->num_outputs(); ++i) {
    if (ctx_->mutable_output(i) != nullptr) delete ctx_->release_output(i).tensor;
  }
  return status;
}

void* OpCall::AllocateOutput(int index, int rank, const BladeInt* dims) {
  alignas(64) static char empty[64];
  TensorShape shape;
  Tensor* output = nullptr;
  if (index < 0 || index >= ctx_->num_outputs() || ctx_->mutable_output(index) != nullptr ||
      !MakeShape(rank, dims, &shape) || !ctx_->allocate_output(index, shape, &output).ok()) {
    return nullptr;
  }
  return output->NumElements() == 0 ? empty : output->data();
}

int OpCall::ForwardInput(int index, int input, int rank, const BladeInt* dims) {
  TensorShape shape;
  if (index < 0 || index >= ctx_->num_outputs() || ctx_->mutable_output(index) != nullptr ||
      input < 0 || input >= n_inputs_ ||
      tensors_[input]->dtype() != ctx_->expected_output_dtype(index) ||
      !MakeShape(rank, dims, &shape)) {
    return BLADE_HOST_ERROR;
  }
  Tensor output(tensors_[input]->dtype());
  if (!output.CopyFrom(*tensors_[input], shape)) return BLADE_HOST_ERROR;  // shares the buffer
  ctx_->set_output(index, std::move(output));
  return BLADE_OK;
}

void* OpCall::AllocateTemp(BladeInt bytes) {
  if (bytes < 0) return nullptr;
  // Never empty: an empty tensor has no address.
  const TensorShape shape({bytes > 0 ? static_cast<int64_t>(bytes) : 1});
  if (!ctx_->allocate_temp(tensorflow::DT_INT8, shape, &temp_).ok()) return nullptr;
  return temp_.data();
}

int64_t OpCall::Size() const {
  for (int i = 0; i < n_inputs_; ++i) {
    if (sources_.kind(i) != kEdge && sources_.kind(i) != kArgument) continue;
    if (sources_.dtype(i) == DT_RESOURCE) continue;
    if (products_ != nullptr && products_->is_constant[i]) continue;
    const Tensor* tensor = sources_.At(ctx_, i);
    return tensor != nullptr ? tensor->NumElements() : 0;
  }
  return 0;
}

int OpCall::Threads() const {
  const int all = ctx_->device()->tensorflow_cpu_worker_threads()->num_threads;
  return std::max(1, all / running.load(std::memory_order_relaxed));
}

void OpCall::ParallelFor(BladeInt total, double cost_cycles, BladeBody body, const void* args) {
  if (total <= 0) return;
  const int threads = Threads();
  const BladeInt block = BlockSize(total, cost_cycles, threads);
  if (block >= total) return body(args, 0, total);
  if (crew_ == nullptr) crew_ = std::make_shared<Crew>();
  const int helpers = Crew::Run(crew_, total, block, threads - 1, body, args, Scheduler());
  helpers_ = std::max(helpers_, helpers);
}

const PackedB* OpCall::Packed(const BladeGemm& gemm) const {
  const int input = gemm.b_constant_input;
  if (products_ == nullptr || input < 0 || input >= n_inputs_ || !products_->is_constant[input] ||
      gemm.b != tensors_[input]->data()) {
    return nullptr;
  }
  const PackedB* packed = products_->packed->Find(gemm);
  if (packed != nullptr) return packed;
  return products_->packed->FindOrPack(gemm, std::make_shared<Tensor>(*tensors_[input]));
}

GemmHost OpCall::ProductHost() {
  return {kHost.parallel_for, this, ctx_->device()->tensorflow_cpu_worker_threads()->num_threads,
          products_ == nullptr || products_->find_repeats ? kHost.count : nullptr};
}

int OpCall::Gemm(const BladeGemm& gemm) { return RunGemm(gemm, ProductHost(), Packed(gemm)); }

int OpCall::Conv(const BladeConv& conv) {
  const PackedB* packed = UsesPackedFilter(conv) ? Packed(FilterAsB(conv)) : nullptr;
  return RunConv(conv, ProductHost(), packed);
}

const BladeHost OpCall::kHost = {
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
    [](void* ctx, const BladeConv* conv) { return From(ctx).Conv(*conv); },
    [](void* ctx, const BladeFft* fft) { return RunFft(*fft, From(ctx).ProductHost()); },
    [](void* ctx, int event, BladeInt times) {
      if (event == BLADE_EVENT_REPEATED_ROWS) From(ctx).counters_->CountRepeatedRows(times);
    },
};

}  // namespace blade
