// Convolutions as products of register tiles: rows are output pixels, in whatever rows of the image
// they lie, and columns are filters.
#include <algorithm>
#include <memory>
#include <vector>

#include "conv/conv.h"
#include "conv/window.h"
#include "gemm/gemm_internal.h"

namespace blade {
namespace {

const char* Refuse(const BladeConv& conv) {
  if (conv.channels <= 0) return "no channels";
  const Window window(conv);
  const bool fits = WithType(conv, [&](auto zero) {
    return WindowReader<decltype(zero)>::Fits(window, conv.channels, 1);
  });
  return !window.padded || fits ? nullptr : "a window that is too large to be copied";
}

// The sizes of the product, to be cut into parts.
BladeGemm Product(const BladeConv& conv, const Window& window) {
  BladeGemm gemm = FilterAsB(conv);
  gemm.m = window.pixels();
  return gemm;
}

template <typename T>
class PartRunner {
 public:
  PartRunner(const BladeConv& conv, const Window& window, const PackedB& packed, const Part& part)
      : conv_(conv),
        packed_(packed),
        part_(part),
        kernels_(BestKernels<T>()),
        reader_(window, conv.x, part.batch * conv.channels, conv.channels, 1, true) {}

  void Run() {
    for (BladeInt p = part_.m0; p < part_.m1;) {
      const BladeInt end = reader_.BlockEnd(p, part_.m1);
      reader_.Read(p, end);
      RunBlock(p, end);
      p = end;
    }
  }

 private:
  void RunBlock(BladeInt begin, BladeInt end) {
    const BladeInt pixels = end - begin, columns = kernels_.columns;
    // Tiles as high as they can be and as equal as they can be.
    const BladeInt tiles = (pixels - 1) / kernels_.rows + 1;
    const BladeInt height = (pixels - 1) / tiles + 1;
    const BladeInt group = part_.batch * conv_.filters;
    const T* bias = static_cast<const T*>(conv_.bias);
    taps_ = reader_.taps();
    for (Tap& tap : taps_) tap.b *= conv_.channels;
    WindowTile<T> tile;
    tile.a = reader_.data();
    tile.taps = taps_.data();
    tile.n_taps = static_cast<BladeInt>(taps_.size());
    tile.k = reader_.length();
    tile.step = reader_.step();
    tile.ldc = conv_.groups * conv_.filters;
    for (BladeInt n0 = part_.n0; n0 < part_.n1; n0 += columns) {
      tile.n = std::min(columns, part_.n1 - n0);
      tile.b = packed_.Entry<T>(part_.batch) + n0 * packed_.k;
      tile.epilogue = {false, conv_.activation == BLADE_ACTIVATION_RELU,
                       bias != nullptr ? bias + group + n0 : nullptr};
      T* c = static_cast<T*>(conv_.y) + begin * tile.ldc + group + n0;
      const auto* kernel = kernels_.window_tile[tile.n > kernels_.lanes];
      for (BladeInt i = 0; i < pixels; i += height) {
        tile.rows = reader_.rows() + i;
        tile.c = c + i * tile.ldc;
        kernel[std::min(height, pixels - i) - 1](tile);
      }
    }
  }

  const BladeConv& conv_;
  const PackedB& packed_;
  const Part part_;
  const Kernels<T>& kernels_;
  std::vector<Tap> taps_;
  WindowReader<T> reader_;
};

template <typename T>
int RunTyped(const BladeConv& conv, const GemmHost& host, const PackedB& packed) {
  const Window window(conv);
  const BladeGemm product = Product(conv, window);
  const Kernels<T>& kernels = BestKernels<T>();
  // Parts of whole rows share what they copy.
  const bool whole_rows = window.padded && window.out[2] >= kernels.rows;
  const BladeInt unit = whole_rows ? window.out[2] : kernels.rows;
  const Grid grid = MakeGrid(product, host.threads, unit, kernels.columns);
  ForEachPart(product, host, grid,
              [&](const Part& part) { PartRunner<T>(conv, window, packed, part).Run(); });
  return BLADE_OK;
}

int Run(const BladeConv& conv, const GemmHost& host, const PackedB* packed) {
  std::unique_ptr<PackedB> own;
  if (packed == nullptr || packed->columns == 0) {
    own = PackB(FilterAsB(conv));
    if (own == nullptr) return BLADE_OUT_OF_MEMORY;
    packed = own.get();
  }
  return WithType(conv, [&](auto zero) { return RunTyped<decltype(zero)>(conv, host, *packed); });
}

}  // namespace

const ConvImplementation kConvIndirect = {"conv_indirect", Refuse, Run};

}  // namespace blade
