// Sines, tangents and the angles that belong to them.

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
INLINE f32 sin_f32(f32 x) { return x == 0.0f ? x : sincos(x).sin; }  // -0 for -0

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
  return x == 0.0f ? x : (f32)((swap ? -c : s) / (swap ? s : c));  // -0 for -0
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
