// Integers, as TensorFlow computes with them: results wrap around.

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
