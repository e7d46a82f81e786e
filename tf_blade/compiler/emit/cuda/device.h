// What CUDA kernels have in the place of parts of emit/prelude/, and what only they need.
//
// CUDA's math library is made for its processors. Errors of its f32 functions, in units of the last
// place, as its programming guide states them: exp, expm1, log, log1p 1; tanh, erf, sin, cos, asin,
// acos, atan 2; erfc, tan, pow 4.

//@ types:
typedef float f32;
typedef double f64;
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
// The bits of halves.
typedef unsigned short f16;
typedef unsigned short bf16;
#define INLINE static INLINE_MEMBER
#define INLINE_MEMBER __device__ __forceinline__

//@ bits:
INLINE i32 bits_of(f32 x) { return __float_as_int(x); }
INLINE f32 from_bits(i32 bits) { return __int_as_float(bits); }

//@ max_f32:
// NaN when an operand is NaN.
INLINE f32 max_f32(f32 a, f32 b) {
  f32 larger;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
  return larger;
}

//@ min_f32:
INLINE f32 min_f32(f32 a, f32 b) {
  f32 smaller;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(smaller) : "f"(a), "f"(b));
  return smaller;
}

//@ exp_f32:
INLINE f32 exp_f32(f32 x) { return expf(x); }

//@ exp_decay_f32:
INLINE f32 exp_decay_f32(f32 x) { return expf(x); }

//@ expm1_f32:
INLINE f32 expm1_f32(f32 x) { return expm1f(x); }

//@ log_f32:
INLINE f32 log_f32(f32 x) { return logf(x); }

//@ log1p_f32:
INLINE f32 log1p_f32(f32 x) { return log1pf(x); }

//@ tanh_f32:
INLINE f32 tanh_f32(f32 x) { return tanhf(x); }

//@ erf_f32:
INLINE f32 erf_f32(f32 x) { return erff(x); }

//@ erfc_f32:
INLINE f32 erfc_f32(f32 x) { return erfcf(x); }

//@ sin_f32:
INLINE f32 sin_f32(f32 x) { return sinf(x); }

//@ cos_f32:
INLINE f32 cos_f32(f32 x) { return cosf(x); }

//@ tan_f32:
INLINE f32 tan_f32(f32 x) { return tanf(x); }

//@ asin_f32:
INLINE f32 asin_f32(f32 x) { return asinf(x); }

//@ acos_f32:
INLINE f32 acos_f32(f32 x) { return acosf(x); }

//@ atan_f32:
INLINE f32 atan_f32(f32 x) { return atanf(x); }

//@ pow_f32:
INLINE f32 pow_f32(f32 x, f32 y) { return powf(x, y); }

//@ lane_access:
// N neighbouring elements that one thread has, moved by accesses of up to 16 bytes where their
// place allows it. `place` is aligned to all N of them, or to 16 bytes.
template <int N, class T>
struct alignas(N * sizeof(T) < 16 ? N * sizeof(T) : 16) Lanes {
  T x[N];
};
template <int N, class T>
INLINE void read_lanes(T (&to)[N], const T* place) {
  const Lanes<N, T> lanes = *reinterpret_cast<const Lanes<N, T>*>(place);
#pragma unroll
  for (int lane = 0; lane < N; ++lane) to[lane] = lanes.x[lane];
}
template <int N, class T>
INLINE void write_lanes(T* place, const T (&from)[N]) {
  Lanes<N, T> lanes;
#pragma unroll
  for (int lane = 0; lane < N; ++lane) lanes.x[lane] = from[lane];
  *reinterpret_cast<Lanes<N, T>*>(place) = lanes;
}

//@ reduce_block:
// The reduction of one number of each of the block's THREADS, for all of them. `room` is shared
// memory for a number a warp; the block must pass a barrier before it is used again.
template <int THREADS, class T, class Combine>
INLINE T reduce_block(T x, T* room, T neutral, Combine combine) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    x = combine(x, __shfl_xor_sync(0xffffffffu, x, distance));
  constexpr int warps = THREADS / 32;
  if (warps == 1) return x;
  const int lane = threadIdx.x % 32;
  if (lane == 0) room[threadIdx.x / 32] = x;
  __syncthreads();
  x = lane < warps ? room[lane] : neutral;
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    x = combine(x, __shfl_xor_sync(0xffffffffu, x, distance));
  return x;
}
