#include "host_standalone.h"

#include <algorithm>
#include <utility>

#include "conv/conv.h"
#include "fft/fft.h"
#include "gemm/gemm.h"

namespace blade {
namespace {

// The number of elements, or -1 when a dimension is negative or the product overflows.
BladeInt Elements(int rank, const BladeInt* dims) {
  BladeInt elements = 1;
  for (int i = 0; i < rank; ++i) {
    if (dims[i] < 0 || __builtin_mul_overflow(elements, dims[i], &elements)) return -1;
  }
  return elements;
}

}  // namespace

const BladeHost StandaloneRun::kHost = {
    BLADE_ABI_VERSION,
    [](void* ctx, int index, int rank, const BladeInt* dims) {
      return static_cast<StandaloneRun*>(ctx)->AllocateOutput(index, rank, dims);
    },
    [](void* ctx, int index, int input, int rank, const BladeInt* dims) {
      return static_cast<StandaloneRun*>(ctx)->ForwardInput(index, input, rank, dims);
    },
    [](void* ctx, BladeInt bytes) -> void* {
      if (bytes < 0) return nullptr;
      AlignedBuffer& temp = static_cast<StandaloneRun*>(ctx)->temp_;
      temp = AlignedBuffer(static_cast<size_t>(bytes));
      return temp.data();
    },
    [](void* ctx, BladeInt total, double cost_cycles, BladeBody body, const void* args) {
      static_cast<StandaloneRun*>(ctx)->ParallelFor(total, cost_cycles, body, args);
    },
    [](void* ctx, const BladeGemm* gemm) { return static_cast<StandaloneRun*>(ctx)->Gemm(*gemm); },
    [](void* ctx, const BladeConv* conv) { return static_cast<StandaloneRun*>(ctx)->Conv(*conv); },
    [](void* ctx, const BladeFft* fft) {
      return RunFft(*fft, static_cast<StandaloneRun*>(ctx)->ProductHost());
    },
    [](void* ctx, int event, BladeInt times) {
      if (event == BLADE_EVENT_REPEATED_ROWS) {
        static_cast<StandaloneRun*>(ctx)->repeated_rows_ += times;
      }
    },
};

StandaloneRun::StandaloneRun(const Executable& executable, const std::vector<int>& output_dtypes,
                             ThreadPool* pool)
    : StandaloneRun(
          [&executable](const BladeHost& host, void* ctx, const BladeTensor* inputs) {
            return executable.Run(host, ctx, inputs);
          },
          executable.n_inputs(), output_dtypes, pool) {
  outputs_.resize(executable.n_outputs());
}

StandaloneRun::StandaloneRun(Program program, int n_inputs, const std::vector<int>& output_dtypes,
                             ThreadPool* pool)
    : program_(std::move(program)), n_inputs_(n_inputs), pool_(pool) {
  outputs_.resize(output_dtypes.size());
  for (size_t i = 0; i < outputs_.size() && i < output_dtypes.size(); ++i) {
    outputs_[i].dtype = output_dtypes[i];
  }
}

int StandaloneRun::Execute(const std::vector<BladeTensor>& inputs) {
  inputs_ = inputs.data();
  repeated_rows_ = 0;
  const int status = program_(kHost, this, inputs_);
  if (status != BLADE_OK) return status;
  for (const StandaloneOutput& output : outputs_) {
    if (output.input < 0 && output.buffer.data() == nullptr) return BLADE_HOST_ERROR;
  }
  return BLADE_OK;
}

void* StandaloneRun::AllocateOutput(int index, int rank, const BladeInt* dims) {
  if (index < 0 || index >= static_cast<int>(outputs_.size())) return nullptr;
  StandaloneOutput& output = outputs_[index];
  const BladeInt elements = Elements(rank, dims);
  BladeInt bytes;
  if (elements < 0 || __builtin_mul_overflow(elements, BladeInt{SizeOf(output.dtype)}, &bytes)) {
    return nullptr;
  }
  output.dims.assign(dims, dims + rank);
  output.input = -1;
  output.buffer = AlignedBuffer(static_cast<size_t>(bytes));
  return output.buffer.data();
}

int StandaloneRun::ForwardInput(int index, int input, int rank, const BladeInt* dims) {
  if (index < 0 || index >= static_cast<int>(outputs_.size()) || input < 0 || input >= n_inputs_) {
    return BLADE_HOST_ERROR;
  }
  const BladeTensor& from = inputs_[input];
  StandaloneOutput& output = outputs_[index];
  if (from.dtype != output.dtype || Elements(rank, dims) != Elements(from.rank, from.dims)) {
    return BLADE_HOST_ERROR;
  }
  output.dims.assign(dims, dims + rank);
  output.input = input;
  return BLADE_OK;
}

void StandaloneRun::ParallelFor(BladeInt total, double cost_cycles, BladeBody body,
                                const void* args) {
  if (total <= 0) return;
  if (pool_ == nullptr) return body(args, 0, total);
  pool_->ParallelFor(total, BlockSize(total, cost_cycles, pool_->threads()), body, args);
}

const PackedB* StandaloneRun::Packed(const BladeGemm& gemm) {
  if (std::find(constant_inputs_.begin(), constant_inputs_.end(), gemm.b_constant_input) ==
      constant_inputs_.end()) {
    return nullptr;
  }
  const PackedB* packed = constants_->Find(gemm);
  return packed != nullptr ? packed : constants_->FindOrPack(gemm, nullptr);
}

GemmHost StandaloneRun::ProductHost() {
  return {kHost.parallel_for, this, pool_ != nullptr ? pool_->threads() : 1, kHost.count};
}

int StandaloneRun::Gemm(const BladeGemm& gemm) {
  return RunGemm(gemm, ProductHost(), Packed(gemm));
}

int StandaloneRun::Conv(const BladeConv& conv) {
  const PackedB* packed = UsesPackedFilter(conv) ? Packed(FilterAsB(conv)) : nullptr;
  return RunConv(conv, ProductHost(), packed);
}

}  // namespace blade
