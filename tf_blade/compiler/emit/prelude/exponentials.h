// Exponentials and logarithms.

//@ exp_rest:
// exp(x - n * ln(2)), where that is within ln(2) / 2 of 0: a minimax polynomial, off by 2^-28.
INLINE f32 exp_rest(f32 x, f32 n) {
  f32 r = __builtin_fmaf(n, -0.693145752f, x);
  r = __builtin_fmaf(n, -1.42860677e-6f, r);
  f32 y = 1.38200796e-3f;
  y = __builtin_fmaf(y, r, 8.36868398e-3f);
  y = __builtin_fmaf(y, r, 4.16682735e-2f);
  y = __builtin_fmaf(y, r, 0.166665211f);
  y = __builtin_fmaf(y, r, 0.49999994f);
  y = __builtin_fmaf(y, r, 1.0f);
  return __builtin_fmaf(y, r, 1.0f);
}

//@ exp_in_range_f32: bits, exp_rest
// exp(x) for -131 <= x <= 40. At most 1 ulp.
INLINE f32 exp_in_range_f32(f32 x) {
  // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits; 64 more, that 2^(n + 64)
  // is a normal number. The exponent is moved by it in one addition, and 2^-64 rounds what is below
  // the normal numbers.
  const f32 shifted = __builtin_fmaf(x, 1.44269504f, 12582976.0f);
  const f32 y = exp_rest(x, shifted - 12582976.0f);
  const f32 power = from_bits((i32)((u32)bits_of(y) + ((u32)bits_of(shifted) << 23)));
  return __builtin_fmaf(power, 0x1p-64f, x - x);  // moved, a NaN may be a number: x - x is none
}

//@ exp_decay_f32: exp_in_range_f32
// exp(x) for x <= 0, for half of what exp_f32 costs. At most 1 ulp.
INLINE f32 exp_decay_f32(f32 x) {
  return exp_in_range_f32(x < -131.0f ? -131.0f : x);  // exp(-131) is 0; NaN stays
}

//@ exp_f32: bits, exp_rest
// At most 1 ulp.
INLINE f32 exp_f32(f32 x) {
  const f32 a = x < -176.0f ? -176.0f : x;  // NaN stays
  const i32 shifted = bits_of(__builtin_fmaf(a, 1.44269504f, 12582912.0f));
  const i32 most = 0x4b400000 + 129;  // 2^129 times what is left overflows by itself
  const i32 bits = shifted < most ? shifted : most;
  const f32 y = exp_rest(a, from_bits(bits) - 12582912.0f);
  // 2^n in two factors: n goes down to -150 and less, for results below the normal numbers.
  const u32 half = (u32)(bits >> 1), other = (u32)bits - half;
  return y * from_bits((i32)((half << 23) + 0x3f800000u)) *
         from_bits((i32)((other << 23) + 0x3f800000u));
}

//@ reduced_exp: bits
// exp(x) = 2^n * (1 + r + r^2 q), for finite results; |r| <= ln(2) / 2.
struct ReducedExp {
  i32 n;
  f32 r, q;
};
INLINE ReducedExp reduced_exp(f32 x) {
  // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
  const f32 shifted = __builtin_fmaf(x, 1.44269504f, 12582912.0f);
  const f32 n = shifted - 12582912.0f;
  f32 r = __builtin_fmaf(n, -0.693145752f, x);
  r = __builtin_fmaf(n, -1.42860677e-6f, r);
  f32 q = 1.9875691500e-4f;
  q = __builtin_fmaf(q, r, 1.3981999507e-3f);
  q = __builtin_fmaf(q, r, 8.3334519073e-3f);
  q = __builtin_fmaf(q, r, 4.1665795894e-2f);
  q = __builtin_fmaf(q, r, 1.6666665459e-1f);
  q = __builtin_fmaf(q, r, 5.0000001201e-1f);
  return {bits_of(shifted) - 0x4b400000, r, q};
}

//@ expm1_f32: reduced_exp, clamp_f32, keep_nan
// At most 2 ulp.
INLINE f32 expm1_f32(f32 x) {
  const ReducedExp e = reduced_exp(clamp_f32(x, -18.0f, 89.0f));
  const f32 y = __builtin_fmaf(e.q, e.r * e.r, e.r);
  const f32 half = from_bits((e.n - 1 + 127) << 23);  // 2^(n-1): 2^n would overflow at n = 128
  const f32 result = keep_nan(x, 2.0f * __builtin_fmaf(half, y, half - 0.5f));
  return x == 0 ? x : result;
}

//@ log_f32: bits
// At most 2 ulp.
INLINE f32 log_f32(f32 x) {
  const bool tiny = x < 1.17549435e-38f;
  const i32 bits = bits_of(tiny ? x * 8388608.0f : x);
  // x = m * 2^e with m in [sqrt(1/2), sqrt(2))
  const i32 e_bits = (bits - 0x3f3504f3) >> 23;
  const f32 e = (f32)(e_bits - (tiny ? 23 : 0));
  const f32 f = from_bits(bits - (e_bits << 23)) - 1.0f;
  f32 p = 7.0376836292e-2f;
  p = __builtin_fmaf(p, f, -1.1514610310e-1f);
  p = __builtin_fmaf(p, f, 1.1676998740e-1f);
  p = __builtin_fmaf(p, f, -1.2420140846e-1f);
  p = __builtin_fmaf(p, f, 1.4249322787e-1f);
  p = __builtin_fmaf(p, f, -1.6668057665e-1f);
  p = __builtin_fmaf(p, f, 2.0000714765e-1f);
  p = __builtin_fmaf(p, f, -2.4999993993e-1f);
  p = __builtin_fmaf(p, f, 3.3333331174e-1f);
  const f32 square = f * f;
  f32 y = p * f * square;
  y = __builtin_fmaf(e, -2.12194440e-4f, y);
  y = __builtin_fmaf(square, -0.5f, y);
  const f32 result = __builtin_fmaf(e, 0.693359375f, f + y);
  const f32 special = x == 0 ? -__builtin_inff() : __builtin_nanf("");
  return x > 0 ? (x < __builtin_inff() ? result : x) : special;
}

//@ log1p_f32: log_f32
// At most 3 ulp.
INLINE f32 log1p_f32(f32 x) {
  const f32 u = 1.0f + x;
  const f32 lost = x - (u - 1.0f);  // what rounding u took away
  const bool regular = u > 0 && u < __builtin_inff();
  const f32 result = log_f32(u) + (regular ? lost / u : 0.0f);
  return x == 0 ? x : result;
}

//@ logaddexp_f32: exp_decay_f32, log1p_f32, max_f32, min_f32
// log(exp(a) + exp(b)); NaN for two positive infinities, as in TensorFlow.
INLINE f32 logaddexp_f32(f32 a, f32 b) {
  const f32 high = max_f32(a, b);
  const f32 low = min_f32(a, b);
  return high == -__builtin_inff() ? high : high + log1p_f32(exp_decay_f32(low - high));
}

//@ logaddexp_f64: max_f64, min_f64
INLINE f64 logaddexp_f64(f64 a, f64 b) {
  const f64 high = max_f64(a, b);
  const f64 low = min_f64(a, b);
  return high == -__builtin_inf() ? high : high + __builtin_log1p(__builtin_exp(low - high));
}

//@ pow_f32: bits
// x^y by logarithm and exponential in f64. At most 1 ulp.
INLINE f32 pow_f32(f32 x, f32 y) {
  const f32 a = __builtin_fabsf(x);
  const bool tiny = a < 1.17549435e-38f;
  const i32 bits = bits_of(tiny ? a * 8388608.0f : a);
  // |x| = m * 2^e with m in [sqrt(1/2), sqrt(2))
  const i32 e_bits = (bits - 0x3f3504f3) >> 23;
  const i32 e = e_bits - (tiny ? 23 : 0);
  const f64 m = from_bits(bits - (e_bits << 23));
  const f64 s = (m - 1.0) / (m + 1.0), z = s * s;
  f64 p = 1.0 / 15;
  p = __builtin_fma(p, z, 1.0 / 13);
  p = __builtin_fma(p, z, 1.0 / 11);
  p = __builtin_fma(p, z, 1.0 / 9);
  p = __builtin_fma(p, z, 1.0 / 7);
  p = __builtin_fma(p, z, 1.0 / 5);
  p = __builtin_fma(p, z, 1.0 / 3);
  p = __builtin_fma(p, z, 1.0);
  const f64 regular = __builtin_fma(p * s, 2.88539008177792681472, (f64)e);
  const f64 infinite = a == 0 ? -__builtin_inf() : (f64)a;
  const f64 log2 = a > 0 && a < __builtin_inff() ? regular : infinite;
  const f64 product = (f64)y * log2;
  const f64 low = product < -200.0 ? -200.0 : product;
  const f64 exponent = low > 200.0 ? 200.0 : low;
  const f64 n = __builtin_rint(exponent);
  const f64 f = (exponent - n) * 0.69314718055994530942;
  f64 q = 1.0 / 3628800;
  q = __builtin_fma(q, f, 1.0 / 362880);
  q = __builtin_fma(q, f, 1.0 / 40320);
  q = __builtin_fma(q, f, 1.0 / 5040);
  q = __builtin_fma(q, f, 1.0 / 720);
  q = __builtin_fma(q, f, 1.0 / 120);
  q = __builtin_fma(q, f, 1.0 / 24);
  q = __builtin_fma(q, f, 1.0 / 6);
  q = __builtin_fma(q, f, 0.5);
  q = __builtin_fma(q, f, 1.0);
  q = __builtin_fma(q, f, 1.0);
  const i64 scale_bits = ((i64)(i32)n + 1023) << 52;
  f64 scale;
  __builtin_memcpy(&scale, &scale_bits, sizeof scale);
  const f32 power = (f32)(q * scale);  // overflow and rounding happen here, once
  // & and |, not && and ||: branches would keep the loop from being vectorised.
  const bool one = (x == 1) | (y == 0) | ((a == 1) & (__builtin_fabsf(y) == __builtin_inff()));
  const bool whole = __builtin_floorf(y) == y;
  const bool odd = whole & (__builtin_floorf(y * 0.5f) * 2.0f != y);
  const bool negative = bits_of(x) < 0;
  const bool undefined = negative & !whole & (a > 0) & (a < __builtin_inff());
  const bool nan = (x != x) | (y != y) | undefined;
  const f32 with_sign = (negative & odd) ? -power : power;
  const f32 result = nan ? __builtin_nanf("") : with_sign;
  return one ? 1.0f : result;
}
