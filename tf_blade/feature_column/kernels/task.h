// One task of a lookup: a range of rows of a range of streams.
//
// Rows are done in blocks, large enough to pay for looking at each stream. What a block writes need
// not fit the cache: streams come in the order of their places in the output, so that neighbours
// complete a cache line soon after one another. In a block, streams are staged one after the other:
// their ids are computed, checked, and the table rows they name are prefetched. When the stage is
// full, the bags of all staged streams are added up. So the fetches of many streams overlap, even
// when a request has a single row.
#ifndef BLADE_LOOKUP_TASK_H_
#define BLADE_LOOKUP_TASK_H_

#include "bags.h"
#include "hashes.h"
#include "rows.h"

namespace blade_lookup {

constexpr int kStage = 1024;     // elements that are staged at a time
constexpr int kMaxItems = 128;   // bags that are
constexpr int kBlock = 256;      // rows of a block
constexpr int kMaxBags = 16;     // of a stream that are staged together
constexpr int kCrossPart = 256;  // elements of a part of a cross that are looked at together

// One run of a lookup, shared by its tasks.
struct Run {
  const LookupPlan* plan;
  const BladeTensor* inputs;
  SourceRun* sources;  // by stream
  TableRun* tables;    // by bag
  float** outputs;
  BladeInt rows;
  bool find_repeats;
  // A unit of parallel_for is a piece of rows of a group of streams; the groups of a piece follow
  // each other.
  BladeInt piece;     // rows
  int n_groups;       // more than one only where no output is added to
  const int* groups;  // group g has streams [groups[g], groups[g + 1])
  bool has_crosses;   // which read other streams, of any group
  // These are read and written atomically.
  int refusal;        // BLADE_OK, or the first that was found
  BladeInt repeated;  // times that a stream's rows in a block were all the same
};

namespace {

class Task {
 public:
  // `cursors` and `next` have a place for each stream.
  Task(Run* run, BladeInt* cursors, BladeInt* next)
      : run_(*run), plan_(*run->plan), cursors_(cursors), next_(next) {}

  // Rows [begin, end) of groups [first_group, last_group).
  void operator()(BladeInt begin, BladeInt end, int first_group, int last_group) {
    first_stream_ = run_.groups[first_group];
    last_stream_ = run_.groups[last_group];
    dense_ = last_group == run_.n_groups;
    const int first_read = run_.has_crosses ? 0 : first_stream_;
    const int last_read = run_.has_crosses ? plan_.n_streams : last_stream_;
    for (int s = first_read; s < last_read; ++s) {
      cursors_[s] = FirstOf(s, begin);
      next_[s] = -1;
    }
    for (BladeInt at = begin; at < end; at += kBlock) {
      if (__atomic_load_n(&run_.refusal, __ATOMIC_RELAXED) != BLADE_OK) return;
      if (!Block(at, at + kBlock < end ? at + kBlock : end)) return;
      for (int s = first_read; s < last_read; ++s) {
        if (next_[s] >= 0) cursors_[s] = next_[s];
      }
    }
    // Where this task ends the next one begins, or elements between them were read by neither.
    for (int s = first_read; s < last_read; ++s) {
      if (next_[s] >= 0 && next_[s] != FirstOf(s, end)) RefuseStream(s, kUnsorted);
    }
    if (repeated_ > 0) __atomic_fetch_add(&run_.repeated, repeated_, __ATOMIC_RELAXED);
    repeated_ = 0;
  }

 private:
  // A bag that is staged.
  struct Item {
    int bag;
    int rows;     // that are staged
    int copies;   // rows that are written: `rows`, or more when they are all the same
    bool single;  // each row has one slot
    const Slot* slots;
    const float* weights;
    const int* ends;
    BladeInt row;  // the first one
  };

  bool Refuse(int column, Reason reason) {
    int none = BLADE_OK;
    __atomic_compare_exchange_n(&run_.refusal, &none, RefusalOf(column, reason), false,
                                __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return false;
  }
  bool RefuseStream(int stream, Reason reason) { return Refuse(plan_.n_bags + stream, reason); }

  BladeInt FirstOf(int stream, BladeInt row) const {
    const SourceRun& source = run_.sources[stream];
    switch (plan_.streams[stream].source.kind) {
      case kDense:
        return row * source.per_row;
      case kRagged:
        return SplitAt(source, row);
      case kSparse:
        return FirstElement(source, row, run_.rows);
      default:
        return 0;
    }
  }

  bool Block(BladeInt begin, BladeInt end) {
    for (int o = 0; o < plan_.n_outputs; ++o) {
      const OutputPlan& output = plan_.outputs[o];
      if (!output.add) continue;
      __builtin_memset(run_.outputs[o] + begin * output.width, 0,
                       static_cast<U64>((end - begin) * output.width) * sizeof(float));
    }
    for (int s = first_stream_; s < last_stream_; ++s) {
      const StreamPlan& stream = plan_.streams[s];
      for (int b = 0; b < stream.n_bags; b += kMaxBags) {
        const int bags = stream.n_bags - b < kMaxBags ? stream.n_bags - b : kMaxBags;
        if (!Stream(s, stream.first_bag + b, bags, begin, end)) return false;
      }
    }
    if (!Flush()) return false;
    for (int d = 0; dense_ && d < plan_.n_dense; ++d) {
      if (!Dense(d, begin, end)) return false;
    }
    return true;
  }

  // Stages rows [begin, end) of a stream for some of its bags.
  bool Stream(int s, int first_bag, int n_bags, BladeInt begin, BladeInt end) {
    const StreamPlan& stream = plan_.streams[s];
    const bool cross = stream.source.kind == kCross;
    BladeInt first = cursors_[s];
    Starts parts;
    if (cross) parts.Begin(*this, stream.source);
    while (begin < end) {
      const int rows = static_cast<int>(end - begin);
      if (items_ + n_bags > kMaxItems || ends_ + rows > kStage) {
        if (!Flush()) return false;
      }
      const BladeInt most = (kStage - slots_) / n_bags;
      int fit;
      int* ends = end_ + ends_;
      Reason reason = kUnsorted;
      const bool good = cross ? Cross(s, begin, rows, most, &parts, ends, &fit, &reason)
                              : EndsOfRows(stream.source, run_.sources[s], begin, end, first, most,
                                           ends, &fit, &reason);
      if (!good) return RefuseStream(s, reason);
      if (fit < rows && slots_ > 0) {
        if (!Flush()) return false;
        continue;
      }
      if (fit == 0) {
        if (cross) return RefuseStream(s, kLongCross);
        const BladeInt last = EndOfRow(stream.source, run_.sources[s], begin, first);
        if (last < 0) return RefuseStream(s, reason);
        if (!LongRow(s, first_bag, n_bags, begin, first, last)) return false;
        first = last;
        ++begin;
        continue;
      }
      const int count = ends[fit - 1];
      if (!StageRows(s, first_bag, n_bags, begin, first, fit, ends)) return false;
      if (cross) {
        parts.Advance(fit);
      } else {
        first += count;
      }
      begin += fit;
    }
    next_[s] = first;
    if (cross) parts.End(*this, stream.source);
    return true;
  }

  // Stages rows of elements from `first` on; of a cross, those in crosses_.
  bool StageRows(int s, int first_bag, int n_bags, BladeInt row, BladeInt first, int rows,
                 int* ends) {
    const StreamPlan& stream = plan_.streams[s];
    int staged = rows;
    if (rows > 1 && run_.find_repeats && Repeats(s, first, rows, ends)) {
      staged = 1;
      ++repeated_;
    }
    float* weights = weights_ + slots_;
    const int all = ends[staged - 1];
    int n;
    if (!Evaluate(s, first, staged, ends, weights, &n)) return false;
    const bool single = stream.source.kind == kDense && run_.sources[s].per_row == 1 && n == all;
    for (int bag = first_bag; bag < first_bag + n_bags; ++bag) {
      Slot* slots = slot_ + slots_;
      if (!Resolve(plan_.bags[bag], run_.inputs, run_.tables[bag], ids_, n, slots)) {
        return Refuse(bag, kOutside);
      }
      item_[items_++] = {bag,  staged, rows, single, slots, stream.weighted ? weights : nullptr,
                         ends, row};
      slots_ += n;
    }
    ends_ += staged;
    return true;
  }

  bool AllKept(int n) const {
    unsigned char all = 1;
    for (int i = 0; i < n; ++i) all &= keep_[i];
    return all != 0;
  }

  // Whether all rows hold what the first one holds.
  bool Repeats(int s, BladeInt first, int rows, const int* ends) const {
    const int n = ends[0];
    for (int r = 1; r < rows; ++r) {
      if (ends[r] != n * (r + 1)) return false;
    }
    const SourcePlan& source = plan_.streams[s].source;
    if (source.kind == kCross) {
      return n == 0 || __builtin_memcmp(crosses_, crosses_ + n,
                                        sizeof(BladeInt) * static_cast<U64>(n * (rows - 1))) == 0;
    }
    return RowsRepeat(source, run_.sources[s], plan_.dtypes, first, n, rows);
  }

  // The elements of rows, to ids_ and weights; those that aren't kept are taken out, and `ends`
  // are moved accordingly.
  bool Evaluate(int s, BladeInt first, int rows, int* ends, float* weights, int* count) {
    const StreamPlan& stream = plan_.streams[s];
    const int n = ends[rows - 1];
    *count = n;
    if (n == 0) return true;
    const bool cross = stream.source.kind == kCross;
    const void* crosses[] = {crosses_};
    if (!stream.evaluate(stream.args, cross ? crosses : run_.sources[s].values, cross ? 0 : first,
                         n, {ids_, weights, keep_})) {
      return RefuseStream(s, kValue);
    }
    if (stream.filtered && !AllKept(n)) {
      *count = stream.weighted ? Compact(rows, ends, keep_, ids_, weights)
                               : Compact(rows, ends, keep_, ids_, ids_);
    }
    return true;
  }

  // Takes out the elements that are not kept. W is the type of weights; where there are none, ids
  // stand in for them.
  template <class W>
  static int Compact(int rows, int* ends, const unsigned char* keep, BladeInt* ids, W* weights) {
    int kept = 0, i = 0;
    for (int r = 0; r < rows; ++r) {
      for (; i < ends[r]; ++i) {
        ids[kept] = ids[i];
        weights[kept] = weights[i];
        kept += keep[i];
      }
      ends[r] = kept;
    }
    return kept;
  }

  // -- crosses ------------------------------------------------------------------------------

  // Where the parts of a cross are.
  struct Starts {
    int n;
    BladeInt first[kMaxValues];
    int ends[kMaxValues][kBlock];  // of the rows last looked at, all elements

    void Begin(const Task& task, const SourcePlan& cross) {
      n = cross.n_values;
      for (int p = 0; p < n; ++p) first[p] = task.cursors_[cross.values[p]];
    }
    void Advance(int rows) {
      for (int p = 0; p < n; ++p) first[p] += ends[p][rows - 1];
    }
    void End(const Task& task, const SourcePlan& cross) const {
      for (int p = 0; p < n; ++p) task.next_[cross.values[p]] = first[p];
    }
  };

  // Crosses of rows, as many as fit, to crosses_, in the order of SparseCross: the last part's
  // elements vary fastest.
  bool Cross(int s, BladeInt row, int rows, BladeInt most, Starts* starts, int* ends, int* fit,
             Reason* reason) {
    const SourcePlan& cross = plan_.streams[s].source;
    BladeInt hashes[kMaxValues][kCrossPart];
    int kept[kMaxValues][kBlock];
    for (int p = 0; p < starts->n; ++p) {
      const int part = cross.values[p];
      if (!EndsOfRows(plan_.streams[part].source, run_.sources[part], row, row + rows,
                      starts->first[p], kCrossPart, starts->ends[p], fit, reason)) {
        return false;
      }
      rows = *fit;
      if (rows == 0) return true;
      __builtin_memcpy(kept[p], starts->ends[p], sizeof(int) * static_cast<U64>(rows));
      const int n = kept[p][rows - 1];
      const StreamPlan& stream = plan_.streams[part];
      if (n > 0 && !stream.evaluate(stream.args, run_.sources[part].values, starts->first[p], n,
                                    {hashes[p], factors_, keep_})) {
        *reason = kValue;
        return false;
      }
      if (stream.filtered) Compact(rows, kept[p], keep_, hashes[p], hashes[p]);
    }
    int total = 0;
    *fit = rows;
    for (int r = 0; r < rows; ++r) {
      BladeInt count = 1;
      int begin[kMaxValues], at[kMaxValues], stop[kMaxValues];
      for (int p = 0; p < starts->n; ++p) {
        at[p] = begin[p] = r > 0 ? kept[p][r - 1] : 0;
        stop[p] = kept[p][r];
        count = count * (stop[p] - begin[p]);
        if (count > kStage) count = kStage + 1;  // and 0 when a later part is empty
      }
      if (total + count > most) {
        *fit = r;
        return true;
      }
      for (; count > 0; --count) {
        U64 hash = static_cast<U64>(cross.key);
        for (int p = 0; p < starts->n; ++p) {
          hash = FingerprintCat64(hash, static_cast<U64>(hashes[p][at[p]]));
        }
        const U64 buckets =
            cross.buckets > 0 ? static_cast<U64>(cross.buckets) : 0x7fffffffffffffffu;
        crosses_[total++] = static_cast<BladeInt>(hash % buckets);
        for (int p = starts->n - 1; p >= 0 && ++at[p] == stop[p]; --p) at[p] = begin[p];
      }
      ends[r] = total;
    }
    return true;
  }

  // -- what was staged ----------------------------------------------------------------------

  bool Flush() {
    for (int i = 0; i < items_; ++i) {
      if (!Write(item_[i])) return false;
    }
    items_ = slots_ = ends_ = 0;
    return true;
  }

  // The slot and factor of what an empty row is taken to hold.
  bool ResolveEmpty(int bag, BagRows* rows) {
    const BagPlan& plan = plan_.bags[bag];
    if (!Resolve(plan, run_.inputs, run_.tables[bag], &plan.empty, 1, &rows->empty)) {
      return Refuse(bag, kOutside);
    }
    rows->empty_factor = plan.has_max_norm ? NormFactor(rows->empty, plan.dim, plan.max_norm) : 1;
    return true;
  }

  // factors_ for n slots.
  void Factors(const BagPlan& bag, const Slot* slots, const float* weights, int n) {
    for (int i = 0; i < n; ++i) {
      const float factor = NormFactor(slots[i], bag.dim, bag.max_norm);
      factors_[i] = weights != nullptr ? factor * weights[i] : factor;
    }
  }

  bool Write(const Item& item) {
    const BagPlan& bag = plan_.bags[item.bag];
    BagRows rows = {};
    rows.slots = item.slots;
    rows.weights = rows.factors = item.weights;
    rows.ends = item.ends;
    rows.rows = item.rows;
    rows.single = item.single;
    rows.empty_factor = 1;
    if (bag.n_tables > 0) {
      if (bag.has_empty) {
        bool any = item.ends[0] == 0;
        for (int r = 1; r < item.rows; ++r) any |= item.ends[r] == item.ends[r - 1];
        if (any && !ResolveEmpty(item.bag, &rows)) return false;
      }
      if (bag.has_max_norm) {
        Factors(bag, item.slots, item.weights, item.ends[item.rows - 1]);
        rows.factors = factors_;
      }
    }
    for (int p = 0; p < bag.n_places; ++p) {
      const OutputPlan& output = plan_.outputs[bag.places[p].output];
      rows.stride = output.width;
      rows.add = output.add;
      rows.out = At(bag.places[p], item.row);
      const int times = output.add && item.copies > item.rows ? item.copies : 1;
      for (int t = 0; t < times; ++t, rows.out += rows.stride) {
        if (bag.n_tables > 0) {
          AddUp(bag.dim, bag.combiner, rows);
        } else {
          CountIds(bag, rows);
        }
      }
      if (times > 1 || item.copies == item.rows) continue;
      RepeatRow(At(bag.places[p], item.row), bag.dim, output.width, item.copies);
    }
    return true;
  }

  float* At(const Place& place, BladeInt row) const {
    return run_.outputs[place.output] + row * plan_.outputs[place.output].width + place.offset;
  }

  // -- rows that are longer than the stage, which is empty meanwhile ----------------------------

  bool LongRow(int s, int first_bag, int n_bags, BladeInt row, BladeInt first, BladeInt last) {
    for (int bag = first_bag; bag < first_bag + n_bags; ++bag) {
      for (int p = 0; p < plan_.bags[bag].n_places; ++p) {
        const Place& place = plan_.bags[bag].places[p];
        const bool add = plan_.outputs[place.output].add;
        const bool good = plan_.bags[bag].n_tables > 0
                              ? LongBag(s, bag, first, last, At(place, row), add)
                              : LongCounts(s, bag, first, last, At(place, row), add);
        if (!good) return false;
      }
    }
    return true;
  }

  // Calls take(slots, weights, n) on the elements that are kept, a stage at a time.
  template <class Take>
  bool LongElements(int s, int bag, BladeInt first, BladeInt last, Take take) {
    for (BladeInt at = first; at < last; at += kStage) {
      int end = static_cast<int>(last - at < kStage ? last - at : kStage);
      int n;
      if (!Evaluate(s, at, 1, &end, weights_, &n)) return false;
      if (!Resolve(plan_.bags[bag], run_.inputs, run_.tables[bag], ids_, n, slot_)) {
        return Refuse(bag, kOutside);
      }
      take(slot_, plan_.streams[s].weighted ? weights_ : nullptr, n);
    }
    return true;
  }

  bool LongBag(int s, int bag_number, BladeInt first, BladeInt last, float* out, bool add) {
    constexpr BladeInt kSlice = 256;  // components that are added up together
    const BagPlan& bag = plan_.bags[bag_number];
    for (BladeInt from = 0; from < bag.dim; from += kSlice) {
      const BladeInt dim = bag.dim - from < kSlice ? bag.dim - from : kSlice;
      float sum[kSlice] = {};
      float total = 0;
      BladeInt count = 0;
      const auto take = [&](const Slot* slots, const float* weights, int n) {
        if (bag.has_max_norm) Factors(bag, slots, weights, n);
        count += n;
        for (int i = 0; i < n; ++i) {
          const float weight = weights != nullptr ? weights[i] : 1;
          const float factor = bag.has_max_norm ? factors_[i] : weight;
          const float* row = reinterpret_cast<const float*>(slots[i]) + from;
          for (BladeInt d = 0; d < dim; ++d) sum[d] += row[d] * factor;
          total += bag.combiner == kSqrtN ? weight * weight : weight;
        }
      };
      if (!LongElements(s, bag_number, first, last, take)) return false;
      if (count == 0 && bag.has_empty) {
        BagRows empty;
        if (!ResolveEmpty(bag_number, &empty)) return false;
        const float* row = reinterpret_cast<const float*>(empty.empty) + from;
        for (BladeInt d = 0; d < dim; ++d) sum[d] = row[d] * empty.empty_factor;
      } else if (bag.combiner != kSum) {
        const float divisor = bag.combiner == kSqrtN ? __builtin_sqrtf(total) : total;
        for (BladeInt d = 0; d < dim; ++d) sum[d] = divisor != 0 ? sum[d] / divisor : 0;
      }
      CopyFloats(sum, dim, out + from, add);
    }
    return true;
  }

  bool LongCounts(int s, int bag_number, BladeInt first, BladeInt last, float* out, bool add) {
    const BagPlan& bag = plan_.bags[bag_number];
    if (!add) __builtin_memset(out, 0, static_cast<U64>(bag.dim) * sizeof(float));
    BladeInt count = 0;
    const auto take = [&](const Slot* slots, const float* weights, int n) {
      count += n;
      for (int i = 0; i < n; ++i) {
        if (slots[i] < static_cast<U64>(bag.dim)) {
          out[slots[i]] += weights != nullptr ? weights[i] : 1;
        }
      }
    };
    if (!LongElements(s, bag_number, first, last, take)) return false;
    if (count == 0 && bag.has_empty && static_cast<U64>(bag.empty) < static_cast<U64>(bag.dim)) {
      out[bag.empty] += 1;
    }
    for (BladeInt d = 0; bag.binary && d < bag.dim; ++d) out[d] = out[d] != 0 ? 1.f : 0.f;
    return true;
  }

  // -- dense parts of outputs -------------------------------------------------------------------

  bool Dense(int d, BladeInt begin, BladeInt end) {
    const DensePlan& dense = plan_.dense[d];
    const BladeInt width = dense.width;
    const bool add = plan_.outputs[dense.place.output].add;
    const void* values[kMaxValues];
    for (int k = 0; k < dense.n_values; ++k) values[k] = run_.inputs[dense.values[k]].data;
    if (dense.evaluate == nullptr) {
      const float* from = static_cast<const float*>(values[0]);
      for (BladeInt r = begin; r < end; ++r) {
        CopyFloats(from + r * width, width, At(dense.place, r), add);
      }
      return true;
    }
    // Several rows at a time, or a row in several pieces.
    const BladeInt piece = width < kStage ? width : kStage;
    if (piece == 0) return true;
    const BladeInt together = kStage / piece;
    for (BladeInt r = begin; r < end; r += together) {
      const BladeInt rows = width > kStage ? 1 : end - r < together ? end - r : together;
      for (BladeInt at = 0; at < width; at += piece) {
        const BladeInt n = width - at < piece ? width - at : piece;
        if (!dense.evaluate(dense.args, values, r * width + at, rows * n, weights_)) {
          return Refuse(plan_.n_bags + plan_.n_streams + d, kValue);
        }
        for (BladeInt i = 0; i < rows; ++i) {
          CopyFloats(weights_ + i * n, n, At(dense.place, r + i) + at, add);
        }
      }
    }
    return true;
  }

  Run& run_;
  const LookupPlan& plan_;
  BladeInt* const cursors_;  // by stream: the first element of the block
  BladeInt* const next_;     // of the next block; -1 for streams nothing uses

  int first_stream_ = 0, last_stream_ = 0;
  bool dense_ = false;  // whether the dense parts are this task's
  BladeInt repeated_ = 0;
  int items_ = 0, slots_ = 0, ends_ = 0;  // how much is staged
  Item item_[kMaxItems];
  Slot slot_[kStage];
  float weights_[kStage];
  int end_[kStage];

  BladeInt ids_[kStage];  // of the stream that is being staged
  unsigned char keep_[kStage];
  BladeInt crosses_[kStage];
  float factors_[kStage];
};

}  // namespace
}  // namespace blade_lookup

#endif  // BLADE_LOOKUP_TASK_H_
