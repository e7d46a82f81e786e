#include "conv/conv.h"

namespace blade {
namespace {

// Best first. The first one that doesn't refuse runs.
constexpr const ConvImplementation* kImplementations[] = {
    &kConvDepthwise,
    &kConvPlanes,
    &kConvIndirect,
    &kConvReference,
};

const ConvImplementation& Choose(const BladeConv& conv) {
  for (const ConvImplementation* implementation : kImplementations) {
    if (implementation->refuse(conv) == nullptr) return *implementation;
  }
  return kConvReference;
}

}  // namespace

BladeGemm FilterAsB(const BladeConv& conv) {
  BladeGemm gemm{};
  gemm.dtype = conv.dtype;
  // Rows of A lie in pieces, so no inner products, for which few columns would be kept transposed.
  gemm.transpose_a = 1;
  gemm.batch = conv.groups;
  gemm.n = conv.filters;
  gemm.k = conv.window[0] * conv.window[1] * conv.window[2] * conv.channels;
  gemm.b = conv.filter;
  gemm.ldb = conv.groups * conv.filters;
  gemm.b_stride = conv.groups > 1 ? conv.filters : 0;
  gemm.b_constant_input = conv.filter_constant_input;
  return gemm;
}

bool UsesPackedFilter(const BladeConv& conv) { return &Choose(conv) == &kConvIndirect; }

int RunConv(const BladeConv& conv, const GemmHost& host, const PackedB* packed) {
  if (conv.dtype != BLADE_F32 && conv.dtype != BLADE_F64) return BLADE_HOST_ERROR;
  const BladeInt pixels = conv.out[0] * conv.out[1] * conv.out[2];
  if (conv.batch <= 0 || pixels <= 0 || conv.groups <= 0 || conv.filters <= 0) return BLADE_OK;
  return Choose(conv).run(conv, host, packed);
}

const char* ConvImplementationName(const BladeConv& conv) { return Choose(conv).name; }

}  // namespace blade
