// What the run function uses: dims, memory, products over nothing.

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

//@ add_bias_only:
// A matrix product over no terms: zeros, plus the bias, through the activation, plus the residual.
template <class T>
INLINE void add_bias_only(const BladeGemm* g) {
  T* c = static_cast<T*>(g->c);
  const T* bias = static_cast<const T*>(g->bias);
  const T* residual = static_cast<const T*>(g->residual);
  for (i64 i = 0; i < g->batch; ++i)
    for (i64 row = 0; row < g->m; ++row)
      for (i64 j = 0; j < g->n; ++j) {
        const T x = bias ? bias[j] : T(0);
        const bool cut = g->activation == BLADE_ACTIVATION_RELU && x < 0;
        const i64 place = i * g->c_stride + row * g->ldc + j;
        c[place] = (cut ? T(0) : x) + (residual ? residual[place] : T(0));
      }
}
