// Types, and what numbers look like in memory.

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

//@ is_set:
// A bool in memory. GCC makes vector masks of comparisons, not of bytes it knows to be 0 or 1.
INLINE bool is_set(const bool& x) { return reinterpret_cast<const u8&>(x) != 0; }
