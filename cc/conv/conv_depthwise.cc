// Depthwise convolutions: an output channel sees one input channel, and a vector is a run of
// channels of one pixel.
#include <algorithm>

#include "conv/conv.h"
#include "conv/window.h"
#include "gemm/gemm_internal.h"

namespace blade {
namespace {

// Channels done at a time: with more of them the rows that windows share would leave the cache.
constexpr BladeInt kMostChannels = 64;

const char* Refuse(const BladeConv& conv) {
  if (conv.channels != 1 || conv.groups == 1) return "an output channel sees several channels";
  const Window window(conv);
  const BladeInt channels = std::min(conv.groups, kMostChannels) * conv.filters;
  const bool fits = WithType(
      conv, [&](auto zero) { return WindowReader<decltype(zero)>::Fits(window, channels, 1); });
  return fits ? nullptr : "a window that is too large to be copied";
}

template <typename T>
void RunPart(const BladeConv& conv, const Window& window, const Part& part) {
  const Kernels<T>& kernels = BestKernels<T>();
  const BladeInt repeat = conv.filters;
  const T* bias = static_cast<const T*>(conv.bias);
  for (BladeInt n0 = part.n0; n0 < part.n1; n0 += kMostChannels) {
    const BladeInt channels = std::min(kMostChannels, part.n1 - n0);
    WindowReader<T> reader(window, conv.x, n0, channels, repeat, false);
    ChannelTile<T> tile;
    tile.b = static_cast<const T*>(conv.filter) + n0 * repeat;
    tile.ldb = tile.ldc = conv.groups * repeat;
    tile.n = channels * repeat;
    tile.epilogue = {false, conv.activation == BLADE_ACTIVATION_RELU,
                     bias != nullptr ? bias + n0 * repeat : nullptr};
    for (BladeInt p = part.m0; p < part.m1;) {
      const BladeInt end = reader.BlockEnd(p, part.m1);
      reader.Read(p, end);
      tile.a = reader.data();
      tile.rows = reader.rows();
      tile.taps = reader.taps().data();
      tile.n_taps = static_cast<BladeInt>(reader.taps().size());
      tile.m = end - p;
      tile.c = static_cast<T*>(conv.y) + p * tile.ldc + n0 * repeat;
      kernels.channels(tile);
      p = end;
    }
  }
}

template <typename T>
int RunTyped(const BladeConv& conv, const GemmHost& host) {
  const Window window(conv);
  // As a product, whose parts are pixels and channels.
  BladeGemm product{};
  product.dtype = conv.dtype;
  product.batch = 1;
  product.m = window.pixels();
  product.n = conv.groups;
  product.k = 2 * window.taps() * conv.filters;  // an operand comes from memory each time
  const Grid grid = MakeGrid(product, host.threads, window.out[2], kMostChannels);
  ForEachPart(product, host, grid, [&](const Part& part) { RunPart<T>(conv, window, part); });
  return BLADE_OK;
}

int Run(const BladeConv& conv, const GemmHost& host, const PackedB*) {
  return WithType(conv, [&](auto zero) { return RunTyped<decltype(zero)>(conv, host); });
}

}  // namespace

const ConvImplementation kConvDepthwise = {"conv_depthwise", Refuse, Run};

}  // namespace blade
