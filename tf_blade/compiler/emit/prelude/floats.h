// Arithmetic of floats that C++ has no operator for.

//@ clamp_f32: bits
// x moved into [low, high], for low < 0 < high; NaN becomes one of them. Floats of one sign are
// ordered as their bits are. Integer minima never turn into the branches that comparisons of
// floats may, which would keep a loop from being vectorised.
INLINE f32 clamp_f32(f32 x, f32 low, f32 high) {
  const i32 most = bits_of(high), bits = bits_of(x);
  const u32 least = (u32)bits_of(low), below = (u32)(bits < most ? bits : most);
  return from_bits((i32)(below < least ? below : least));
}

//@ keep_nan: bits
// y, or NaN where x is NaN.
INLINE f32 keep_nan(f32 x, f32 y) { return from_bits(bits_of(y) | -(i32)(x != x)); }

//@ max_f32: bits
// Both max and min give NaN when an operand is NaN: b is, or the comparison takes b and a is NaN,
// whose mask makes every bit 1. Without a second select: GCC makes branches or a mesh of masks out
// of chains of those.
INLINE f32 max_f32(f32 a, f32 b) {
  const f32 larger = a > b ? a : b;
  return from_bits(bits_of(larger) | -(i32)(a != a));
}

//@ min_f32: bits
INLINE f32 min_f32(f32 a, f32 b) {
  const f32 smaller = a < b ? a : b;
  return from_bits(bits_of(smaller) | -(i32)(a != a));
}

//@ max_f64:
INLINE f64 max_f64(f64 a, f64 b) {
  const f64 larger = a > b ? a : b;
  return a != a ? a : larger;
}

//@ min_f64:
INLINE f64 min_f64(f64 a, f64 b) {
  const f64 smaller = a < b ? a : b;
  return a != a ? a : smaller;
}

//@ reduce_max_f32: max_f32
// Of the lanes, one after the other: scalars branch well.
INLINE f32 one_max_f32(f32 a, f32 b) { return a > b || a != a ? a : b; }
#pragma omp declare reduction(max_f32:f32 : omp_out = one_max_f32(omp_out, omp_in)) \
    initializer(omp_priv = -__builtin_inff())

//@ reduce_min_f32: min_f32
INLINE f32 one_min_f32(f32 a, f32 b) { return a < b || a != a ? a : b; }
#pragma omp declare reduction(min_f32:f32 : omp_out = one_min_f32(omp_out, omp_in)) \
    initializer(omp_priv = __builtin_inff())

//@ reduce_max_f64: max_f64
INLINE f64 one_max_f64(f64 a, f64 b) { return a > b || a != a ? a : b; }
#pragma omp declare reduction(max_f64:f64 : omp_out = one_max_f64(omp_out, omp_in)) \
    initializer(omp_priv = -__builtin_inf())

//@ reduce_min_f64: min_f64
INLINE f64 one_min_f64(f64 a, f64 b) { return a < b || a != a ? a : b; }
#pragma omp declare reduction(min_f64:f64 : omp_out = one_min_f64(omp_out, omp_in)) \
    initializer(omp_priv = __builtin_inf())

//@ sign_f32:
INLINE f32 sign_f32(f32 x) { return x > 0 ? 1.0f : x < 0 ? -1.0f : x; }

//@ sign_f64:
INLINE f64 sign_f64(f64 x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : x; }

//@ floor_mod_f32:
INLINE f32 floor_mod_f32(f32 x, f32 y) {
  const f32 r = __builtin_fmodf(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

//@ floor_mod_f64:
INLINE f64 floor_mod_f64(f64 x, f64 y) {
  const f64 r = __builtin_fmod(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

//@ rsqrt_f32:
INLINE f32 rsqrt_f32(f32 x) { return 1.0f / __builtin_sqrtf(x); }

//@ rsqrt_f64:
INLINE f64 rsqrt_f64(f64 x) { return 1.0 / __builtin_sqrt(x); }
