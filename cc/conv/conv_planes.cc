// Convolutions with few filters: a vector is a run of pixels, since one of filters would be mostly
// empty. Windows read planes of one channel each, which are made on the way.
#include <algorithm>

#include "conv/conv.h"
#include "conv/window.h"
#include "gemm/gemm_internal.h"

namespace blade {
namespace {

template <typename T>
const char* RefuseTyped(const BladeConv& conv) {
  const Kernels<T>& kernels = BestKernels<T>();
  const BladeInt lanes = kernels.lanes;
  if (conv.groups != 1 || conv.channels <= 0) return "groups";
  if (2 * conv.filters > lanes || conv.filters > Kernels<T>::kMaxPlaneFilters) {
    return "filters fill half a vector";
  }
  const Window window(conv);
  // Vectors that are not full, and planes that few windows use, cost what the few filters save.
  if (window.out[2] < lanes) return "rows shorter than a vector";
  if (window.taps() * conv.filters < 4) return "windows too small for making planes";
  const bool fits =
      window.low[2] <= WindowReader<T>::kMostPadding &&
      WindowReader<T>::Fits(window, conv.channels, 4 * kernels.columns, Layout::kPlanes);
  return fits ? nullptr : "a window that is too large to be copied";
}

const char* Refuse(const BladeConv& conv) {
  return WithType(conv, [&](auto zero) { return RefuseTyped<decltype(zero)>(conv); });
}

template <typename T>
void RunPart(const BladeConv& conv, const Window& window, const Part& part) {
  const auto kernel = BestKernels<T>().planes[conv.filters - 1];
  WindowReader<T> reader(window, conv.x, 0, conv.channels, 1, false, Layout::kPlanes);
  PlaneTile<T> tile;
  tile.b = static_cast<const T*>(conv.filter);
  tile.ldb = tile.ldc = conv.filters;
  tile.epilogue = {false, conv.activation == BLADE_ACTIVATION_RELU,
                   static_cast<const T*>(conv.bias)};
  for (BladeInt p = part.m0; p < part.m1;) {
    const BladeInt end = reader.BlockEnd(p, part.m1);
    reader.Read(p, end);
    tile.taps = reader.taps().data();
    tile.n_taps = static_cast<BladeInt>(reader.taps().size());
    const BladeInt begin = p;
    while (p < end) {
      tile.a = reader.data() + reader.rows()[p - begin];
      tile.m = std::min(end - p, window.out[2] - p % window.out[2]);
      tile.c = static_cast<T*>(conv.y) + p * tile.ldc;
      kernel(tile);
      p += tile.m;
    }
  }
}

template <typename T>
int RunTyped(const BladeConv& conv, const GemmHost& host) {
  const Window window(conv);
  // As a product, whose parts are pixels.
  BladeGemm product{};
  product.dtype = conv.dtype;
  product.batch = 1;
  product.m = window.pixels();
  product.n = conv.filters;
  product.k = window.taps() * conv.channels;
  const Kernels<T>& kernels = BestKernels<T>();
  const BladeInt unit = std::min<BladeInt>(window.out[2], 8 * kernels.columns);
  const Grid grid = MakeGrid(product, host.threads, unit, conv.filters);
  ForEachPart(product, host, grid, [&](const Part& part) { RunPart<T>(conv, window, part); });
  return BLADE_OK;
}

int Run(const BladeConv& conv, const GemmHost& host, const PackedB*) {
  return WithType(conv, [&](auto zero) { return RunTyped<decltype(zero)>(conv, host); });
}

}  // namespace

const ConvImplementation kConvPlanes = {"conv_planes", Refuse, Run};

}  // namespace blade
