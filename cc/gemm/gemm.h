// Matrix products behind BladeHost::gemm, for f32 and f64.
//
// The kernels are our own: compiler vector extensions in one source, compiled for each ISA level
// and chosen at run time. See kernels.h for what a level provides and gemm.cc for the ordered list
// of implementations, best first, the reference last.
#ifndef BLADE_GEMM_GEMM_H_
#define BLADE_GEMM_GEMM_H_

#include "blade_abi.h"
#include "gemm/packed_b.h"

namespace blade {

// What a product needs from its host. A plain struct, so that a call costs nothing to set up.
struct GemmHost {
  // As BladeHost::parallel_for.
  void (*parallel_for)(void* ctx, BladeInt total, double cost_cycles, BladeBody body,
                       const void* args);
  void* ctx;
  int threads;  // how many threads parallel_for may use
  // As BladeHost::count. Null: columns of A that are the same in every row are not looked for.
  void (*count)(void* ctx, int event, BladeInt times);
};

// Runs `gemm`. `packed` is its B as PackB made it, or null. Returns 0, or BLADE_HOST_ERROR when
// the dtype isn't f32 or f64. No scratch memory is allocated.
int RunGemm(const BladeGemm& gemm, const GemmHost& host, const PackedB* packed);

// The name of the implementation RunGemm would use, e.g. "gemm_f32_packed_x86-64-v3".
const char* GemmImplementationName(const BladeGemm& gemm, const PackedB* packed);

// One way to run a product. `refuse` gives the reason why it doesn't take this one, or null.
struct GemmImplementation {
  const char* name;
  const char* (*refuse)(const BladeGemm& gemm, const PackedB* packed);
  void (*run)(const BladeGemm& gemm, const GemmHost& host, const PackedB* packed);
};

// Inner products of rows of A with columns of B: few columns, or few rows and B transposed.
extern const GemmImplementation kGemmDot;
// Sums of scaled rows of B: few rows of A, B as it lies in memory.
extern const GemmImplementation kGemmAxpy;
// Six products of bf16 parts, where the processor multiplies matrices of these.
extern const GemmImplementation kGemmSplit;
// Register tiles over panels of B, packed ahead or on the way.
extern const GemmImplementation kGemmPacked;
// Three loops in double precision. Takes everything; what the others are tested against.
extern const GemmImplementation kGemmReference;

}  // namespace blade

#endif  // BLADE_GEMM_GEMM_H_
