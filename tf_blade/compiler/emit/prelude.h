// Functions that generated code uses. Each part starts with `//@ name: parts it needs`; only the
// parts that a program needs are printed into its source.
//
// The f32 functions are branch-free, so that a loop that calls them is vectorised. Errors are in
// units of the last place (ulp) against the correctly rounded result, and tests hold them to it.

//@ types:
typedef float f32;
typedef double f64;
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef BladeInt i64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned __INT64_TYPE__ u64;
// The bits of halves.
typedef unsigned short f16;
typedef unsigned short bf16;
// Loops are vectorised only when everything they call is inlined.
#define INLINE static INLINE_MEMBER
#define INLINE_MEMBER inline __attribute__((always_inline))
// A copy of a kernel for one caller's constants would be another loop nest than the one written.
#ifdef __clang__
#define KERNEL __attribute__((noinline))
#else
#define KERNEL __attribute__((noinline, noclone))
#endif

//@ bits:
INLINE i32 bits_of(f32 x) {
  i32 bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  return bits;
}
INLINE f32 from_bits(i32 bits) {
  f32 x;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}

//@ lanes:
// Elements of four bytes in a vector. What is left of a row after whole vectors is done as one more
// vector with a mask where there are masks, not element by element.
#if defined(__AVX512F__)
enum : i32 { LANES = 16 };
#elif defined(__AVX2__)
enum : i32 { LANES = 8 };
#else
enum : i32 { LANES = 4 };
#endif

//@ one_by_one:
// Keeps a loop of a few scattered elements from being vectorised, which would make it slower.
#define ONE_BY_ONE __asm__("")

//@ transpose_tile: lanes, one_by_one
template <i32... I>
struct Indices {};
template <i32 N, i32... I>
struct UpTo : UpTo<N - 1, N - 1, I...> {};
template <i32... I>
struct UpTo<0, I...> {
  typedef Indices<I...> type;
};

template <unsigned long BYTES>
struct BitsOf;
template <>
struct BitsOf<4> {
  typedef u32 type;
};
template <>
struct BitsOf<8> {
  typedef u64 type;
};

// A square of as many vectors as a vector has lanes.
template <class T>
struct Square {
  enum : i32 { SIDE = 4 * LANES / (i32)sizeof(T) };
  typedef T Vector __attribute__((vector_size(4 * LANES)));
  typedef Vector InMemory __attribute__((aligned(1), may_alias));
  typedef typename UpTo<SIDE>::type AllLanes;
  Vector rows[SIDE];

  // Which element of two vectors goes to a lane; those of the second are counted on. Blocks of D
  // lanes: every other one of both vectors.
  template <i32 D>
  static constexpr i32 even(i32 lane) {
    return lane & D ? SIDE + lane - D : lane;
  }
  template <i32 D>
  static constexpr i32 odd(i32 lane) {
    return lane & D ? SIDE + lane : lane + D;
  }
  // Of each four lanes, the first two or the last two of both, by turns (D = 1) or not (D = 2).
  template <i32 D>
  static constexpr i32 low(i32 lane) {
    return (lane & D ? SIDE : 0) + (lane & -4) + (D == 1 ? (lane & 2) / 2 : lane & 1);
  }
  template <i32 D>
  static constexpr i32 high(i32 lane) {
    return low<D>(lane) + 2;
  }

  template <i32 (*PLACE)(i32), i32... LANE>
  INLINE_MEMBER static Vector pick(const Vector& a, const Vector& b, Indices<LANE...>) {
#ifdef __clang__
    return __builtin_shufflevector(a, b, PLACE(LANE)...);
#else
    return __builtin_shuffle(a, b, Vector{(T)PLACE(LANE)...});
#endif
  }
  template <i32 (*FIRST)(i32), i32 (*SECOND)(i32)>
  INLINE_MEMBER static void exchange(Vector& a, Vector& b) {
    const Vector x = a, y = b;
    a = pick<FIRST>(x, y, AllLanes());
    b = pick<SECOND>(x, y, AllLanes());
  }
  template <i32 D>
  INLINE_MEMBER void exchange_blocks() {
    for (i32 i = 0; i < SIDE; ++i)
      if (!(i & D)) exchange<even<D>, odd<D>>(rows[i], rows[i + D]);
  }
  INLINE_MEMBER void transpose() {
    if constexpr (SIDE > 8) exchange_blocks<8>();
    if constexpr (SIDE > 4) exchange_blocks<4>();
    if constexpr (sizeof(T) == 8) {
      if constexpr (SIDE > 2) exchange_blocks<2>();
      exchange_blocks<1>();
      return;
    }
    // Squares of four in what instruction sets do without crossing 16 bytes.
    for (i32 i = 0; i < SIDE; i += 4) {
      Vector* r = rows + i;
      exchange<low<1>, high<1>>(r[0], r[1]);
      exchange<low<1>, high<1>>(r[2], r[3]);
      exchange<low<2>, high<2>>(r[0], r[2]);
      exchange<low<2>, high<2>>(r[1], r[3]);
      const Vector second = r[2];
      r[2] = r[1], r[1] = second;
    }
  }
};

// Copies rows x columns elements, rows `step` apart, so that columns lie side by side, STEP apart.
template <i32 STEP, class T>
INLINE void transpose_tile(T* to, const T* from, i64 step, i32 rows, i32 columns) {
  i32 whole_rows = 0, whole_columns = 0;
  if constexpr (sizeof(T) >= 4) {  // in registers, as far as there are whole squares
    typedef Square<typename BitsOf<sizeof(T)>::type> S;
    whole_rows = rows & -S::SIDE, whole_columns = columns & -S::SIDE;
    for (i32 i = 0; i < whole_rows; i += S::SIDE) {
      for (i32 j = 0; j < whole_columns; j += S::SIDE) {
        S square;
#pragma GCC unroll 16
        for (i32 k = 0; k < S::SIDE; ++k)
          square.rows[k] = *(const typename S::InMemory*)(from + (i + k) * step + j);
        square.transpose();
#pragma GCC unroll 16
        for (i32 k = 0; k < S::SIDE; ++k)
          *(typename S::InMemory*)(to + (j + k) * STEP + i) = square.rows[k];
      }
    }
  }
  for (i32 i = 0; i < rows; ++i) {
    for (i32 j = i < whole_rows ? whole_columns : 0; j < columns; ++j) {
      ONE_BY_ONE;
      to[j * STEP + i] = from[i * step + j];
    }
  }
}

//@ prefetch_rows:
// Brings rows that will be written into the cache: hardware sees no pattern in their short pieces.
template <class T>
INLINE void prefetch_rows(const T* to, i64 step, i32 rows, i32 columns) {
  for (i32 i = 0; i < rows; ++i)
    for (i32 j = 0; j < columns; j += 64 / (i32)sizeof(T)) __builtin_prefetch(to + i * step + j, 1);
}

//@ narrow: lanes
// Rows of so many elements are done side by side, each in a lane of its own.
enum : i32 { NARROW = LANES == 16 ? 16 : LANES + LANES / 2 };

//@ lane_accumulators: lanes
// The running results of a reduction, in one or two vectors. Loops over lanes take them into an
// array, which the compiler keeps in registers.
template <class T, i32 CHAINS>
struct Lanes {
  typedef T Vector __attribute__((vector_size(4 * LANES)));
  Vector first, second;
  INLINE_MEMBER explicit Lanes(T x) : first(x - Vector{}), second(first) {}
  INLINE_MEMBER void get(T* x) const {
    __builtin_memcpy(x, &first, sizeof first);
    if (CHAINS == 2) __builtin_memcpy(x + LANES, &second, sizeof second);
  }
  INLINE_MEMBER void set(const T* x) {
    __builtin_memcpy(&first, x, sizeof first);
    if (CHAINS == 2) __builtin_memcpy(&second, x + LANES, sizeof second);
  }
  template <class F>
  INLINE_MEMBER T join(F combine) const {
    T x[CHAINS * LANES];
    get(x);
    for (i32 half = CHAINS * LANES / 2; half > 0; half /= 2) {
#pragma omp simd
      for (i32 lane = 0; lane < half; ++lane) x[lane] = combine(x[lane], x[lane + half]);
    }
    return x[0];
  }
};

//@ lane_totals: lane_accumulators
// Sums of sums, one for each lane.
struct LaneTotals {
  f64 x[LANES] = {};
  INLINE_MEMBER void add(const Lanes<f32, 1>& lanes) {
    f32 part[LANES];
    lanes.get(part);
#pragma omp simd
    for (i32 lane = 0; lane < LANES; ++lane) x[lane] += part[lane];
  }
  INLINE_MEMBER f64 sum() const {
    f64 total = 0;
#pragma omp simd reduction(+ : total)
    for (i32 lane = 0; lane < LANES; ++lane) total += x[lane];
    return total;
  }
};

//@ clamp_f32: bits
// x moved into [low, high], for low < 0 < high; NaN becomes one of them. Floats of one sign are
// ordered as their bits are. Integer minima never turn into the branches that comparisons of
// floats may, which would keep a loop from being vectorised.
INLINE f32 clamp_f32(f32 x, f32 low, f32 high) {
  const i32 most = bits_of(high), bits = bits_of(x);
  const u32 least = (u32)bits_of(low), below = (u32)(bits < most ? bits : most);
  return from_bits((i32)(below < least ? below : least));
}

//@ f32_from_bf16: bits
INLINE f32 f32_from_bf16(bf16 x) { return from_bits((i32)((u32)x << 16)); }

//@ bf16_from_f32: bits
// Rounds to the nearest, to even when two are; NaN stays NaN.
INLINE bf16 bf16_from_f32(f32 x) {
  const u32 bits = (u32)bits_of(x);
  const u32 rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  const u32 quiet = (bits >> 16 & 0x8000) | 0x7fc0;
  return (bf16)(x != x ? quiet : rounded);
}

//@ f32_from_f16: bits
// Exact. No step makes a subnormal f32, which threads of TensorFlow flush to 0.
INLINE f32 f32_from_f16(f16 x) {
  const u32 sign = (u32)(x & 0x8000) << 16, size = (u32)(x & 0x7fff) << 13;
  const u32 normal = size + (112u << 23), special = size + (224u << 23);
  // 2^-14 and what stands behind the point of a subnormal, less 2^-14.
  const u32 small = (u32)bits_of(from_bits((i32)(size + (113u << 23))) - 0x1p-14f);
  u32 bits = size < (1u << 23) ? small : normal;
  bits = size >= (31u << 23) ? special : bits;
  return from_bits((i32)(sign | bits));
}

//@ f16_from_f32: bits
// Rounds to the nearest, to even when two are; NaN stays NaN.
INLINE f16 f16_from_f32(f32 x) {
  const u32 all = (u32)bits_of(x), sign = all >> 16 & 0x8000, size = all & 0x7fffffff;
  const u32 normal = (size + 0xfff + (size >> 13 & 1) - (112u << 23)) >> 13;
  // Subnormals are multiples of 2^-24, as the last bits of a sum with 0.5 are.
  const u32 small = (u32)bits_of(from_bits((i32)size) + 0.5f) - 0x3f000000;
  u32 bits = size < (113u << 23) ? small : normal;
  bits = size >= 0x477ff000 ? 0x7c00 : bits;  // from 65,520 on infinity is nearest
  bits = size > 0x7f800000 ? 0x7e00 : bits;
  return (f16)(sign | bits);
}

//@ keep_nan: bits
// y, or NaN where x is NaN.
INLINE f32 keep_nan(f32 x, f32 y) { return from_bits(bits_of(y) | -(i32)(x != x)); }

//@ dim_floor_div:
// 0 where the divisor is 0; programs that may divide by 0 check their divisors first.
INLINE i64 dim_floor_div(i64 a, i64 b) {
  if (b == 0) return 0;
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

//@ dim_floor_mod: dim_floor_div
INLINE i64 dim_floor_mod(i64 a, i64 b) { return a - b * dim_floor_div(a, b); }

//@ dim_max:
INLINE i64 dim_max(i64 a, i64 b) { return a > b ? a : b; }

//@ dim_min:
INLINE i64 dim_min(i64 a, i64 b) { return a < b ? a : b; }

//@ dim_if_negative:
INLINE i64 dim_if_negative(i64 a, i64 b, i64 c) { return a < 0 ? b : c; }

//@ take_temp:
// Reserves 64-byte aligned room in the temporary memory; gives its offset.
INLINE i64 take_temp(i64* total, i64 bytes) {
  const i64 offset = *total;
  *total = offset + (bytes + 63) / 64 * 64;
  return offset;
}

//@ copy_bytes:
INLINE void copy_bytes(void* to, const void* from, i64 bytes) {
  if (bytes > 0) __builtin_memcpy(to, from, (unsigned long)bytes);
}

//@ is_set:
// A bool in memory. GCC makes vector masks of comparisons, not of bytes it knows to be 0 or 1.
INLINE bool is_set(const bool& x) { return reinterpret_cast<const u8&>(x) != 0; }

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

//@ logistic_f32: exp_decay_f32
// At most 2 ulp.
INLINE f32 logistic_f32(f32 x) {
  const f32 e = exp_decay_f32(-__builtin_fabsf(x));  // never overflows
  const f32 divisor = 1.0f + e;
  const f32 lost = e - (divisor - 1.0f);
  const f32 y = (x >= 0 ? 1.0f : e) / divisor;
  // less y * lost / divisor
  return __builtin_fmaf(-y * (x >= 0 ? y : 1.0f - y), lost, y);
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

//@ erfc_f32: bits, exp_in_range_f32, keep_nan
// At most 2 ulp.
INLINE f32 erfc_f32(f32 x) {
  // erfc(11) is 0 in f32. By bits: a select of floats would be repeated in all that follows.
  const i32 magnitude = bits_of(__builtin_fabsf(x)), most = 0x41300000;
  const f32 a = from_bits(magnitude < most ? magnitude : most);
  // q = (a - 2) / (a + 2) to more than f32's precision; erfc(a) * exp(a^2) * (1 + 2a) is a
  // polynomial of it.
  // Both divisors share one division; what that rounds away is corrected with the rest.
  const f32 p = a + 2.0f;
  const f32 c = __builtin_fmaf(2.0f, a, 1.0f);
  const f32 inverse_both = 1.0f / (p * c);
  const f32 inverse = inverse_both * c;
  const f32 quotient = (a - 2.0f) * inverse;
  const f32 t = __builtin_fmaf(quotient + 1.0f, -2.0f, a);
  const f32 rest = __builtin_fmaf(quotient, -a, t);
  const f32 q = __builtin_fmaf(inverse, rest, quotient);
  f32 y = -4.01139259e-4f;
  y = __builtin_fmaf(y, q, -1.23075210e-3f);
  y = __builtin_fmaf(y, q, 1.31355342e-3f);
  y = __builtin_fmaf(y, q, 8.63227434e-3f);
  y = __builtin_fmaf(y, q, -8.05991981e-3f);
  y = __builtin_fmaf(y, q, -5.42046614e-2f);
  y = __builtin_fmaf(y, q, 1.64055392e-1f);
  y = __builtin_fmaf(y, q, -1.66031361e-1f);
  y = __builtin_fmaf(y, q, -9.27639827e-2f);
  y = __builtin_fmaf(y, q, 2.76978403e-1f);
  // (1 + y) / (1 + 2a), and what rounding took away
  const f32 d = inverse_both * p;
  const f32 ratio = __builtin_fmaf(y, d, d);
  const f32 c_low = __builtin_fmaf(2.0f, a, 1.0f - c);
  const f32 off = __builtin_fmaf(-ratio, c_low, __builtin_fmaf(-ratio, c, 1.0f) + y);
  const f32 low = off * d;
  // times exp(-a^2), with what rounding a^2 took away
  const f32 square = a * a;
  const f32 decay = exp_in_range_f32(-square);
  const f32 lost = __builtin_fmaf(-a, a, square);
  const f32 result = __builtin_fmaf(ratio, decay, __builtin_fmaf(ratio, lost, low) * decay);
  return keep_nan(x, x < 0 ? 2.0f - result : result);
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

//@ div_integer:
// Rounds toward zero; MIN / -1 wraps around, and a division by 0, which refuses the run, gives 0.
template <class T>
INLINE T div_integer(T a, T b) {
  if (b == 0) return 0;
  if (T(-1) < T(0) && b == T(-1)) return (T)(0 - a);
  return (T)(a / b);
}

//@ rem_integer:
template <class T>
INLINE T rem_integer(T a, T b) {
  if (b == 0 || (T(-1) < T(0) && b == T(-1))) return 0;
  return (T)(a % b);
}

//@ floor_div_integer: div_integer, rem_integer
template <class T>
INLINE T floor_div_integer(T a, T b) {
  const bool inexact = rem_integer<T>(a, b) != 0 && (a < 0) != (b < 0);
  return (T)(div_integer<T>(a, b) - inexact);
}

//@ floor_mod_integer: rem_integer
template <class T>
INLINE T floor_mod_integer(T a, T b) {
  const T r = rem_integer<T>(a, b);
  return r != 0 && (r < 0) != (b < 0) ? (T)(r + b) : r;
}

//@ pow_integer:
// By squaring, modulo 2^bits; a negative exponent, which refuses the run, gives 1.
template <class T>
INLINE T pow_integer(T x, T y) {
  u64 power = 1, square = (u64)x;
  for (T rest = y < 0 ? (T)0 : y; rest != 0; rest = (T)(rest / 2)) {
    if (rest % 2 != 0) power *= square;
    square *= square;
  }
  return (T)power;
}

//@ shift_amount:
// Amounts outside [0, bits) count as the nearest inside.
template <class T>
INLINE int shift_amount(T amount) {
  const T last = (T)(sizeof(T) * 8 - 1);
  return amount < 0 ? 0 : (int)(amount > last ? last : amount);
}

//@ shift_left_integer: shift_amount
template <class T>
INLINE T shift_left_integer(T x, T amount) {
  return (T)((u64)x << shift_amount<T>(amount));
}

//@ shift_right_integer: shift_amount
template <class T>
INLINE T shift_right_integer(T x, T amount) {
  return (T)(x >> shift_amount<T>(amount));
}

//@ add_bias_only:
// A matrix product over no terms: zeros, plus the bias, through the activation.
template <class T>
INLINE void add_bias_only(const BladeGemm* g) {
  T* c = static_cast<T*>(g->c);
  const T* bias = static_cast<const T*>(g->bias);
  for (i64 i = 0; i < g->batch; ++i)
    for (i64 row = 0; row < g->m; ++row)
      for (i64 j = 0; j < g->n; ++j) {
        const T x = bias ? bias[j] : T(0);
        const bool cut = g->activation == BLADE_ACTIVATION_RELU && x < 0;
        c[i * g->c_stride + row * g->ldc + j] = cut ? T(0) : x;
      }
}
