// Bags: from ids to the sum, mean or sqrtn of table rows.
//
// It is done in two steps, so that the memory of many rows is fetched at once: Resolve checks ids,
// turns them into addresses and prefetches; AddUp reads them, later.
#ifndef BLADE_LOOKUP_BAGS_H_
#define BLADE_LOOKUP_BAGS_H_

#include "plan.h"

namespace blade_lookup {

// The address of a table's row, or an id of an indicator.
typedef U64 Slot;

// A bag's table in one run.
struct TableRun {
  const float* data;  // where it has one partition
  BladeInt rows;      // of all partitions
};

// Rows of a bag, resolved.
struct BagRows {
  const Slot* slots;
  const float* weights;  // null: 1
  const float* factors;  // what table rows are multiplied with: weights and norms; null: 1
  const int* ends;       // row r's slots are [ends[r - 1], ends[r])
  int rows;
  bool single;  // each row has one slot
  Slot empty;   // what a row without slots is taken to hold; 0 for nothing
  float empty_factor;
  float* out;       // of the first row
  BladeInt stride;  // between rows of `out`
  bool add;         // to what `out` holds
};

namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif

typedef float Float1;
typedef float Float4 __attribute__((vector_size(16)));
typedef float Float8 __attribute__((vector_size(32)));
typedef float Float16 __attribute__((vector_size(64)));

template <int lanes>
struct VectorOf;
template <>
struct VectorOf<4> {
  typedef Float4 type;
};
template <>
struct VectorOf<8> {
  typedef Float8 type;
};
template <>
struct VectorOf<16> {
  typedef Float16 type;
};

// A vector at any address. A vector type that allows any would lose that as a template argument.
template <typename V>
static inline void LoadVector(const float* from, V* v) {
  __builtin_memcpy(v, from, sizeof(V));
}
template <typename V>
static inline void StoreVector(const V& v, float* to) {
  __builtin_memcpy(to, &v, sizeof(V));
}

// The address of row `id` of a table in partitions; 0 when there is none.
static inline Slot ResolvePartitioned(const BagPlan& bag, const BladeTensor* inputs,
                                      const TableRun& table, BladeInt id) {
  if (static_cast<U64>(id) >= static_cast<U64>(table.rows)) return 0;
  const BladeInt n = bag.n_tables;
  BladeInt part, row;
  if (bag.div) {
    const BladeInt size = table.rows / n, longer = table.rows % n, in_longer = longer * (size + 1);
    part = id < in_longer ? id / (size + 1) : longer + (id - in_longer) / size;
    row = id < in_longer ? id % (size + 1) : (id - in_longer) % size;
  } else {
    part = id % n;
    row = id / n;
  }
  const BladeTensor& tensor = inputs[bag.tables[part]];
  if (row >= tensor.dims[0]) return 0;
  return reinterpret_cast<Slot>(static_cast<const float*>(tensor.data) + row * bag.dim);
}

// Checks n ids and turns them into slots, which are prefetched. False when one is outside the
// table.
static inline bool Resolve(const BagPlan& bag, const BladeTensor* inputs, const TableRun& table,
                           const BladeInt* ids, BladeInt n, Slot* slots) {
  if (bag.n_tables == 0) {
    for (BladeInt i = 0; i < n; ++i) slots[i] = static_cast<Slot>(ids[i]);
    return true;
  }
  constexpr BladeInt kLine = 64, kMostLines = 4;  // the processor fetches the rest by itself
  const BladeInt bytes = bag.dim * static_cast<BladeInt>(sizeof(float));
  if (bag.n_tables > 1) {
    for (BladeInt i = 0; i < n; ++i) {
      slots[i] = ResolvePartitioned(bag, inputs, table, ids[i]);
      if (slots[i] == 0) return false;
      __builtin_prefetch(reinterpret_cast<const void*>(slots[i]));
    }
    return true;
  }
  const Slot data = reinterpret_cast<Slot>(table.data);
  const U64 rows = static_cast<U64>(table.rows);
  bool inside = true;
  if (bytes <= kLine) {
    for (BladeInt i = 0; i < n; ++i) {
      inside &= static_cast<U64>(ids[i]) < rows;
      slots[i] = data + static_cast<U64>(ids[i]) * static_cast<U64>(bytes);
      __builtin_prefetch(reinterpret_cast<const void*>(slots[i]));
    }
    return inside;
  }
  const BladeInt ahead = bytes < kMostLines * kLine ? bytes : kMostLines * kLine;
  for (BladeInt i = 0; i < n; ++i) {
    inside &= static_cast<U64>(ids[i]) < rows;
    slots[i] = data + static_cast<U64>(ids[i]) * static_cast<U64>(bytes);
    for (BladeInt at = 0; at < ahead; at += kLine) {
      __builtin_prefetch(reinterpret_cast<const void*>(slots[i] + static_cast<U64>(at)));
    }
  }
  return inside;
}

// max_norm / max(|v|, max_norm), as clip_by_norm computes it, for a table row v. NaN stays NaN.
static inline float NormFactor(Slot slot, BladeInt dim, float max_norm) {
  const float* v = reinterpret_cast<const float*>(slot);
  float squares = 0;
  for (BladeInt d = 0; d < dim; ++d) squares += v[d] * v[d];
  const float norm = __builtin_sqrtf(squares);
  return max_norm / (norm <= max_norm ? max_norm : norm);
}

// What the sum of a row is divided by.
static inline float Divisor(Combiner combiner, const float* weights, BladeInt n) {
  if (weights == nullptr) {
    return combiner == kMean ? static_cast<float>(n) : __builtin_sqrtf(static_cast<float>(n));
  }
  float total = 0;
  for (BladeInt i = 0; i < n; ++i)
    total += combiner == kMean ? weights[i] : weights[i] * weights[i];
  return combiner == kMean ? total : __builtin_sqrtf(total);
}

// Components [at, at + vectors * size of V) of all rows.
// `given` is copied, so that the compiler knows that what is stored doesn't change it.
template <typename V, int vectors, bool factors>
static inline void AddUpSlice(Combiner combiner, const BagRows& given, BladeInt at) {
  constexpr int lanes = sizeof(V) / sizeof(float);
  const BagRows rows = given;
  const auto row_at = [at](Slot slot) { return reinterpret_cast<const float*>(slot) + at; };
  const auto store = [&rows](V* sum, float* out) {
    for (int v = 0; v < vectors; ++v) {
      if (rows.add) {
        V before;
        LoadVector(out + v * lanes, &before);
        sum[v] += before;
      }
      StoreVector(sum[v], out + v * lanes);
    }
  };
  float* out = rows.out + at;
  if (!factors && rows.single) {
    for (int r = 0; r < rows.rows; ++r, out += rows.stride) {
      const float* row = row_at(rows.slots[r]);
      V sum[vectors];
      for (int v = 0; v < vectors; ++v) LoadVector(row + v * lanes, &sum[v]);
      store(sum, out);
    }
    return;
  }
  int begin = 0;
  for (int r = 0; r < rows.rows; ++r, out += rows.stride) {
    const int end = rows.ends[r], n = end - begin;
    V sum[vectors];
    for (int v = 0; v < vectors; ++v) sum[v] = V{};
    if (n > 0) {
      const Slot* slots = rows.slots + begin;
      for (int i = 0; i < n; ++i) {
        const float* row = row_at(slots[i]);
        for (int v = 0; v < vectors; ++v) {
          V x;
          LoadVector(row + v * lanes, &x);
          if constexpr (factors) {
            sum[v] += x * rows.factors[begin + i];
          } else {
            sum[v] += x;
          }
        }
      }
      if (combiner != kSum && (n > 1 || rows.weights != nullptr)) {
        const float* weights = rows.weights != nullptr ? rows.weights + begin : nullptr;
        const float divisor = Divisor(combiner, weights, n);
        // As div_no_nan: nothing weighs nothing.
        for (int v = 0; v < vectors; ++v) sum[v] = divisor != 0 ? sum[v] / divisor : V{};
      }
    } else if (rows.empty != 0) {
      const float* row = row_at(rows.empty);
      for (int v = 0; v < vectors; ++v) {
        LoadVector(row + v * lanes, &sum[v]);
        sum[v] *= rows.empty_factor;
      }
    }
    store(sum, out);
    begin = end;
  }
}

template <int dim, bool factors>
static inline void AddUpFixed(Combiner combiner, const BagRows& rows) {
  constexpr int lanes = dim < kLanes ? dim : kLanes;
  AddUpSlice<typename VectorOf<lanes>::type, dim / lanes, factors>(combiner, rows, 0);
}

// Any dim, in slices of several vectors.
template <bool factors>
static inline void AddUpAny(BladeInt dim, Combiner combiner, const BagRows& rows) {
  typedef typename VectorOf<kLanes>::type V;
  BladeInt at = 0;
  for (; at + 4 * kLanes <= dim; at += 4 * kLanes) AddUpSlice<V, 4, factors>(combiner, rows, at);
  for (; at + kLanes <= dim; at += kLanes) AddUpSlice<V, 1, factors>(combiner, rows, at);
  for (; at + 4 <= dim; at += 4) AddUpSlice<Float4, 1, factors>(combiner, rows, at);
  for (; at < dim; ++at) AddUpSlice<Float1, 1, factors>(combiner, rows, at);
}

// The bag of each row. Factors are where weights are, at least.
template <bool factors>
static inline void AddUpTable(BladeInt dim, Combiner combiner, const BagRows& rows) {
  switch (dim) {
    case 1:
      return AddUpSlice<Float1, 1, factors>(combiner, rows, 0);
    case 4:
      return AddUpFixed<4, factors>(combiner, rows);
    case 8:
      return AddUpFixed<8, factors>(combiner, rows);
    case 16:
      return AddUpFixed<16, factors>(combiner, rows);
    case 32:
      return AddUpFixed<32, factors>(combiner, rows);
    case 64:
      return AddUpFixed<64, factors>(combiner, rows);
    default:
      return AddUpAny<factors>(dim, combiner, rows);
  }
}

static inline void AddUp(BladeInt dim, Combiner combiner, const BagRows& rows) {
  if (rows.factors != nullptr) {
    AddUpTable<true>(dim, combiner, rows);
  } else {
    AddUpTable<false>(dim, combiner, rows);
  }
}

// An indicator's rows: the weights of each id, added up. Ids outside [0, dim) count nothing. A
// binary one isn't added to other bags.
static inline void CountIds(const BagPlan& bag, const BagRows& rows) {
  const U64 dim = static_cast<U64>(bag.dim);
  int begin = 0;
  float* out = rows.out;
  for (int r = 0; r < rows.rows; ++r, out += rows.stride) {
    const int end = rows.ends[r];
    if (!rows.add) __builtin_memset(out, 0, dim * sizeof(float));
    if (begin == end && bag.has_empty && static_cast<U64>(bag.empty) < dim) out[bag.empty] += 1;
    for (int i = begin; i < end; ++i) {
      if (rows.slots[i] < dim) out[rows.slots[i]] += rows.weights != nullptr ? rows.weights[i] : 1;
    }
    if (bag.binary) {
      for (U64 d = 0; d < dim; ++d) out[d] = out[d] != 0 ? 1.f : 0.f;
    }
    begin = end;
  }
}

// Copies or adds n floats.
static inline void CopyFloats(const float* from, BladeInt n, float* to, bool add) {
  if (!add) {
    __builtin_memcpy(to, from, static_cast<U64>(n) * sizeof(float));
  } else {
    for (BladeInt i = 0; i < n; ++i) to[i] += from[i];
  }
}

template <int lanes>
static inline void RepeatVectors(const float* row, BladeInt n, BladeInt stride, int rows) {
  float* to = const_cast<float*>(row);
  for (int r = 1; r < rows; ++r) {
    to += stride;
    for (BladeInt at = 0; at < n; at += lanes) {
      const BladeInt from = at + lanes <= n ? at : n - lanes;  // the last one may overlap
      typename VectorOf<lanes>::type v;
      LoadVector(row + from, &v);
      StoreVector(v, to + from);
    }
  }
}

// Copies a row of n floats to those that follow it, `rows` in all.
static inline void RepeatRow(float* row, BladeInt n, BladeInt stride, int rows) {
  constexpr BladeInt kLong = 256;  // floats that are worth a call
  if (n > kLong || n < 4) {
    float* to = row;
    for (int r = 1; r < rows; ++r) CopyFloats(row, n, to += stride, false);
  } else if (n < kLanes) {
    RepeatVectors<4>(row, n, stride, rows);
  } else {
    RepeatVectors<kLanes>(row, n, stride, rows);
  }
}

}  // namespace
}  // namespace blade_lookup

#endif  // BLADE_LOOKUP_BAGS_H_
