// The blocked product: for a part of C, over blocks of k and of rows of A,
//
//   A's block, up to 128 KiB, is packed on the stack (L2) when enough columns use it;
//   panels of B, 16 KiB each, come from the packed constant or are packed on the stack, a few at
//   a time; one at a time is used (L1);
//   register tiles of rows x columns run down the block.
//
// Where many columns of A are the same in all rows, what they add to a panel of C is computed once
// and added as if it were the bias; the other columns are packed side by side.
#include <cstring>

#include "gemm/gemm_internal.h"
#include "gemm/repeated_rows.h"

namespace blade {
namespace {

constexpr BladeInt kBlockBytes = 128 * 1024;  // of A

const char* Refuse(const BladeGemm&, const PackedB*) { return nullptr; }

template <typename T>
class PartRunner {
 public:
  PartRunner(const TypedGemm<T>& typed, const PackedB* packed, const Part& part)
      : typed_(typed),
        gemm_(typed.gemm),
        kernels_(BestKernels<T>()),
        part_(part),
        packed_b_(packed != nullptr ? packed->Entry<T>(part.batch) : nullptr) {}

  // repeats: of A, if there are enough that it pays; or null.
  void Run(const RepeatedRows<T>* repeats) {
    if (repeats != nullptr) return RunRepeated(*repeats);
    const BladeInt m = part_.m1 - part_.m0;
    // With one tile of rows, B is used once and its panels need not stay in cache.
    const BladeInt most_k = packed_b_ != nullptr && m <= kernels_.rows
                                ? std::max<BladeInt>(kBlockBytes / sizeof(T) / m, kernels_.block)
                                : kernels_.block;
    const BladeInt parts_k = gemm_.k == 0 ? 1 : (gemm_.k - 1) / most_k + 1;
    const BladeInt step_k = gemm_.k == 0 ? 1 : (gemm_.k - 1) / parts_k + 1;
    for (BladeInt part_k = 0; part_k < parts_k; ++part_k) {
      const BladeInt k0 = part_k * step_k, k1 = std::min(k0 + step_k, gemm_.k);
      for (BladeInt m0 = part_.m0; m0 < part_.m1; m0 += MostRows()) {
        RunBlock(m0, std::min(m0 + MostRows(), part_.m1), k0, k1);
      }
    }
  }

 private:
  void RunRepeated(const RepeatedRows<T>& repeats) {
    const BladeInt rest = repeats.rest();
    const BladeInt parts_k = rest == 0 ? 1 : (rest - 1) / kernels_.block + 1;
    const BladeInt step_k = rest == 0 ? 1 : (rest - 1) / parts_k + 1;
    for (BladeInt part_k = 0; part_k < parts_k; ++part_k) {
      const BladeInt k0 = part_k * step_k, k1 = std::min(k0 + step_k, rest);
      for (BladeInt m0 = part_.m0; m0 < part_.m1; m0 += MostRows()) {
        RunRestBlock(repeats, m0, std::min(m0 + MostRows(), part_.m1), k0, k1);
      }
    }
  }

  // The same as RunBlock for elements [k0, k1) of the columns that differ, and the sums of those
  // that don't with the last of them.
  void RunRestBlock(const RepeatedRows<T>& repeats, BladeInt m0, BladeInt m1, BladeInt k0,
                    BladeInt k1) {
    const BladeInt k = k1 - k0, m = m1 - m0;
    const BladeInt rows = TileRows(m);
    const T* a = typed_.a(part_.batch) + m0 * typed_.a_row;
    for (BladeInt i = 0; i < m; i += rows) {
      const BladeInt height = std::min(rows, m - i);
      repeats.ForRest(k0, k1, [&](BladeInt from, BladeInt length, BladeInt place) {
        kernels_.interleave(a + i * typed_.a_row + from, typed_.a_row, height, length,
                            static_cast<int>(height), a_block_ + i * k + place * height);
      });
    }
    const bool first = k0 == 0, last = k1 == repeats.rest();
    for (BladeInt n0 = part_.n0; n0 < part_.n1; n0 += kernels_.columns) {
      Tile<T> tile;
      tile.n = std::min<BladeInt>(kernels_.columns, part_.n1 - n0);
      const auto* kernel = kernels_.tile_packed_a[tile.n > kernels_.lanes];
      if (last) SumRepeated(repeats, n0, tile.n);
      repeats.ForRest(k0, k1, [&](BladeInt from, BladeInt length, BladeInt place) {
        PackPanel(n0, from, length, panels_ + place * kernels_.columns);
      });
      tile.b = tile.next_b = panels_;
      tile.b_k = kernels_.columns;
      tile.a_row = 1;
      tile.k = k;
      tile.ldc = gemm_.ldc;
      for (BladeInt i = 0; i < m; i += rows) {
        const BladeInt height = std::min(rows, m - i);
        tile.a = a_block_ + i * k;
        tile.a_k = height;
        tile.epilogue = typed_.epilogue(part_.batch, m0 + i, n0, first, last);
        tile.epilogue.bias = last ? repeated_ : nullptr;
        tile.c = typed_.c(part_.batch) + (m0 + i) * gemm_.ldc + n0;
        kernel[height - 1](tile);
      }
    }
  }

  // repeated_ = bias + what the columns that are the same in all rows add to a panel of C.
  void SumRepeated(const RepeatedRows<T>& repeats, BladeInt n0, BladeInt n) {
    Tile<T> tile;
    tile.n = n;
    tile.a_row = 0, tile.a_k = 1;
    tile.b_k = kernels_.columns;
    tile.c = repeated_;
    tile.ldc = 0;
    const T* a = typed_.a(part_.batch);  // any row
    const T* bias = typed_.bias != nullptr ? typed_.bias + n0 : nullptr;
    bool first = true;
    repeats.ForSame([&](BladeInt from, BladeInt length) {
      for (BladeInt to = from + length; from < to; from += tile.k) {
        tile.epilogue = {!first, false, first ? bias : nullptr, typed_.scale};
        tile.k = to - from;
        if (packed_b_ != nullptr) {
          tile.b = packed_b_ + n0 * gemm_.k + from * kernels_.columns;
        } else {
          tile.k = std::min(tile.k, kernels_.block);
          PackPanel(n0, from, tile.k, panels_);
          tile.b = panels_;
        }
        tile.next_b = tile.b;
        tile.a = a + from;
        kernels_.tile[tile.n > kernels_.lanes][0](tile);
        first = false;
      }
    });
  }

  // Rows [k, k + length) of the panel of B that begins with column n0.
  void PackPanel(BladeInt n0, BladeInt k, BladeInt length, T* to) {
    const int width = kernels_.columns;
    if (packed_b_ != nullptr) {
      std::memcpy(to, packed_b_ + n0 * gemm_.k + k * width, sizeof(T) * length * width);
      return;
    }
    const BladeInt n = std::min<BladeInt>(width, part_.n1 - n0);
    const T* b = typed_.b(part_.batch);
    if (gemm_.transpose_b) {
      kernels_.interleave(b + n0 * gemm_.ldb + k, gemm_.ldb, n, length, width, to);
    } else {
      kernels_.copy(b + k * gemm_.ldb + n0, gemm_.ldb, n, length, width, to);
    }
  }

  // Rows of A whose block fits a_block_.
  BladeInt MostRows() const {
    return std::max<BladeInt>(kBlockBytes / sizeof(T) / kernels_.block / kernels_.rows, 1) *
           kernels_.rows;
  }

  // A tile as high as it can be, of tiles as equal as they can be: 7 rows are 4 + 3.
  BladeInt TileRows(BladeInt m) const {
    const BladeInt tiles = (m - 1) / kernels_.rows + 1;
    return (m - 1) / tiles + 1;
  }

  // C[m0..m1) += A[m0..m1)[k0..k1) * B[k0..k1)
  void RunBlock(BladeInt m0, BladeInt m1, BladeInt k0, BladeInt k1) {
    const BladeInt k = k1 - k0, m = m1 - m0;
    const T* a = typed_.a(part_.batch) + m0 * typed_.a_row + k0 * typed_.a_k;
    BladeInt a_row = typed_.a_row, a_k = typed_.a_k, a_tile = typed_.a_row * kernels_.rows;
    const BladeInt rows = TileRows(m);
    const bool pack_a = m > kernels_.rows && part_.n1 - part_.n0 > 4 * kernels_.columns;
    if (pack_a) {
      for (BladeInt i = 0; i < m; i += rows) {
        const BladeInt height = std::min(rows, m - i);
        T* to = a_block_ + i * k;
        if (typed_.a_row == 1) {
          kernels_.copy(a + i, a_k, height, k, static_cast<int>(height), to);
        } else {
          kernels_.interleave(a + i * a_row, a_row, height, k, static_cast<int>(height), to);
        }
      }
      a = a_block_;
      a_row = 1;
    }
    a_tile = pack_a ? rows * k : rows * typed_.a_row;

    const auto& table = a_row == 1 ? kernels_.tile_packed_a : kernels_.tile;
    for (BladeInt n0 = part_.n0; n0 < part_.n1; n0 += kernels_.columns) {
      Tile<T> tile;
      tile.n = std::min<BladeInt>(kernels_.columns, part_.n1 - n0);
      tile.b = Panel(n0, k0, k1);
      tile.b_k = kernels_.columns;
      tile.next_b = packed_b_ != nullptr ? tile.b + gemm_.k * kernels_.columns : tile.b;
      tile.a_row = a_row;
      tile.k = k;
      tile.ldc = gemm_.ldc;
      T* c = typed_.c(part_.batch) + m0 * gemm_.ldc + n0;
      const auto* kernel = table[tile.n > kernels_.lanes];
      for (BladeInt i = 0, t = 0; i < m; i += rows, ++t) {
        const BladeInt height = std::min(rows, m - i);
        tile.a = a + t * a_tile;
        tile.a_k = pack_a ? height : a_k;
        tile.c = c + i * gemm_.ldc;
        tile.epilogue = typed_.epilogue(part_.batch, m0 + i, n0, k0 == 0, k1 == gemm_.k);
        kernel[height - 1](tile);
        tile.next_b = tile.b;  // the first tile has fetched the next panel
      }
    }
  }

  // B[k0..k1)[n0..n0 + columns), as a panel. Called in the order of columns.
  const T* Panel(BladeInt n0, BladeInt k0, BladeInt k1) {
    const BladeInt width = kernels_.columns, k = k1 - k0;
    if (packed_b_ != nullptr) return packed_b_ + n0 * gemm_.k + k0 * width;
    const BladeInt in_group = (n0 - part_.n0) % (kGroup * width);
    if (in_group == 0) {
      const BladeInt n = std::min(kGroup * width, part_.n1 - n0);
      const T* b = typed_.b(part_.batch);
      if (!gemm_.transpose_b) {
        kernels_.copy(b + k0 * gemm_.ldb + n0, gemm_.ldb, n, k, kernels_.columns, panels_);
      }
      for (BladeInt i = 0; gemm_.transpose_b && i < n; i += width) {
        kernels_.interleave(b + (n0 + i) * gemm_.ldb + k0, gemm_.ldb, std::min(width, n - i), k,
                            kernels_.columns, panels_ + i * k);
      }
    }
    return panels_ + in_group * k;
  }

  static constexpr BladeInt kGroup = 4;  // panels packed at a time

  const TypedGemm<T>& typed_;
  const BladeGemm& gemm_;
  const Kernels<T>& kernels_;
  const Part part_;
  const T* packed_b_;
  alignas(64) T repeated_[Kernels<T>::kMaxColumns];
  alignas(64) T panels_[kGroup * Kernels<T>::kMaxPanelBytes / sizeof(T)];
  alignas(64) T a_block_[kBlockBytes / sizeof(T)];
};

void Run(const BladeGemm& gemm, const GemmHost& host, const PackedB* packed) {
  WithType(gemm, [&](const auto& g) {
    using T = std::decay_t<decltype(*g.c(0))>;
    RepeatedRows<T> repeats;
    const bool found = host.count != nullptr && repeats.Find(g, host);
    RunPacked(g, host, packed, found ? &repeats : nullptr);
  });
}

}  // namespace

template <typename T>
void RunPackedPart(const TypedGemm<T>& gemm, const PackedB* packed, const Part& part,
                   const RepeatedRows<T>* repeats) {
  if (packed != nullptr && packed->columns == 0) packed = nullptr;  // for inner products
  PartRunner<T>(gemm, packed, part).Run(repeats);
}

template <typename T>
void RunPacked(const TypedGemm<T>& gemm, const GemmHost& host, const PackedB* packed,
               const RepeatedRows<T>* repeats) {
  const Kernels<T>& kernels = BestKernels<T>();
  const Grid grid = MakeGrid(gemm.gemm, host.threads, kernels.rows, kernels.columns);
  if (repeats != nullptr) host.count(host.ctx, BLADE_EVENT_REPEATED_ROWS, repeats->same());
  ForEachPart(gemm.gemm, host, grid,
              [&](const Part& part) { RunPackedPart(gemm, packed, part, repeats); });
}

template void RunPackedPart(const TypedGemm<float>&, const PackedB*, const Part&,
                            const RepeatedRows<float>*);
template void RunPackedPart(const TypedGemm<double>&, const PackedB*, const Part&,
                            const RepeatedRows<double>*);
template void RunPacked(const TypedGemm<float>&, const GemmHost&, const PackedB*,
                        const RepeatedRows<float>*);
template void RunPacked(const TypedGemm<double>&, const GemmHost&, const PackedB*,
                        const RepeatedRows<double>*);

const GemmImplementation kGemmPacked = {"gemm_packed", Refuse, Run};

}  // namespace blade
