// The hash functions of TensorFlow's string ops, bit for bit.
//
//   Fingerprint64     farmhash (Pike, Alakuijala): StringToHashBucketFast, SparseCross
//   SipHash24         Aumasson, Bernstein, "SipHash: a fast short-input PRF":
//                     StringToHashBucketStrong with key[0], key[1]
//   FingerprintCat64  tsl/platform/fingerprint.h: how SparseCross chains fingerprints
#ifndef BLADE_LOOKUP_HASHES_H_
#define BLADE_LOOKUP_HASHES_H_

#include "text.h"

namespace blade_lookup {
namespace {

constexpr U64 kFarm0 = 0xc3a5c85c97cb3127u;
constexpr U64 kFarm1 = 0xb492b66fbe98f273u;
constexpr U64 kFarm2 = 0x9ae16a3b2f90404fu;

static inline U64 RotateRight(U64 x, int by) { return (x >> by) | (x << (64 - by)); }
static inline U64 ShiftMix(U64 x) { return x ^ (x >> 47); }

static inline U64 FarmMix(U64 u, U64 v, U64 mul) {
  const U64 a = ShiftMix((u ^ v) * mul);
  return ShiftMix((v ^ a) * mul) * mul;
}

static inline U64 FarmTo16(const char* s, U64 size) {
  const U64 mul = kFarm2 + size * 2;
  if (size >= 8) {
    const U64 a = Load64(s) + kFarm2, b = Load64(s + size - 8);
    return FarmMix(RotateRight(b, 37) * mul + a, (RotateRight(a, 25) + b) * mul, mul);
  }
  if (size >= 4) {
    return FarmMix(size + (U64{Load32(s)} << 3), Load32(s + size - 4), mul);
  }
  if (size == 0) return kFarm2;
  const auto byte = [s](U64 i) { return U32{static_cast<unsigned char>(s[i])}; };
  const U32 y = byte(0) + (byte(size >> 1) << 8);
  const U32 z = static_cast<U32>(size) + (byte(size - 1) << 2);
  return ShiftMix(y * kFarm2 ^ z * kFarm0) * kFarm2;
}

static inline U64 FarmTo32(const char* s, U64 size) {
  const U64 mul = kFarm2 + size * 2;
  const U64 a = Load64(s) * kFarm1, b = Load64(s + 8);
  const U64 c = Load64(s + size - 8) * mul, d = Load64(s + size - 16) * kFarm2;
  return FarmMix(RotateRight(a + b, 43) + RotateRight(c, 30) + d,
                 a + RotateRight(b + kFarm2, 18) + c, mul);
}

static inline U64 FarmTo64(const char* s, U64 size) {
  const U64 mul = kFarm2 + size * 2;
  const U64 a = Load64(s) * kFarm2, b = Load64(s + 8);
  const U64 c = Load64(s + size - 8) * mul, d = Load64(s + size - 16) * kFarm2;
  const U64 y = RotateRight(a + b, 43) + RotateRight(c, 30) + d;
  const U64 z = FarmMix(y, a + RotateRight(b + kFarm2, 18) + c, mul);
  const U64 e = Load64(s + 16) * mul, f = Load64(s + 24);
  const U64 g = (y + Load64(s + size - 32)) * mul, h = (z + Load64(s + size - 24)) * mul;
  return FarmMix(RotateRight(e + f, 43) + RotateRight(g, 30) + h, e + RotateRight(f + a, 18) + g,
                 mul);
}

struct FarmPair {
  U64 first, second;
};

static inline FarmPair FarmWeak(const char* s, U64 a, U64 b) {
  const U64 w = Load64(s), x = Load64(s + 8), y = Load64(s + 16), z = Load64(s + 24);
  a += w;
  b = RotateRight(b + a + z, 21);
  const U64 c = a;
  a += x + y;
  b += RotateRight(a, 44);
  return {a + z, b + c};
}

struct FarmState {
  U64 x, y, z;
  FarmPair v, w;

  void Step(const char* s, U64 mul, U64 w_factor, U64 v_factor) {
    x = RotateRight(x + y + v.first + Load64(s + 8), 37) * mul;
    y = RotateRight(y + v.second + Load64(s + 48), 42) * mul;
    x ^= w.second * w_factor;
    y += v.first * v_factor + Load64(s + 40);
    z = RotateRight(z + w.first, 33) * mul;
    v = FarmWeak(s, v.second * mul, x + w.first);
    w = FarmWeak(s + 32, z + w.second, y + Load64(s + 16));
    const U64 swapped = z;
    z = x;
    x = swapped;
  }
};

static inline U64 FarmLong(const char* s, U64 size) {
  constexpr U64 kSeed = 81;
  FarmState state = {kSeed, kSeed * kFarm1 + 113, 0, {0, 0}, {0, 0}};
  state.z = ShiftMix(state.y * kFarm2 + 113) * kFarm2;
  state.x = state.x * kFarm2 + Load64(s);
  const char* const end = s + (size - 1) / 64 * 64;
  const char* const last = s + size - 64;
  for (; s != end; s += 64) state.Step(s, kFarm1, 1, 1);
  const U64 mul = kFarm1 + ((state.z & 0xff) << 1);
  state.w.first += (size - 1) & 63;
  state.v.first += state.w.first;
  state.w.first += state.v.first;
  state.Step(last, mul, 9, 9);
  return FarmMix(FarmMix(state.v.first, state.w.first, mul) + ShiftMix(state.y) * kFarm0 + state.z,
                 FarmMix(state.v.second, state.w.second, mul) + state.x, mul);
}

static inline U64 Fingerprint64(View s) {
  if (s.size <= 16) return FarmTo16(s.data, s.size);
  if (s.size <= 32) return FarmTo32(s.data, s.size);
  if (s.size <= 64) return FarmTo64(s.data, s.size);
  return FarmLong(s.data, s.size);
}

// Fingerprint64 of the decimal text of x: AsString, then StringToHashBucketFast.
static inline U64 FingerprintOfDecimal(BladeInt x) {
  char buffer[kMaxDecimal];
  return Fingerprint64(Decimal(x, buffer));
}

static inline U64 FingerprintCat64(U64 a, U64 b) {
  constexpr U64 kMul = 0xc6a4a7935bd1e995u;
  U64 result = a ^ kMul;
  result ^= ShiftMix(b * kMul) * kMul;
  result *= kMul;
  return ShiftMix(ShiftMix(result) * kMul);
}

struct SipState {
  U64 v0, v1, v2, v3;

  void Round() {
    v0 += v1, v2 += v3;
    v1 = RotateRight(v1, 64 - 13) ^ v0, v3 = RotateRight(v3, 64 - 16) ^ v2;
    v0 = RotateRight(v0, 32);
    v2 += v1, v0 += v3;
    v1 = RotateRight(v1, 64 - 17) ^ v2, v3 = RotateRight(v3, 64 - 21) ^ v0;
    v2 = RotateRight(v2, 32);
  }

  void Take(U64 word) {
    v3 ^= word;
    Round();
    Round();
    v0 ^= word;
  }
};

static inline U64 SipHash24(View s, U64 key0, U64 key1) {
  SipState state = {key0 ^ 0x736f6d6570736575u, key1 ^ 0x646f72616e646f6du,
                    key0 ^ 0x6c7967656e657261u, key1 ^ 0x7465646279746573u};
  U64 i = 0;
  for (; i + 8 <= s.size; i += 8) state.Take(Load64(s.data + i));
  U64 last = s.size << 56;
  for (U64 k = 0; i + k < s.size; ++k) {
    last |= U64{static_cast<unsigned char>(s.data[i + k])} << (8 * k);
  }
  state.Take(last);
  state.v2 ^= 0xff;
  for (int round = 0; round < 4; ++round) state.Round();
  return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

}  // namespace
}  // namespace blade_lookup

#endif  // BLADE_LOOKUP_HASHES_H_
