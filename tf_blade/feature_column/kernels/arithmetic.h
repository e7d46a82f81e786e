// Element-wise arithmetic where C++ and TensorFlow differ.
#ifndef BLADE_LOOKUP_ARITHMETIC_H_
#define BLADE_LOOKUP_ARITHMETIC_H_

#include "text.h"

namespace blade_lookup {
namespace {

static inline double Floor(double x) { return __builtin_floor(x); }
static inline float Floor(float x) { return __builtin_floorf(x); }
static inline double Rest(double x, double y) { return __builtin_fmod(x, y); }
static inline float Rest(float x, float y) { return __builtin_fmodf(x, y); }

// As FloorDiv: rounds towards negative infinity; integers wrap around; y isn't 0 if T is integral.
template <class T>
static inline T FloorDiv(T x, T y) {
  if constexpr (static_cast<T>(0.5) != 0) {
    return Floor(x / y);
  } else {
    if (y == -1) return static_cast<T>(0 - static_cast<U64>(x));
    return static_cast<T>(x / y - ((x % y != 0) && ((x < 0) != (y < 0))));
  }
}

// As FloorMod: has the sign of y.
template <class T>
static inline T FloorMod(T x, T y) {
  T rest;
  if constexpr (static_cast<T>(0.5) != 0) {
    rest = Rest(x, y);
  } else {
    if (y == -1) return 0;
    rest = static_cast<T>(x % y);
  }
  return rest != 0 && (rest < 0) != (y < 0) ? static_cast<T>(rest + y) : rest;
}

// As Maximum and Minimum: NaN wins.
template <class T>
static inline T Maximum(T x, T y) {
  return x != x ? x : y != y ? y : x < y ? y : x;
}
template <class T>
static inline T Minimum(T x, T y) {
  return x != x ? x : y != y ? y : y < x ? y : x;
}

// As Bucketize: how many of the ascending bounds are not above x. NaN is above all of them.
// The search has no branch that depends on x: which way it goes is a coin toss.
template <class T>
static inline int Bucket(const float* bounds, int n, T x) {
  int low = 0;
  while (n > 1) {
    const int half = n / 2;
    const int above = x < bounds[low + half - 1] ? 0 : -1;
    low += half & above;
    n -= half;
  }
  return n == 0 ? 0 : low + (x < bounds[low] ? 0 : 1);
}

}  // namespace
}  // namespace blade_lookup

#endif  // BLADE_LOOKUP_ARITHMETIC_H_
