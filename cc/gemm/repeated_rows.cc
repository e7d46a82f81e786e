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

// The rest is packed anew, which takes as long as a few rows of the product.
bool Pays(BladeInt same, BladeInt k, BladeInt m) { return same > 0 && same * m >= 8 * k; }

}  // namespace

template <typename T>
bool RepeatedRows<T>::Find(const T* a, BladeInt lda, BladeInt m, BladeInt k) {
  k_ = k, same_ = 0, n_runs_ = 0;
  const int limit = static_cast<int>(std::min<BladeInt>(k / kUnit, kMaxUnits));
  if (m < 2) return false;
  int n = 0;
  for (int unit = 0; unit < limit; ++unit) {
    units_[n] = unit;
    n += Same(a + unit * kUnit, a + lda + unit * kUnit);
  }
  for (BladeInt i = 2; i < m; ++i) {
    if (!Pays(BladeInt{n} * kUnit, k, m)) return false;
    const T* row = a + i * lda;
    int left = 0;
    for (int j = 0; j < n; ++j) {
      units_[left] = units_[j];
      left += Same(a + units_[j] * kUnit, row + units_[j] * kUnit);
    }
    n = left;
  }
  same_ = BladeInt{n} * kUnit;
  if (!Pays(same_, k, m)) return false;
  for (int j = 0; j < n; ++j) {
    const int begin = units_[j] * kUnit;
    if (n_runs_ == 0 || runs_[n_runs_ - 1].end != begin) runs_[n_runs_++].begin = begin;
    runs_[n_runs_ - 1].end = begin + kUnit;
  }
  return true;
}

template class RepeatedRows<float>;
template class RepeatedRows<double>;

}  // namespace blade
