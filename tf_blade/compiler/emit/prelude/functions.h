// Functions of floats. Those of f32 are branch-free, so that a loop that calls them is vectorised.
// Errors are in units of the last place (ulp) against the correctly rounded result, and tests hold
// them to it.

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
  const f32 above = x < -105.0f ? -105.0f : x;
  const f32 a = above > 42.0f ? 42.0f : above;
  // n = -x / ln(2), rounded; the low bits are n - 64 with the bias of an exponent.
  const f32 shifted = __builtin_fmaf(a, -1.44269504f, 12582975.0f);
  const f32 n = shifted - 12582975.0f;
  const f32 power = from_bits((i32)((u32)bits_of(shifted) << 23));
  const f32 r = __builtin_fmaf(n, -1.42860677e-6f, __builtin_fmaf(n, -0.693145752f, -a));
  return 0x1p-64f / (__builtin_fmaf(power, exp_less_1(r), 0x1p-64f) + power);
}

//@ atan_f32:
// At most 2 ulp. Beyond tan(pi / 8) the angle to pi / 4, beyond tan(3 pi / 8) that to pi / 2;
// both in two parts, since the first alone is off by half an ulp.
INLINE f32 atan_f32(f32 x) {
  const f32 a = __builtin_fabsf(x);
  const bool far = a > 2.4142135f;
  const bool middle = a > 0.41421357f;
  const f32 over = far ? -1.0f : middle ? a - 1.0f : a;
  const f32 under = far ? a : middle ? a + 1.0f : 1.0f;
  const f32 t = over / under;
  const f32 z = t * t;
  f32 p = 8.05374449538e-2f;
  p = __builtin_fmaf(p, z, -1.38776856032e-1f);
  p = __builtin_fmaf(p, z, 1.99777106478e-1f);
  p = __builtin_fmaf(p, z, -3.33329491539e-1f);
  const f32 angle = far ? 1.5707964f : middle ? 0.7853982f : 0.0f;
  const f32 constant_rest = far ? -4.371139e-8f : middle ? -2.1855695e-8f : 0.0f;
  // What rounding a + 1 took away: t times it over a + 1, which is 2 / (1 - t).
  const f32 lost = far ? 0.0f : middle ? a - (under - 1.0f) : 0.0f;
  const f32 rest = __builtin_fmaf(t * lost, __builtin_fmaf(t, 0.5f, -0.5f), constant_rest);
  return __builtin_copysignf(angle + (__builtin_fmaf(p * z, t, rest) + t), x);
}

//@ half_asin:
// asin(a) for 0 <= a <= 0.5, half of acos(a) above: the argument's root is small there. In f64,
// since asin of numbers over 0.5 is the difference of larger angles.
INLINE f64 half_asin(f64 a) {
  const bool large = a > 0.5;
  const f64 z = large ? 0.5 * (1.0 - a) : a * a;
  const f64 s = large ? __builtin_sqrt(z) : a;
  f64 p = 4.2163199048e-2;
  p = __builtin_fma(p, z, 2.4181311049e-2);
  p = __builtin_fma(p, z, 4.5470025998e-2);
  p = __builtin_fma(p, z, 7.4953002686e-2);
  p = __builtin_fma(p, z, 1.6666752422e-1);
  return __builtin_fma(p * z, s, s);
}

//@ asin_f32: half_asin
// At most 1 ulp.
INLINE f32 asin_f32(f32 x) {
  const f64 a = __builtin_fabsf(x);
  const f64 p = half_asin(a);
  const f64 result = a > 0.5 ? 1.57079632679489661923 - 2.0 * p : p;
  return __builtin_copysignf((f32)result, x);
}

//@ acos_f32: half_asin
// At most 1 ulp.
INLINE f32 acos_f32(f32 x) {
  const f64 a = __builtin_fabsf(x);
  const f64 p = half_asin(a);
  const f64 outer = x > 0.0f ? 2.0 * p : 3.14159265358979323846 - 2.0 * p;
  const f64 inner = 1.57079632679489661923 - __builtin_copysign(p, (f64)x);
  return (f32)(a > 0.5 ? outer : inner);
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

//@ logistic_f64:
INLINE f64 logistic_f64(f64 x) {
  const f64 e = __builtin_exp(-__builtin_fabs(x));
  return (x >= 0 ? 1.0 : e) / (1.0 + e);
}

//@ tanh_f32: exp_decay_f32
// At most 2 ulp.
INLINE f32 tanh_f32(f32 x) {
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
  return a < 0.625f ? small : __builtin_copysignf(large, x);
}

//@ erf_f32: exp_decay_f32
// At most 2 ulp.
INLINE f32 erf_f32(f32 x) {
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

//@ erfc_f32: bits
// At most 2 ulp: erfc(a) is t * exp(-a^2) * (1 + a polynomial of t), with t = 1 / (a + 2).
INLINE f32 erfc_f32(f32 x) {
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

//@ quarter_turns:
// x = count * pi / 2 + rest for |x| <= 2^45; count modulo 4.
struct QuarterTurns {
  f64 rest;
  i32 count;
};
INLINE QuarterTurns quarter_turns(f32 x) {
  const f64 n = __builtin_rint((f64)x * 0.63661977236758134308);
  f64 rest = __builtin_fma(n, -1.57079632679489655800, (f64)x);
  rest = __builtin_fma(n, -6.12323399573676603587e-17, rest);
  return {rest, (i32)(n - 4.0 * __builtin_floor(n * 0.25))};
}

//@ sincos: quarter_turns
// sin(x) and cos(x) for |x| <= 2^45. At most 2 ulp.
struct SinCos {
  f32 sin, cos;
};
INLINE SinCos sincos(f32 x) {
  const QuarterTurns turned = quarter_turns(x);
  const f32 r = (f32)turned.rest;
  const i32 quadrant = turned.count;
  const f32 z = r * r;
  f32 s = -1.9515295891e-4f;
  s = __builtin_fmaf(s, z, 8.3321608736e-3f);
  s = __builtin_fmaf(s, z, -1.6666654611e-1f);
  s = __builtin_fmaf(s * z, r, r);
  f32 c = 2.443315711809948e-5f;
  c = __builtin_fmaf(c, z, -1.388731625493765e-3f);
  c = __builtin_fmaf(c, z, 4.166664568298827e-2f);
  c = __builtin_fmaf(c * z, z, __builtin_fmaf(z, -0.5f, 1.0f));
  const bool swap = quadrant & 1;
  const f32 sine = swap ? c : s, cosine = swap ? s : c;
  return {quadrant & 2 ? -sine : sine, (quadrant + 1) & 2 ? -cosine : cosine};
}

//@ sin_f32: sincos
INLINE f32 sin_f32(f32 x) { return sincos(x).sin; }

//@ cos_f32: sincos
INLINE f32 cos_f32(f32 x) { return sincos(x).cos; }

//@ tan_f32: quarter_turns
// At most 1 ulp: all in f64.
INLINE f32 tan_f32(f32 x) {
  const QuarterTurns turned = quarter_turns(x);
  const f64 r = turned.rest, z = r * r;
  f64 s = -1.9515295891e-4;
  s = __builtin_fma(s, z, 8.3321608736e-3);
  s = __builtin_fma(s, z, -1.6666654611e-1);
  s = __builtin_fma(s * z, r, r);
  f64 c = 2.443315711809948e-5;
  c = __builtin_fma(c, z, -1.388731625493765e-3);
  c = __builtin_fma(c, z, 4.166664568298827e-2);
  c = __builtin_fma(c * z, z, __builtin_fma(z, -0.5, 1.0));
  const bool swap = turned.count & 1;
  return (f32)((swap ? -c : s) / (swap ? s : c));
}

//@ atan2_f32: bits
// At most 1 ulp: in f64, from the ratio of the smaller to the larger size.
INLINE f32 atan2_f32(f32 y, f32 x) {
  const f32 a = __builtin_fabsf(y), b = __builtin_fabsf(x);
  const bool steep = a > b;
  const f64 large = steep ? a : b, small = steep ? b : a;
  const f64 ratio = small == large ? (large > 0 ? 1.0 : 0.0) : small / large;
  const bool far = ratio > 0.41421356;  // as in atan_f32
  const f64 t = (far ? ratio - 1.0 : ratio) / (far ? ratio + 1.0 : 1.0);
  const f64 z = t * t;
  f64 p = 8.05374449538e-2;
  p = __builtin_fma(p, z, -1.38776856032e-1);
  p = __builtin_fma(p, z, 1.99777106478e-1);
  p = __builtin_fma(p, z, -3.33329491539e-1);
  f64 angle = __builtin_fma(p * z, t, t) + (far ? 0.78539816339744830962 : 0.0);
  angle = steep ? 1.57079632679489661923 - angle : angle;
  angle = bits_of(x) < 0 ? 3.14159265358979323846 - angle : angle;
  const f32 result = __builtin_copysignf((f32)angle, y);
  return (x != x) | (y != y) ? __builtin_nanf("") : result;
}

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
