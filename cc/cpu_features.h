// Which instruction set levels this processor and its operating system can run.
#ifndef BLADE_CPU_FEATURES_H_
#define BLADE_CPU_FEATURES_H_

#include <string>
#include <string_view>
#include <vector>

namespace blade {

// Levels generated code and our own kernels are compiled for, as GCC's -march spells them.
// kBase runs everywhere; the x86-64 levels are ordered.
enum class Isa { kBase, kX8664V2, kX8664V3, kX8664V4, kAArch64 };

// The highest level this machine runs. Found once. The environment variable TF_BLADE_MAX_ISA
// (e.g. "x86-64-v2", read once) lowers it, to test or to rule out a code path.
Isa BestIsa();

// Whether this machine multiplies bf16 matrices (AMX) and lets this process do so, which it is
// asked for once. False when TF_BLADE_MAX_ISA is set: every level is below that.
bool HasAmxBf16();

// True when code compiled for `name` ("x86-64-v3", "aarch64", ...) runs here; false for names
// this runtime doesn't know.
bool SupportsIsa(std::string_view name);

// The name of a level; "base" for kBase.
const char* IsaName(Isa isa);

// Names of all supported levels, best first.
std::vector<std::string> SupportedIsas();

}  // namespace blade

#endif  // BLADE_CPU_FEATURES_H_
