// Rows of a few elements.

//@ join_rows: one_by_one
// Copies rows of `width` elements, `step` apart, to where each begins at the end of the one before.
// Whole pieces of BYTES are read, but nothing past the last row, and written, which `to` must have
// room for; the next row covers what is too much.
template <i32 BYTES, class T>
INLINE void join_rows_by(T* to, const T* from, i64 step, i64 rows, i64 width) {
  const i64 piece = BYTES / (i64)sizeof(T), over = (piece - width % piece) % piece;
  const i64 whole = step > 0 ? rows - (over + step - 1) / step : 0;
  i64 i = 0;
  for (; i < whole; ++i) {
    __builtin_memcpy(to + i * width, from + i * step, BYTES);
    for (i64 j = piece; j < width; j += piece) {
      ONE_BY_ONE;  // not a call of memcpy
      __builtin_memcpy(to + i * width + j, from + i * step + j, BYTES);
    }
  }
  for (; i < rows; ++i) {
    for (i64 j = 0; j < width; ++j) {
      ONE_BY_ONE;
      to[i * width + j] = from[i * step + j];
    }
  }
}
template <class T>
INLINE void join_rows(T* to, const T* from, i64 step, i64 rows, i64 width) {
  if (width <= 16 / (i64)sizeof(T)) {
    join_rows_by<16>(to, from, step, rows, width);
  } else {
    join_rows_by<32>(to, from, step, rows, width);
  }
}

//@ repeat_row:
// The first row of `width` elements is copied behind itself until there are `rows`.
template <class T>
INLINE void repeat_row(T* row, i64 rows, i64 width) {
  const i64 count = rows * width;
  for (i64 done = width; done < count; done *= 2) {
    const i64 more = done < count - done ? done : count - done;
    __builtin_memcpy(row + done, row, (unsigned long)more * sizeof(T));
  }
}

//@ columns_of_rows: square
template <i32 N>
INLINE i64 last_of(const i64* at) {
  i64 last = 0;
#pragma omp simd reduction(max : last)
  for (i32 i = 0; i < N; ++i) last = at[i] > last ? at[i] : last;
  return last;
}
// Copies rows of `width` elements, which begin at from[at[...]], so that columns lie side by side,
// ROWS apart. What lies before from[size] may be read, and all ROWS places of `at`.
template <i32 ROWS, i32 SIDE, class T>
INLINE void columns_of_rows_by(T* to, const T* from, const i64* at, i32 rows, i64 width, i64 size) {
  typedef Square<typename BitsOf<sizeof(T)>::type, SIDE> S;
  const bool all = last_of<ROWS>(at) + (width + SIDE - 1) / SIDE * SIDE <= size;
  for (i64 j = 0; j < width; j += SIDE) {
    const i32 count = width - j < SIDE ? (i32)(width - j) : SIDE;
    for (i32 i = 0; i < rows; i += SIDE) {
      S square;
      if (all || last_of<SIDE>(at + i) + j + SIDE <= size) {
#pragma GCC unroll 16
        for (i32 k = 0; k < SIDE; ++k)
          square.rows[k] = *(const typename S::InMemory*)(from + at[i + k] + j);
      } else {
        T parts[SIDE][SIDE] = {};
        for (i32 k = 0; k < SIDE; ++k)
          __builtin_memcpy(parts[k], from + at[i + k] + j, count * sizeof(T));
        __builtin_memcpy(square.rows, parts, sizeof parts);
      }
      square.transpose();
#pragma GCC unroll 16
      for (i32 k = 0; k < SIDE; ++k)
        if (k < count) *(typename S::InMemory*)(to + (j + k) * ROWS + i) = square.rows[k];
    }
  }
}
template <i32 ROWS, class T>
static __attribute__((noinline)) void columns_of_rows(T* to, const T* from, const i64* at, i32 rows,
                                                      i64 width, i64 size) {
  constexpr i32 SIDE = 4 * LANES / (i32)sizeof(T), HALF = SIDE > 4 ? SIDE / 2 : SIDE;
  if (width <= HALF) {
    columns_of_rows_by<ROWS, HALF>(to, from, at, rows, width, size);
  } else {
    columns_of_rows_by<ROWS, SIDE>(to, from, at, rows, width, size);
  }
}

//@ rows_of_columns: square
// The way back.
template <i32 ROWS, i32 SIDE, class T>
INLINE void rows_of_columns_by(T* to, const i64* at, const T* from, i32 rows, i64 width) {
  typedef Square<typename BitsOf<sizeof(T)>::type, SIDE> S;
  // Of rows that follow each other the last vector may be too long: where it ends the next row
  // begins, and is written later.
  const i64 end = at[rows - 1] + width;
  const bool joined = end - at[0] == rows * width;
  for (i64 j = (width - 1) / SIDE * SIDE; j >= 0; j -= SIDE) {
    const i32 count = width - j < SIDE ? (i32)(width - j) : SIDE;
    for (i32 i = 0; i < rows; i += SIDE) {
      S square;
#pragma GCC unroll 16
      for (i32 k = 0; k < SIDE; ++k)
        square.rows[k] = *(const typename S::InMemory*)(from + (j + k) * ROWS + i);
      square.transpose();
      const bool covered = joined && at[i + SIDE - 1] + j + SIDE <= end;
      if (i + SIDE <= rows && (count == SIDE || covered)) {
#pragma GCC unroll 16
        for (i32 k = 0; k < SIDE; ++k)
          *(typename S::InMemory*)(to + at[i + k] + j) = square.rows[k];
      } else {
        T parts[SIDE][SIDE];
        __builtin_memcpy(parts, square.rows, sizeof parts);
        for (i32 k = 0; k < SIDE && i + k < rows; ++k)
          __builtin_memcpy(to + at[i + k] + j, parts[k], count * sizeof(T));
      }
    }
  }
}
template <i32 ROWS, class T>
static __attribute__((noinline)) void rows_of_columns(T* to, const i64* at, const T* from, i32 rows,
                                                      i64 width) {
  constexpr i32 SIDE = 4 * LANES / (i32)sizeof(T), HALF = SIDE > 4 ? SIDE / 2 : SIDE;
  if (width <= HALF) {
    rows_of_columns_by<ROWS, HALF>(to, at, from, rows, width);
  } else {
    rows_of_columns_by<ROWS, SIDE>(to, at, from, rows, width);
  }
}
