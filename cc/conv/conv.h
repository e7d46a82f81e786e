// Convolutions behind BladeHost::conv, for f32 and f64.
//
// A convolution is a matrix product whose left side is never written down: row i of A is what the
// window of output pixel i sees, a list of contiguous pieces of x (window.h). The register tiles of
// conv/window_kernels.h read it where it lies. Filters are packed as B of a product is.
#ifndef BLADE_CONV_CONV_H_
#define BLADE_CONV_CONV_H_

#include "blade_abi.h"
#include "gemm/gemm.h"
#include "gemm/packed_b.h"

namespace blade {

// The right side of the product: a group is a batch entry, k runs over the window and the channels.
BladeGemm FilterAsB(const BladeConv& conv);

// Whether RunConv wants FilterAsB packed.
bool UsesPackedFilter(const BladeConv& conv);

// Runs `conv`. `packed` is its FilterAsB as PackB made it, or null. Returns 0, BLADE_HOST_ERROR
// when the dtype isn't f32 or f64, or BLADE_OUT_OF_MEMORY when there is none to pack a filter in.
int RunConv(const BladeConv& conv, const GemmHost& host, const PackedB* packed);

// Returns f(T()) for the convolution's element type T.
template <typename F>
auto WithType(const BladeConv& conv, F f) {
  return conv.dtype == BLADE_F64 ? f(double{}) : f(float{});
}

// The name of the implementation RunConv would use.
const char* ConvImplementationName(const BladeConv& conv);

// One way to run a convolution. `refuse` gives the reason why it doesn't take this one, or null.
struct ConvImplementation {
  const char* name;
  const char* (*refuse)(const BladeConv& conv);
  int (*run)(const BladeConv& conv, const GemmHost& host, const PackedB* packed);
};

// Each output channel sees one input channel: vectors run along the channels.
extern const ConvImplementation kConvDepthwise;
// Few filters: vectors run along the pixels of a row.
extern const ConvImplementation kConvPlanes;
// Register tiles over panels of the filter.
extern const ConvImplementation kConvIndirect;
// Seven loops in double precision. Takes everything; what the others are tested against.
extern const ConvImplementation kConvReference;

}  // namespace blade

#endif  // BLADE_CONV_CONV_H_
