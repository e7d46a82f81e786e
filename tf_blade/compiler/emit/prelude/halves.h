// Halves, which are their bits: arithmetic is done in f32.

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
