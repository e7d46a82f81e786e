// Strings as TensorFlow keeps them in a tensor, and the text of integers.
//
// Freestanding, as all headers of this folder: generated code includes them verbatim.
#ifndef BLADE_LOOKUP_TEXT_H_
#define BLADE_LOOKUP_TEXT_H_

#include "blade_abi.h"

namespace blade_lookup {

typedef __UINT64_TYPE__ U64;
typedef __UINT32_TYPE__ U32;

// Bytes that belong to somebody else.
struct View {
  const char* data;
  U64 size;
};

// An element of a string tensor: the layout of TF_TString on little-endian machines
// (tensorflow/tsl/platform/ctstring_internal.h).
struct alignas(8) TString {
  unsigned char raw[24];
};

namespace {

static inline U64 Load64(const void* p) {
  U64 x;
  __builtin_memcpy(&x, p, sizeof(x));
  return x;
}

static inline U32 Load32(const void* p) {
  U32 x;
  __builtin_memcpy(&x, p, sizeof(x));
  return x;
}

// The string's bytes, valid as long as it is. The two low bits of the first byte say where they
// are: inside, on the heap, at an offset from the string itself, or in somebody else's memory.
static inline View ViewOf(const TString& s) {
  switch (s.raw[0] & 3) {
    case 0:
      return {reinterpret_cast<const char*>(s.raw + 1), U64{s.raw[0]} >> 2};
    case 1:
      return {reinterpret_cast<const char*>(Load64(s.raw + 16)), Load64(s.raw) >> 2};
    case 2:
      return {reinterpret_cast<const char*>(s.raw) + Load32(s.raw + 4), U64{Load32(s.raw) >> 2}};
    default:
      return {reinterpret_cast<const char*>(Load64(s.raw + 8)), Load64(s.raw) >> 2};
  }
}

// Whether n bytes are the same. Short ones, which most are, without a call: the first and last
// bytes, which may overlap, cover them.
static inline bool SameBytes(const char* a, const char* b, U64 n) {
  if (n > 16) return __builtin_memcmp(a, b, n) == 0;
  if (n >= 8) {
    return ((Load64(a) ^ Load64(b)) | (Load64(a + n - 8) ^ Load64(b + n - 8))) == 0;
  }
  if (n >= 4) {
    return ((Load32(a) ^ Load32(b)) | (Load32(a + n - 4) ^ Load32(b + n - 4))) == 0;
  }
  return n == 0 || (a[0] == b[0] && a[n / 2] == b[n / 2] && a[n - 1] == b[n - 1]);
}

static inline bool Equal(View a, View b) {
  return a.size == b.size && SameBytes(a.data, b.data, a.size);
}

static inline bool Equal(const TString& a, const TString& b) { return Equal(ViewOf(a), ViewOf(b)); }

constexpr int kMaxDecimal = 20;  // characters of the smallest int64

// The decimal text of x as AsString writes it; the result lies in `buffer`.
static inline View Decimal(BladeInt x, char (&buffer)[kMaxDecimal]) {
  U64 rest = x < 0 ? U64{0} - static_cast<U64>(x) : static_cast<U64>(x);
  char* p = buffer + kMaxDecimal;
  do {
    *--p = static_cast<char>('0' + rest % 10);
    rest /= 10;
  } while (rest != 0);
  if (x < 0) *--p = '-';
  return {p, static_cast<U64>(buffer + kMaxDecimal - p)};
}

}  // namespace
}  // namespace blade_lookup

#endif  // BLADE_LOOKUP_TEXT_H_
