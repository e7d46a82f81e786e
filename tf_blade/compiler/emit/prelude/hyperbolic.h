// Hyperbolic functions and their inverses; tanh is in sigmoids.h.

//@ log_of_wide:
// log(x) of positive finite x, to some 40 bits.
INLINE f64 log_of_wide(f64 x) {
  i64 bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  // x = m * 2^e with m in [sqrt(1/2), sqrt(2))
  const i64 e = (bits - 0x3fe6a09e667f3bcd) >> 52;
  const i64 rest = bits - (i64)((u64)e << 52);
  f64 m;
  __builtin_memcpy(&m, &rest, sizeof m);
  const f64 s = (m - 1.0) / (m + 1.0), z = s * s;
  f64 p = 2.0 / 15;
  p = __builtin_fma(p, z, 2.0 / 13);
  p = __builtin_fma(p, z, 2.0 / 11);
  p = __builtin_fma(p, z, 2.0 / 9);
  p = __builtin_fma(p, z, 2.0 / 7);
  p = __builtin_fma(p, z, 2.0 / 5);
  p = __builtin_fma(p, z, 2.0 / 3);
  p = __builtin_fma(p, z, 2.0);
  return __builtin_fma((f64)(i32)e, 0.69314718055994530942, p * s);
}

//@ asinh_f32: log_of_wide
// At most 1 ulp: by its formula in f64, and where that has cancelled by its series.
INLINE f32 asinh_f32(f32 x) {
  const f64 a = __builtin_fabsf(x);
  const f64 b = a < 0x1p128 ? a : 0x1p128;
  const f64 formula = log_of_wide(b + __builtin_sqrt(__builtin_fma(b, b, 1.0)));
  const f64 series = __builtin_fma(a * a * a, -1.0 / 6, a);
  const f64 result = a < 0x1p-10 ? series : a < __builtin_inf() ? formula : a;
  return __builtin_copysignf((f32)result, x);
}

//@ acosh_f32: log_of_wide
// At most 1 ulp.
INLINE f32 acosh_f32(f32 x) {
  const f64 a = x;
  const f64 b = a >= 1.0 ? (a < 0x1p128 ? a : 0x1p128) : 1.0;
  const f64 formula = log_of_wide(b + __builtin_sqrt(__builtin_fma(b, b, -1.0)));
  const f64 result = a < __builtin_inf() ? formula : a;
  return a >= 1.0 ? (f32)result : __builtin_nanf("");
}

//@ atanh_f32: log_of_wide
// At most 1 ulp.
INLINE f32 atanh_f32(f32 x) {
  const f64 a = __builtin_fabsf(x);
  const f64 b = a < 1.0 ? a : 0.0;
  const f64 formula = 0.5 * log_of_wide((1.0 + b) / (1.0 - b));
  const f64 series = __builtin_fma(a * a * a, 1.0 / 3, a);
  const f64 outside = a == 1.0 ? __builtin_inf() : __builtin_nan("");
  const f64 result = a < 0x1p-10 ? series : a < 1.0 ? formula : outside;
  return __builtin_copysignf((f32)result, x);
}

//@ half_exp_f32: bits, exp_rest
// exp(a) / 2 for a >= 0, without overflowing before the result does.
INLINE f32 half_exp_f32(f32 a) {
  const f32 x = a > 91.0f ? 91.0f : a;  // NaN stays
  const f32 shifted = __builtin_fmaf(x, 1.44269504f, 12582912.0f);
  const f32 y = exp_rest(x, shifted - 12582912.0f);
  const u32 n = (u32)bits_of(shifted) - 0x4b400000u;
  return y * from_bits((i32)((n + 62u) << 23)) * 0x1p64f;
}

//@ sinh_f32: half_exp_f32
// At most 2 ulp.
INLINE f32 sinh_f32(f32 x) {
  const f32 a = __builtin_fabsf(x);
  const f32 half = half_exp_f32(a);
  const f32 large = half - 0.25f / half;
  const f32 z = x * x;
  f32 p = 2.81e-6f;
  p = __builtin_fmaf(p, z, 1.9841270e-4f);
  p = __builtin_fmaf(p, z, 8.3333333e-3f);
  p = __builtin_fmaf(p, z, 1.6666667e-1f);
  const f32 small = __builtin_fmaf(p * z, x, x);
  return a < 1.0f ? small : __builtin_copysignf(large, x);
}

//@ cosh_f32: half_exp_f32
// At most 2 ulp.
INLINE f32 cosh_f32(f32 x) {
  const f32 half = half_exp_f32(__builtin_fabsf(x));
  return half + 0.25f / half;
}
