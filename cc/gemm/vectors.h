// Vectors of the width that kernels_impl.h was included for, and their first lanes alone. A part of
// it: the same rules hold.
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "gemm/kernels.h"

namespace blade {
namespace {

#define BLADE_INLINE inline __attribute__((always_inline))

template <typename T>
struct VectorOf;
template <>
struct VectorOf<float> {
  typedef float Type __attribute__((vector_size(BLADE_GEMM_VECTOR_BYTES)));
  typedef float Unaligned
      __attribute__((vector_size(BLADE_GEMM_VECTOR_BYTES), aligned(4), may_alias));
  // 16 bytes, for transposing.
  typedef float Quad __attribute__((vector_size(16)));
  typedef float UnalignedQuad __attribute__((vector_size(16), aligned(4), may_alias));
};
template <>
struct VectorOf<double> {
  typedef double Type __attribute__((vector_size(BLADE_GEMM_VECTOR_BYTES)));
  typedef double Unaligned
      __attribute__((vector_size(BLADE_GEMM_VECTOR_BYTES), aligned(8), may_alias));
  typedef double Quad __attribute__((vector_size(16)));
  typedef double UnalignedQuad __attribute__((vector_size(16), aligned(8), may_alias));
};

template <typename T>
using Vec = typename VectorOf<T>::Type;
template <typename T>
using Quad = typename VectorOf<T>::Quad;

template <typename T>
constexpr int kLanes = BLADE_GEMM_VECTOR_BYTES / sizeof(T);

template <typename T>
BLADE_INLINE Vec<T> Load(const T* from) {
  return *reinterpret_cast<const typename VectorOf<T>::Unaligned*>(from);
}

template <typename T>
BLADE_INLINE void Store(T* to, Vec<T> value) {
  *reinterpret_cast<typename VectorOf<T>::Unaligned*>(to) = value;
}

template <typename T>
BLADE_INLINE Vec<T> Relu(Vec<T> x) {
  return x < Vec<T>{} ? Vec<T>{} : x;
}

// Loads and stores whole vectors.
template <typename T>
struct Whole {
  BLADE_INLINE Vec<T> Load(const T* from) const { return blade::Load(from); }
  BLADE_INLINE void Store(T* to, Vec<T> x) const { blade::Store(to, x); }
};

// Loads and stores the first n lanes of a vector, or all if n is more; what lies behind them is not
// touched. The other lanes of a loaded vector are 0.
template <typename T>
class First;

#if defined(__AVX512F__)
template <>
class First<float> {
 public:
  explicit First(BladeInt n) : mask_(n < 16 ? static_cast<__mmask16>((1u << n) - 1) : 0xffff) {}
  BLADE_INLINE Vec<float> Load(const float* from) const {
    return _mm512_maskz_loadu_ps(mask_, from);
  }
  BLADE_INLINE void Store(float* to, Vec<float> x) const { _mm512_mask_storeu_ps(to, mask_, x); }

 private:
  const __mmask16 mask_;
};

template <>
class First<double> {
 public:
  explicit First(BladeInt n) : mask_(n < 8 ? static_cast<__mmask8>((1u << n) - 1) : 0xff) {}
  BLADE_INLINE Vec<double> Load(const double* from) const {
    return _mm512_maskz_loadu_pd(mask_, from);
  }
  BLADE_INLINE void Store(double* to, Vec<double> x) const { _mm512_mask_storeu_pd(to, mask_, x); }

 private:
  const __mmask8 mask_;
};
#elif defined(__AVX2__)
template <>
class First<float> {
 public:
  explicit First(BladeInt n)
      : mask_(_mm256_cmpgt_epi32(_mm256_set1_epi32(n < 8 ? static_cast<int>(n) : 8),
                                 _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))) {}
  BLADE_INLINE Vec<float> Load(const float* from) const { return _mm256_maskload_ps(from, mask_); }
  BLADE_INLINE void Store(float* to, Vec<float> x) const { _mm256_maskstore_ps(to, mask_, x); }

 private:
  const __m256i mask_;
};

template <>
class First<double> {
 public:
  explicit First(BladeInt n)
      : mask_(_mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3))) {}
  BLADE_INLINE Vec<double> Load(const double* from) const {
    return _mm256_maskload_pd(from, mask_);
  }
  BLADE_INLINE void Store(double* to, Vec<double> x) const { _mm256_maskstore_pd(to, mask_, x); }

 private:
  const __m256i mask_;
};
#else
template <typename T>
class First {
 public:
  explicit First(BladeInt n) : n_(n < kLanes<T> ? n : kLanes<T>) {}
  BLADE_INLINE Vec<T> Load(const T* from) const {
    Vec<T> x = {};
    for (BladeInt i = 0; i < n_; ++i) x[i] = from[i];
    return x;
  }
  BLADE_INLINE void Store(T* to, Vec<T> x) const {
    if (n_ == kLanes<T>) return blade::Store(to, x);
    for (BladeInt i = 0; i < n_; ++i) to[i] = x[i];
  }

 private:
  const BladeInt n_;
};
#endif

}  // namespace
}  // namespace blade
