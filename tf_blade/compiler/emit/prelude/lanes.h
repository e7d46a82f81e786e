// Vectors: how many lanes there are, running results in them, tiles.

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

//@ indices:
template <i32... I>
struct Indices {};
template <i32 N, i32... I>
struct UpTo : UpTo<N - 1, N - 1, I...> {};
template <i32... I>
struct UpTo<0, I...> {
  typedef Indices<I...> type;
};

//@ square: lanes, indices
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

// A square of as many vectors as a vector has lanes. LENGTH: lanes, those of the widest vectors or
// half or a quarter of them.
template <class T, i32 LENGTH = 4 * LANES / (i32)sizeof(T)>
struct Square {
  enum : i32 { SIDE = LENGTH };
  typedef T Vector __attribute__((vector_size(LENGTH * sizeof(T))));
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

//@ transpose_tile: square, one_by_one
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

//@ lane_accumulators: lanes, indices
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
    Vector x = first;
    if (CHAINS == 2) x = combined(x, second, combine);
    if constexpr (LANES > 8) x = combined(x, exchanged<8>(x, AllLanes()), combine);
    if constexpr (LANES > 4) x = combined(x, exchanged<4>(x, AllLanes()), combine);
    x = combined(x, exchanged<2>(x, AllLanes()), combine);
    return combine(x[0], x[1]);
  }

 private:
  typedef typename UpTo<LANES>::type AllLanes;
  // Blocks of D lanes change places with their neighbours.
  template <i32 D, i32... LANE>
  INLINE_MEMBER static Vector exchanged(const Vector& x, Indices<LANE...>) {
#ifdef __clang__
    return __builtin_shufflevector(x, x, (LANE ^ D)...);
#else
    typedef i32 Places __attribute__((vector_size(4 * LANES)));
    return __builtin_shuffle(x, Places{(LANE ^ D)...});
#endif
  }
  template <class F>
  INLINE_MEMBER static Vector combined(const Vector& a, const Vector& b, F combine) {
    T x[LANES], y[LANES];
    __builtin_memcpy(x, &a, sizeof a);
    __builtin_memcpy(y, &b, sizeof b);
#pragma omp simd
    for (i32 lane = 0; lane < LANES; ++lane) x[lane] = combine(x[lane], y[lane]);
    Vector z;
    __builtin_memcpy(&z, x, sizeof z);
    return z;
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
