// Functions that go from one level to another.

//@ exp_less_1:
// exp(r) - 1 for |r| <= ln(2) / 2, off by 2^-28. Halves of the polynomial don't wait for each
// other: long chains fill the processor's queue of waiting instructions.
INLINE f32 exp_less_1(f32 r) {
  const f32 square = r * r;
  const f32 low = __builtin_fmaf(0.166665211f, r, 0.49999994f);
  f32 high = __builtin_fmaf(8.36868398e-3f, r, 4.16682735e-2f);
  high = __builtin_fmaf(1.38200796e-3f, square, high);
  return __builtin_fmaf(__builtin_fmaf(high, square, low), square, r);
}

//@ logistic_f32: bits, exp_less_1
// 1 / (1 + exp(-x)). At most 2 ulp.
INLINE f32 logistic_f32(f32 x) {
  // All is 2^-64 times as large as it is: exp(-x) is a normal number wherever it counts. NaN stays.
  const f32 a = x > 42.0f ? 42.0f : x;
  // n = -x / ln(2), rounded; the low bits are n - 64 with the bias of an exponent. Far below 0, r
  // grows instead of n, and with it the denominator.
  const i32 shifted = bits_of(__builtin_fmaf(a, -1.44269504f, 12582975.0f));
  const i32 most = 0x4b400000 + 63 + 160;
  const i32 bits = shifted < most ? shifted : most;
  const f32 n = from_bits(bits) - 12582975.0f;
  const f32 power = from_bits((i32)((u32)bits << 23));
  const f32 r = __builtin_fmaf(n, -1.42860677e-6f, -__builtin_fmaf(n, 0.693145752f, a));
  return 0x1p-64f / (__builtin_fmaf(power, exp_less_1(r), 0x1p-64f) + power);
}

//@ logistic_f64:
INLINE f64 logistic_f64(f64 x) {
  const f64 e = __builtin_exp(-__builtin_fabs(x));
  return (x >= 0 ? 1.0 : e) / (1.0 + e);
}

//@ tanh_by_exp_f32: exp_decay_f32
// At most 2 ulp.
INLINE f32 tanh_by_exp_f32(f32 x) {
  const f32 a = __builtin_fabsf(x);
  const f32 e = exp_decay_f32(-2.0f * a);
  const f32 large = 1.0f - 2.0f * e / (1.0f + e);
  const f32 z = x * x;
  f32 p = -5.70498872745e-3f;
  p = __builtin_fmaf(p, z, 2.06390887954e-2f);
  p = __builtin_fmaf(p, z, -5.37397155531e-2f);
  p = __builtin_fmaf(p, z, 1.33314422036e-1f);
  p = __builtin_fmaf(p, z, -3.33332819422e-1f);
  const f32 small = __builtin_fmaf(p * z, x, x);
  return __builtin_copysignf(a < 0.625f ? small : large, x);
}

//@ erf_by_exp_f32: exp_decay_f32
// At most 2 ulp.
INLINE f32 erf_by_exp_f32(f32 x) {
  const f32 t = __builtin_fabsf(x);
  const f32 s = x * x;
  // |x| > 475/512: 1 - exp(polynomial)
  f32 r = __builtin_fmaf(-1.72853470e-5f, t, 3.83197126e-4f);
  const f32 u = __builtin_fmaf(-3.88396438e-3f, t, 2.42546219e-2f);
  r = __builtin_fmaf(r, s, u);
  r = __builtin_fmaf(r, t, -1.06777877e-1f);
  r = __builtin_fmaf(r, t, -6.34846687e-1f);
  r = __builtin_fmaf(r, t, -1.28717512e-1f);
  r = __builtin_fmaf(r, t, -t);
  const f32 far = t > 10.0f ? 1.0f : 1.0f - exp_decay_f32(r);
  // otherwise x + x * polynomial
  f32 p = -5.96761703e-4f;
  p = __builtin_fmaf(p, s, 4.99119423e-3f);
  p = __builtin_fmaf(p, s, -2.67681349e-2f);
  p = __builtin_fmaf(p, s, 1.12819925e-1f);
  p = __builtin_fmaf(p, s, -3.76125336e-1f);
  p = __builtin_fmaf(p, s, 1.28379166e-1f);
  const f32 near = __builtin_fmaf(p, x, x);
  return t > 0.927734375f ? __builtin_copysignf(far, x) : near;
}

//@ erfc_by_exp_f32: bits
// At most 2 ulp: erfc(a) is t * exp(-a^2) * (1 + a polynomial of t), with t = 1 / (a + 2).
INLINE f32 erfc_by_exp_f32(f32 x) {
  const f32 size = __builtin_fabsf(x);
  const f32 a = size > 10.1875f ? 10.1875f : size;  // erfc(10.1) is 0 in f32; NaN stays
  const f32 t = 1.0f / (a + 2.0f);
  // t is off by e of itself, which counts c times. What v is rounded by moves the polynomial as
  // far as it moves e, the other way.
  const f32 v = __builtin_fmaf(-2.0f, t, 1.0f);
  const f32 e = __builtin_fmaf(-t, a, v);
  const f32 c = __builtin_fmaf(2.57f, t, 0.98f);
  // The polynomial's first two steps are large, and take one rounding each; the rest are halves
  // that don't wait for each other.
  const f32 w = v - 0.625f, w2 = w * w, w4 = w2 * w2;
  const f32 p2 = __builtin_fmaf(-0.424688101f, w, 0.980985045f);
  const f32 p4 = __builtin_fmaf(0.303558171f, w, -0.178355783f);
  const f32 p6 = __builtin_fmaf(-0.225066334f, w, 0.0430195592f);
  const f32 p8 = __builtin_fmaf(0.134981886f, w, -0.0594233051f);
  const f32 high = __builtin_fmaf(0.0820119604f, w4, __builtin_fmaf(p8, w2, p6));
  const f32 p = __builtin_fmaf(high, w4, __builtin_fmaf(p4, w2, p2));
  const f32 y = __builtin_fmaf(__builtin_fmaf(p, w, -1.11091816f), w, -0.13338688f);
  // exp(-a^2) is 2^n * exp(r), with r from -0.3 to 0.4, so that (1 + y) * exp(r) isn't below 0.5.
  // 64 more in the exponent, as in exp_in_range_f32.
  const f32 square = __builtin_fmaf(a, a, 0.05f);
  const f32 shifted = __builtin_fmaf(square, -1.44269504f, 12582976.0f);
  const f32 n = shifted - 12582976.0f;
  const f32 r_high = __builtin_fmaf(-a, a, n * -0.693145752f);
  const f32 r_low = __builtin_fmaf(n, -1.42860677e-6f, e * c);
  const f32 r = r_high + r_low, r2 = r * r;
  const f32 q2 = __builtin_fmaf(0.166665629f, r, 0.500000179f);
  const f32 q4 = __builtin_fmaf(0.00836213958f, r, 0.0416591503f);
  const f32 q = __builtin_fmaf(__builtin_fmaf(0.00145510909f, r2, q4), r2, q2);
  const f32 less_1 = __builtin_fmaf(q, r2, r_low) + r_high;
  const f32 scaled = from_bits((i32)((u32)bits_of(t) + ((u32)bits_of(shifted) << 23)));
  const f32 factor_less_1 = __builtin_fmaf(y, less_1, less_1) + y;
  const f32 result = __builtin_fmaf(scaled, factor_less_1, scaled) * 0x1p-64f;
  return x < 0 ? 2.0f - result : result;
}
