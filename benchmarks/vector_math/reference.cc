// How far answers are from f64's, in units of the last place of f32.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <thread>
#include <vector>

namespace {

using Function = double (*)(double, double);

double Logistic(double x, double) {
  return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
}

#define UNARY(name) [](double x, double) { return std::name(x); }

// In the order of __init__.py.
const Function kFunctions[] = {
    UNARY(exp),
    UNARY(expm1),
    UNARY(log),
    UNARY(log1p),
    Logistic,
    UNARY(tanh),
    UNARY(erf),
    UNARY(erfc),
    UNARY(sin),
    UNARY(cos),
    UNARY(tan),
    UNARY(asin),
    UNARY(acos),
    UNARY(atan),
    UNARY(sinh),
    UNARY(cosh),
    UNARY(asinh),
    UNARY(acosh),
    UNARY(atanh),
    UNARY(sqrt),
    [](double x, double) { return 1 / std::sqrt(x); },
    [](double x, double y) { return std::pow(x, y); },
    [](double x, double y) { return std::atan2(x, y); },
};

// The distance of `got` from `exact`, where infinity stands for 2^128. Infinite where only one of
// them is NaN; half a unit for all numbers that are rounded right.
double Ulps(float got, double exact) {
  const bool is_nan = std::isnan(exact);
  if (is_nan || std::isnan(got)) {
    return is_nan && std::isnan(got) ? 0 : std::numeric_limits<double>::infinity();
  }
  if (got == static_cast<float>(exact)) return got == exact ? 0 : 0.5;
  const double most = std::ldexp(1.0, 128);
  const double wide = std::isinf(got) ? std::copysign(most, got) : got;
  const double target = std::fabs(exact) > most ? std::copysign(most, exact) : exact;
  const int exponent = target == 0 ? -126 : std::ilogb(target);
  const int last = (exponent < -126 ? -126 : exponent > 127 ? 127 : exponent) - 23;
  return std::ldexp(std::fabs(wide - target), -last);
}

}  // namespace

extern "C" {

// The largest error of got[i] = function(x[i], y[i]) for i < n, and where it is.
void worst(int function, int64_t n, const float* x, const float* y, const float* got, int threads,
           double* ulps, int64_t* place) {
  std::vector<double> most(threads, -1);
  std::vector<int64_t> where(threads, 0);
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([=, &most, &where] {
      for (int64_t i = n * t / threads; i < n * (t + 1) / threads; ++i) {
        const double off = Ulps(got[i], kFunctions[function](x[i], y[i]));
        if (off > most[t]) most[t] = off, where[t] = i;
      }
    });
  }
  *ulps = -1;
  for (int t = 0; t < threads; ++t) {
    workers[t].join();
    if (most[t] > *ulps) *ulps = most[t], *place = where[t];
  }
}

}  // extern "C"
