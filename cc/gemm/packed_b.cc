#include "gemm/packed_b.h"

#include <utility>

#include "gemm/kernels.h"
#include "gemm/split.h"

namespace blade {
namespace {

// Up to this many columns B is kept transposed, for inner products.
constexpr BladeInt kFewColumns = 3;

template <typename T>
void Pack(const BladeGemm& gemm, PackedB* packed) {
  const Kernels<T>& kernels = BestKernels<T>();
  const BladeInt width = packed->columns;
  const BladeInt entries = gemm.b_stride == 0 ? 1 : gemm.batch;
  for (BladeInt i = 0; i < entries; ++i) {
    const T* b = static_cast<const T*>(gemm.b) + i * gemm.b_stride;
    T* out = static_cast<T*>(packed->data.data()) + i * packed->batch_stride;
    if (width == 0) {
      const BladeInt b_k = gemm.transpose_b ? 1 : gemm.ldb;
      const BladeInt b_column = gemm.transpose_b ? gemm.ldb : 1;
      for (BladeInt j = 0; j < gemm.n; ++j) {
        for (BladeInt p = 0; p < gemm.k; ++p) out[j * gemm.k + p] = b[p * b_k + j * b_column];
      }
      continue;
    }
    for (BladeInt n0 = 0; n0 < gemm.n; n0 += width) {
      const BladeInt n = gemm.n - n0 < width ? gemm.n - n0 : width;
      T* panel = out + n0 * gemm.k;
      if (gemm.transpose_b) {
        kernels.interleave(b + n0 * gemm.ldb, gemm.ldb, n, gemm.k, packed->columns, panel);
      } else {
        kernels.copy(b + n0, gemm.ldb, n, gemm.k, packed->columns, panel);
      }
    }
  }
}

}  // namespace

bool PackedB::Fits(const BladeGemm& gemm) const {
  return source == gemm.b && dtype == gemm.dtype && transpose == gemm.transpose_b && n == gemm.n &&
         k == gemm.k && ld == gemm.ldb && stride == gemm.b_stride &&
         (stride == 0 || batch == gemm.batch);
}

const uint16_t* PackedB::Split() const {
  const SplitKernels* kernels = BestSplitKernels();
  if (kernels == nullptr || dtype != BLADE_F32 || columns != SplitKernels::kColumns) return nullptr;
  std::call_once(split_once_, [&] {
    const BladeInt panels = (n - 1) / columns + 1;
    const BladeInt entries = stride == 0 ? 1 : batch;
    const BladeInt size = SplitKernels::SizeOfPanel(k);
    AlignedBuffer split(static_cast<size_t>(entries * panels * size) * sizeof(uint16_t));
    auto* to = static_cast<uint16_t*>(split.data());
    if (to == nullptr) return;
    for (BladeInt i = 0; i < entries * panels; ++i) {
      // The panels of all entries lie side by side.
      if (!kernels->split_panel(Entry<float>(0) + i * columns * k, k, to + i * size)) return;
    }
    split_ = std::move(split);
  });
  return static_cast<const uint16_t*>(split_.data());
}

std::unique_ptr<PackedB> PackB(const BladeGemm& gemm) {
  if (gemm.dtype != BLADE_F32 && gemm.dtype != BLADE_F64) return nullptr;
  if (gemm.batch <= 0 || gemm.n <= 0 || gemm.k <= 0) return nullptr;
  const bool wide = gemm.dtype == BLADE_F64;
  const BladeInt panel = wide ? BestKernels<double>().columns : BestKernels<float>().columns;

  auto packed = std::make_unique<PackedB>();
  packed->source = gemm.b;
  packed->dtype = gemm.dtype;
  packed->transpose = gemm.transpose_b;
  packed->batch = gemm.batch;
  packed->n = gemm.n;
  packed->k = gemm.k;
  packed->ld = gemm.ldb;
  packed->stride = gemm.b_stride;
  packed->columns = gemm.n <= kFewColumns && !gemm.transpose_a ? 0 : static_cast<int>(panel);
  const BladeInt columns = packed->columns == 0 ? gemm.n : (gemm.n - 1) / panel * panel + panel;
  const BladeInt entries = gemm.b_stride == 0 ? 1 : gemm.batch;
  packed->batch_stride = gemm.b_stride == 0 ? 0 : columns * gemm.k;
  packed->data = AlignedBuffer(static_cast<size_t>(entries * columns * gemm.k) * (wide ? 8 : 4));
  if (packed->data.data() == nullptr) return nullptr;
  if (wide) {
    Pack<double>(gemm, packed.get());
  } else {
    Pack<float>(gemm, packed.get());
  }
  return packed;
}

PackedConstants::~PackedConstants() {
  for (Slot& slot : slots_) {
    for (Entry* entry = slot.first.load(std::memory_order_relaxed); entry != nullptr;) {
      delete std::exchange(entry, entry->next);
    }
  }
}

const PackedB* PackedConstants::Find(const BladeGemm& gemm) const {
  const int input = gemm.b_constant_input;
  if (input < 0 || static_cast<size_t>(input) >= slots_.size()) return nullptr;
  for (const Entry* entry = slots_[input].first.load(std::memory_order_acquire); entry != nullptr;
       entry = entry->next) {
    if (entry->packed->Fits(gemm)) return entry->packed.get();
  }
  return nullptr;
}

const PackedB* PackedConstants::FindOrPack(const BladeGemm& gemm,
                                           std::shared_ptr<const void> owner) {
  const int input = gemm.b_constant_input;
  if (input < 0 || static_cast<size_t>(input) >= slots_.size()) return nullptr;
  std::lock_guard<std::mutex> lock(packing_);
  if (const PackedB* found = Find(gemm)) return found;
  std::atomic<Entry*>& first = slots_[input].first;
  int count = 0;
  for (const Entry* entry = first.load(); entry != nullptr; entry = entry->next) ++count;
  if (count >= kMaxEntries) return nullptr;
  auto packed = PackB(gemm);
  if (packed == nullptr) return nullptr;
  auto entry = std::make_unique<Entry>(
      Entry{std::move(packed), std::move(owner), first.load(std::memory_order_relaxed)});
  const PackedB* result = entry->packed.get();
  first.store(entry.release(), std::memory_order_release);
  return result;
}

}  // namespace blade
