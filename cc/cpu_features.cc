#include "cpu_features.h"

#include <cstdint>
#include <cstdlib>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace blade {
namespace {

constexpr const char* kMaxIsa = "TF_BLADE_MAX_ISA";

#if defined(__x86_64__)

struct Registers {
  unsigned a = 0, b = 0, c = 0, d = 0;
};

Registers CpuId(unsigned leaf, unsigned subleaf = 0) {
  Registers r;
  if (__get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d) == 0) return Registers{};
  return r;
}

// The register state the operating system saves on a context switch (XCR0).
uint64_t SavedState() {
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

constexpr bool HasAll(uint64_t value, uint64_t mask) { return (value & mask) == mask; }

// The lists are those of the x86-64 psABI's microarchitecture levels.
Isa Detect() {
  const Registers basic = CpuId(1), extended = CpuId(7), amd = CpuId(0x80000001);
  // SSE3, SSSE3, CMPXCHG16B, SSE4.1, SSE4.2, POPCNT; LAHF-SAHF.
  constexpr unsigned kV2 =
      bit_SSE3 | bit_SSSE3 | bit_CMPXCHG16B | bit_SSE4_1 | bit_SSE4_2 | bit_POPCNT;
  if (!HasAll(basic.c, kV2) || !HasAll(amd.c, bit_LAHF_LM)) return Isa::kBase;

  constexpr unsigned kV3 = bit_FMA | bit_MOVBE | bit_OSXSAVE | bit_AVX | bit_F16C;
  constexpr unsigned kV3Extended = bit_BMI | bit_AVX2 | bit_BMI2;
  if (!HasAll(basic.c, kV3) || !HasAll(extended.b, kV3Extended) || !HasAll(amd.c, bit_LZCNT)) {
    return Isa::kX8664V2;
  }
  const uint64_t saved = SavedState();
  constexpr uint64_t kAvxState = 0x6;      // xmm, ymm
  constexpr uint64_t kAvx512State = 0xe6;  // and opmask, upper halves, zmm16-31
  if (!HasAll(saved, kAvxState)) return Isa::kX8664V2;

  constexpr unsigned kV4Extended =
      bit_AVX512F | bit_AVX512BW | bit_AVX512CD | bit_AVX512DQ | bit_AVX512VL;
  if (!HasAll(extended.b, kV4Extended) || !HasAll(saved, kAvx512State)) return Isa::kX8664V3;
  return Isa::kX8664V4;
}

constexpr Isa kIsas[] = {Isa::kX8664V4, Isa::kX8664V3, Isa::kX8664V2};

bool DetectAmxBf16() {
  if (BestIsa() != Isa::kX8664V4 || std::getenv(kMaxIsa) != nullptr) return false;
  constexpr unsigned kAmxBf16 = 1u << 22, kAmxTile = 1u << 24;  // leaf 7, d
  constexpr unsigned kAvx512Bf16 = 1u << 5;                     // leaf 7.1, a
  constexpr uint64_t kTileState = 0x60000;                      // configuration and tiles
  if (!HasAll(CpuId(7).d, kAmxBf16 | kAmxTile) || !HasAll(CpuId(7, 1).a, kAvx512Bf16) ||
      !HasAll(SavedState(), kTileState)) {
    return false;
  }
#if defined(__linux__)
  // Tiles make a thread's state 8 KiB larger, so Linux wants to be asked (x86/xstate.rst).
  constexpr int kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

#elif defined(__aarch64__)

Isa Detect() { return Isa::kAArch64; }

constexpr Isa kIsas[] = {Isa::kAArch64};

#else

Isa Detect() { return Isa::kBase; }

constexpr Isa kIsas[] = {Isa::kBase};

#endif

Isa DetectWithLimit() {
  const Isa found = Detect();
  const char* limit = std::getenv(kMaxIsa);
  if (limit == nullptr) return found;
  if (std::string_view(limit) == IsaName(Isa::kBase)) return Isa::kBase;
  for (const Isa isa : kIsas) {
    if (std::string_view(limit) == IsaName(isa)) return isa < found ? isa : found;
  }
  return found;
}

}  // namespace

Isa BestIsa() {
  static const Isa best = DetectWithLimit();
  return best;
}

bool HasAmxBf16() {
#if defined(__x86_64__)
  static const bool has = DetectAmxBf16();
  return has;
#else
  return false;
#endif
}

const char* IsaName(Isa isa) {
  switch (isa) {
    case Isa::kBase:
      return "base";
    case Isa::kX8664V2:
      return "x86-64-v2";
    case Isa::kX8664V3:
      return "x86-64-v3";
    case Isa::kX8664V4:
      return "x86-64-v4";
    case Isa::kAArch64:
      return "aarch64";
  }
  return "unknown";
}

bool SupportsIsa(std::string_view name) {
  for (const Isa isa : kIsas) {
    if (isa <= BestIsa() && name == IsaName(isa)) return true;
  }
  return false;
}

std::vector<std::string> SupportedIsas() {
  std::vector<std::string> names;
  for (const Isa isa : kIsas) {
    if (isa <= BestIsa()) names.emplace_back(IsaName(isa));
  }
  return names;
}

}  // namespace blade
