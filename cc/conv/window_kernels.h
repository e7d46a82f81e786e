// The inner kernels of convolutions, a part of gemm/kernels_impl.h: the same rules hold.

namespace blade {
namespace {

// As TileKernel, with rows of A that may lie anywhere and come in pieces.
template <typename T, int kRows, int kVectors>
void WindowTileKernel(const WindowTile<T>& t) {
  constexpr int kAccumulators = kRows * kVectors;
  constexpr int kChains = kAccumulators >= 5 ? 1 : kAccumulators >= 3 ? 2 : 4;
  constexpr int kWidth = 2 * kLanes<T>;
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) __builtin_prefetch(t.c + i * t.ldc, 1);
  Vec<T> sum[kChains][kRows][kVectors] = {};
  const T* a[kRows];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) a[i] = t.a + t.rows[i];
  for (BladeInt tap = 0; tap < t.n_taps; ++tap) {
    const T* b = t.b + t.taps[tap].b * kWidth;
    BladeInt at = t.taps[tap].a, p = 0;
    for (; p + kChains <= t.k; p += kChains, at += kChains * t.step, b += kChains * kWidth) {
#pragma GCC unroll 4
      for (int chain = 0; chain < kChains; ++chain) {
        Vec<T> bv[kVectors];
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) bv[v] = Load(b + chain * kWidth + v * kLanes<T>);
#pragma GCC unroll 16
        for (int i = 0; i < kRows; ++i) {
          const Vec<T> av = a[i][at + chain * t.step] - Vec<T>{};
#pragma GCC unroll 4
          for (int v = 0; v < kVectors; ++v) sum[chain][i][v] += av * bv[v];
        }
      }
    }
    for (; p < t.k; ++p, at += t.step, b += kWidth) {
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) {
        const Vec<T> av = a[i][at] - Vec<T>{};
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) sum[0][i][v] += av * Load(b + v * kLanes<T>);
      }
    }
  }
#pragma GCC unroll 4
  for (int chain = 1; chain < kChains; ++chain) {
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[0][i][v] += sum[chain][i][v];
    }
  }
  FinishTile<T, kRows, kVectors>(sum[0], t.epilogue, t.c, t.ldc, t.n);
}

// kRows pixels by kVectors vectors of channels, from channel j on. Lanes: Whole, or First for the
// last channels.
template <typename T, typename Lanes, int kRows, int kVectors>
BLADE_INLINE void ChannelBlock(const ChannelTile<T>& t, BladeInt i0, BladeInt j,
                               const Lanes& lanes) {
  Vec<T> sum[kRows][kVectors] = {};
  const T* a[kRows];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) a[i] = t.a + t.rows[i0 + i] + j;
  for (BladeInt tap = 0; tap < t.n_taps; ++tap) {
    const T* b = t.b + t.taps[tap].b * t.ldb + j;
    const BladeInt place = t.taps[tap].a;
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const Vec<T> bv = lanes.Load(b + v * kLanes<T>);
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i) sum[i][v] += lanes.Load(a[i] + place + v * kLanes<T>) * bv;
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const BladeInt at = j + v * kLanes<T>;
      Vec<T> x = sum[i][v];
      if (t.epilogue.bias != nullptr) x += lanes.Load(t.epilogue.bias + at);
      if (t.epilogue.relu) x = Relu<T>(x);
      lanes.Store(t.c + (i0 + i) * t.ldc + at, x);
    }
  }
}

// All pixels of a tile, for channels [j, j + kVectors vectors).
template <typename T, typename Lanes, int kVectors>
void ChannelColumns(const ChannelTile<T>& t, BladeInt j, const Lanes& lanes) {
  BladeInt i = 0;
  for (; i + 4 <= t.m; i += 4) ChannelBlock<T, Lanes, 4, kVectors>(t, i, j, lanes);
  for (; i < t.m; ++i) ChannelBlock<T, Lanes, 1, kVectors>(t, i, j, lanes);
}

template <typename T>
void ChannelKernel(const ChannelTile<T>& t) {
  const Whole<T> whole;
  BladeInt j = 0;
  for (; j + 2 * kLanes<T> <= t.n; j += 2 * kLanes<T>) ChannelColumns<T, Whole<T>, 2>(t, j, whole);
  for (; j + kLanes<T> <= t.n; j += kLanes<T>) ChannelColumns<T, Whole<T>, 1>(t, j, whole);
  if (j < t.n) ChannelColumns<T, First<T>, 1>(t, j, First<T>(t.n - j));
}

// kFilters filters by kVectors vectors of pixels, from pixel i0 on, as long as they are full; the
// last ones may be cut.
template <typename T, int kFilters, int kVectors>
void PlaneRows(const PlaneTile<T>& t, BladeInt i0) {
  constexpr BladeInt kPixels = kVectors * kLanes<T>;
  while (i0 < t.m) {
    const BladeInt pixels = t.m - i0 < kPixels ? t.m - i0 : kPixels;
    if constexpr (kVectors > 1) {
      if (pixels <= kPixels / 2) return PlaneRows<T, kFilters, kVectors / 2>(t, i0);
    }
    Vec<T> sum[kFilters][kVectors] = {};
    for (BladeInt tap = 0; tap < t.n_taps; ++tap) {
      const T* a = t.a + t.taps[tap].a + i0;
      const T* b = t.b + t.taps[tap].b * t.ldb;
      Vec<T> av[kVectors];
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) av[v] = Load(a + v * kLanes<T>);
#pragma GCC unroll 8
      for (int f = 0; f < kFilters; ++f) {
        const Vec<T> bv = b[f] - Vec<T>{};
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) sum[f][v] += av[v] * bv;
      }
    }
    T values[kFilters][kPixels];
#pragma GCC unroll 8
    for (int f = 0; f < kFilters; ++f) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        Vec<T> x = sum[f][v];
        if (t.epilogue.bias != nullptr) x += t.epilogue.bias[f] - Vec<T>{};
        if (t.epilogue.relu) x = Relu<T>(x);
        Store(&values[f][v * kLanes<T>], x);
      }
    }
    T* c = t.c + i0 * t.ldc;
    for (BladeInt i = 0; i < pixels; ++i) {
#pragma GCC unroll 8
      for (int f = 0; f < kFilters; ++f) c[i * t.ldc + f] = values[f][i];
    }
    i0 += pixels;
  }
}

template <typename T, int kFilters>
void PlaneKernel(const PlaneTile<T>& t) {
  // Accumulators, a vector of each plane and one of the filter fill the register file.
  constexpr int kRegisters = BLADE_GEMM_ROWS >= 14 ? 30 : 14;
  constexpr int kMost = kRegisters / (kFilters + 1);
  PlaneRows<T, kFilters, (kMost > 8 ? 8 : kMost < 1 ? 1 : kMost)>(t, 0);
}

}  // namespace
}  // namespace blade
