// Functions cut into pieces, with a polynomial for each (tables.h).
//
// AVX-512 takes one of 32 numbers from two registers in one instruction, in every lane another, but
// GCC vectorises `table[i]` as a slow gather. So these functions are written with vectors, and
// loops call them as they would those of a vector library: by the name that the vector ABI derives
// from the C library's, since loops under a mask call no others. The C library itself is never
// called. Elsewhere the functions of sigmoids.h are used.

//@ pieces:
#if defined(__AVX512F__) && !defined(__clang__)
#define IN_PIECES
typedef f32 F32x16 __attribute__((vector_size(64)));
typedef i32 I32x16 __attribute__((vector_size(64)));

INLINE F32x16 in_all(f32 x) { return x - F32x16{}; }
INLINE F32x16 pick(const f32 (&row)[32], I32x16 i) {  // row[i % 32]
  const F32x16* half = (const F32x16*)row;
  return __builtin_shuffle(half[0], half[1], i);
}
INLINE F32x16 fma_16(F32x16 a, F32x16 b, F32x16 c) {
  return __builtin_ia32_vfmaddps512_mask(a, b, c, -1, 4);
}
// Both give x where it is NaN.
INLINE F32x16 at_least(f32 low, F32x16 x) {
  return __builtin_ia32_maxps512_mask(in_all(low), x, x, -1, 4);
}
INLINE F32x16 at_most(f32 high, F32x16 x) {
  return __builtin_ia32_minps512_mask(in_all(high), x, x, -1, 4);
}
INLINE bool all_at_most(f32 high, F32x16 x) {
  return __builtin_ia32_cmpps512_mask(x, in_all(high), 2, -1, 4) == 0xffff;
}

// The polynomial of the piece that x * slope is nearest to the number of. AROUND_0: x and more in
// piece 0.
template <bool AROUND_0, i32 ROWS>
INLINE F32x16 in_piece(const f32 (&table)[ROWS][32], F32x16 slope, F32x16 x) {
  // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
  const F32x16 zero = in_all(12582912.0f);
  const F32x16 shifted = fma_16(x, slope, zero);
  const I32x16 i = (I32x16)shifted;
  const F32x16 from_base = x - pick(table[0], i);
  F32x16 y = pick(table[ROWS - 1], i);
#pragma GCC unroll 16
  for (i32 row = ROWS - 2; row > 1; --row) y = fma_16(y, from_base, pick(table[row], i));
  const F32x16 constant = pick(table[1], i);
  return fma_16(y, from_base, AROUND_0 ? shifted == zero ? x : constant : constant);
}
#endif

//@ tanh_f32: pieces, tanh_table, tanh_by_exp_f32
// At most 2 ulp.
#ifdef IN_PIECES
}  // namespace
#pragma omp declare simd notinbranch simdlen(16)
extern "C" f32 tanhf(f32) noexcept __attribute__((const));
namespace {
#ifndef TANH_IN_PIECES  // not yet by another program in this file
#define TANH_IN_PIECES
__attribute__((used)) f32 tanh_of_one(f32 x) __asm__("tanhf");
f32 tanh_of_one(f32 x) { return tanh_by_exp_f32(x); }
__attribute__((used)) F32x16 tanh_of_16(F32x16 x) __asm__("_ZGVeN16v_tanhf");
F32x16 tanh_of_16(F32x16 x) {
  return in_piece<true>(TANH_TABLE, in_all(1.6f), at_least(-9.4f, at_most(9.4f, x)));
}
#endif
INLINE f32 tanh_f32(f32 x) { return __builtin_tanhf(x); }
#else
INLINE f32 tanh_f32(f32 x) { return tanh_by_exp_f32(x); }
#endif

//@ erf_f32: pieces, erf_table, erf_by_exp_f32
// At most 2 ulp.
#ifdef IN_PIECES
}  // namespace
#pragma omp declare simd notinbranch simdlen(16)
extern "C" f32 erff(f32) noexcept __attribute__((const));
namespace {
#ifndef ERF_IN_PIECES
#define ERF_IN_PIECES
__attribute__((used)) f32 erf_of_one(f32 x) __asm__("erff");
f32 erf_of_one(f32 x) { return erf_by_exp_f32(x); }
__attribute__((used)) F32x16 erf_of_16(F32x16 x) __asm__("_ZGVeN16v_erff");
F32x16 erf_of_16(F32x16 x) {
  return in_piece<true>(ERF_TABLE, in_all(3.75f), at_least(-4.0f, at_most(4.0f, x)));
}
#endif
INLINE f32 erf_f32(f32 x) { return __builtin_erff(x); }
#else
INLINE f32 erf_f32(f32 x) { return erf_by_exp_f32(x); }
#endif

//@ erfc_f32: pieces, erfc_table, erfc_by_exp_f32
// At most 2 ulp. Beyond 3.8 pieces would have to be many: a vector with a larger number (in a GELU
// of numbers with a spread of 1.4, one of 900) is computed by exp too.
#ifdef IN_PIECES
}  // namespace
#pragma omp declare simd notinbranch simdlen(16)
extern "C" f32 erfcf(f32) noexcept __attribute__((const));
namespace {
#ifndef ERFC_IN_PIECES
#define ERFC_IN_PIECES
__attribute__((used)) f32 erfc_of_one(f32 x) __asm__("erfcf");
f32 erfc_of_one(f32 x) { return erfc_by_exp_f32(x); }
KERNEL F32x16 erfc_of_large_16(F32x16 x, F32x16 of_others) {
  f32 lanes[16];
  __builtin_memcpy(lanes, &x, sizeof lanes);
  for (i32 lane = 0; lane < 16; ++lane) lanes[lane] = erfc_by_exp_f32(lanes[lane]);
  F32x16 y;
  __builtin_memcpy(&y, lanes, sizeof lanes);
  return x <= 3.8f ? of_others : y;  // no result depends on what its neighbours are
}
__attribute__((used)) F32x16 erfc_of_16(F32x16 x) __asm__("_ZGVeN16v_erfcf");
F32x16 erfc_of_16(F32x16 x) {
  const F32x16 a = at_least(-3.95f, x);
  const F32x16 slope = fma_16(a, in_all(0.4375f), in_all(4.125f));
  const F32x16 y = in_piece<false>(ERFC_TABLE, slope, a);
  return __builtin_expect(all_at_most(3.8f, x), true) ? y : erfc_of_large_16(x, y);
}
#endif
INLINE f32 erfc_f32(f32 x) { return __builtin_erfcf(x); }
#else
INLINE f32 erfc_f32(f32 x) { return erfc_by_exp_f32(x); }
#endif
