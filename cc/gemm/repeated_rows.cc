#include "gemm/repeated_rows.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace blade {
namespace {

// Whether 16 bytes are the same.
bool Same(const void* a, const void* b) {
  uint64_t x[2], y[2];
  std::memcpy(x, a, sizeof(x));
  std::memcpy(y, b, sizeof(y));
  return ((x[0] ^ y[0]) | (x[1] ^ y[1])) == 0;
}

constexpr BladeInt kFewestRows = 16, kFewestColumns = 64;  // of A

// The rest is packed anew, which takes as long as a few rows of the product.
bool Pays(BladeInt same, BladeInt k, BladeInt m) { return same > 0 && same * m >= 8 * k; }

}  // namespace

template <typename T>
void RepeatedRows<T>::Compare(const TypedGemm<T>& gemm, BladeInt begin, BladeInt end) {
  int units[kMaxUnits];
  int n = 0;
  for (int unit = 0; unit < n_units_; ++unit) {
    units[n] = unit;
    n += may_be_same_[unit].load(std::memory_order_relaxed);
  }
  const T* first = gemm.a(0);
  for (BladeInt i = begin; i < end && n > 0; ++i) {
    const T* row = first + i * gemm.a_row;
    int left = 0;
    for (int j = 0; j < n; ++j) {
      const int unit = units[j];
      if (Same(first + unit * kUnit, row + unit * kUnit)) {
        units[left++] = unit;
      } else {
        may_be_same_[unit].store(false, std::memory_order_relaxed);
      }
    }
    n = left;
  }
}

template <typename T>
bool RepeatedRows<T>::Find(const TypedGemm<T>& gemm, const GemmHost& host) {
  const BladeInt m = gemm.gemm.m;
  k_ = gemm.gemm.k, same_ = 0, n_runs_ = 0;
  n_units_ = static_cast<int>(std::min<BladeInt>(k_ / kUnit, kMaxUnits));
  if (gemm.gemm.batch > 1 || gemm.a_k != 1 || m < kFewestRows || k_ < kFewestColumns) {
    return false;
  }
  for (int unit = 0; unit < n_units_; ++unit) {
    may_be_same_[unit].store(true, std::memory_order_relaxed);
  }
  const auto count = [this] {
    return std::count_if(may_be_same_, may_be_same_ + n_units_,
                         [](const auto& same) { return same.load(std::memory_order_relaxed); });
  };
  Compare(gemm, m - 1, m);
  const BladeInt likely = count();
  if (!Pays(likely * kUnit, k_, m)) return false;
  struct Args {
    RepeatedRows* self;
    const TypedGemm<T>& gemm;
  };
  const Args args{this, gemm};
  constexpr double kUnitCycles = 5;
  host.parallel_for(
      host.ctx, m - 2, static_cast<double>(likely) * kUnitCycles,
      [](const void* pointer, BladeInt begin, BladeInt end) {
        const Args& args = *static_cast<const Args*>(pointer);
        args.self->Compare(args.gemm, begin + 1, end + 1);
      },
      &args);
  same_ = count() * kUnit;
  if (!Pays(same_, k_, m)) return false;
  for (int unit = 0; unit < n_units_; ++unit) {
    if (!may_be_same_[unit].load(std::memory_order_relaxed)) continue;
    const int begin = unit * kUnit;
    if (n_runs_ == 0 || runs_[n_runs_ - 1].end != begin) runs_[n_runs_++].begin = begin;
    runs_[n_runs_ - 1].end = begin + kUnit;
  }
  return true;
}

template class RepeatedRows<float>;
template class RepeatedRows<double>;

}  // namespace blade
