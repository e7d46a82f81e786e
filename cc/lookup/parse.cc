// The text form of a lookup (tf_blade/feature_column/text.py) to a plan. All of it is checked: what
// a plan says is trusted afterwards.
#include <algorithm>
#include <map>
#include <utility>

#include "lookup/reader.h"
#include "lookup/storage.h"

namespace blade {

using blade_lookup::BagPlan;
using blade_lookup::DensePlan;
using blade_lookup::kCross;
using blade_lookup::kDense;
using blade_lookup::kMaxValues;
using blade_lookup::kRagged;
using blade_lookup::kSparse;
using blade_lookup::LookupPlan;
using blade_lookup::OutputPlan;
using blade_lookup::Place;
using blade_lookup::SourcePlan;
using blade_lookup::StreamPlan;

namespace {

constexpr int kVersion = 1;
constexpr int kMaxOperations = 256;  // of a stream: they live on the stack
constexpr int kMaxStreams = 1 << 14;

const std::map<std::string_view, ElementType>& Types() {
  static const std::map<std::string_view, ElementType> types = {
      {"i32", ElementType::kI32}, {"i64", ElementType::kI64},   {"f32", ElementType::kF32},
      {"f64", ElementType::kF64}, {"bool", ElementType::kBool}, {"string", ElementType::kString},
  };
  return types;
}

int DTypeOf(ElementType type) {
  switch (type) {
    case ElementType::kI32:
      return BLADE_I32;
    case ElementType::kI64:
      return BLADE_I64;
    case ElementType::kF32:
      return BLADE_F32;
    case ElementType::kF64:
      return BLADE_F64;
    case ElementType::kBool:
      return BLADE_BOOL;
    default:
      return BLADE_STRING;
  }
}

}  // namespace

class LookupParser {
 public:
  explicit LookupParser(std::string_view text) : in_(text), lookup_(new Lookup) {}

  std::shared_ptr<const Lookup> Parse(std::string* error) {
    in_.Expect("lookup");
    in_.Number<int>(kVersion, kVersion);
    in_.Expect("inputs");
    for (int n = in_.Count(); in_.ok() && n > 0; --n) inputs_.push_back(Type());
    in_.Expect("vocabularies");
    for (int n = in_.Count(); in_.ok() && n > 0; --n) Vocabulary();
    in_.Expect("streams");
    for (int n = in_.Number<int>(0, kMaxStreams); in_.ok() && n > 0; --n) Stream();
    in_.Expect("bags");
    for (int n = in_.Count(); in_.ok() && n > 0; --n) Bag();
    in_.Expect("outputs");
    for (int n = in_.Count(); in_.ok() && n > 0; --n) Output();
    if (in_.ok() && !in_.AtEnd()) in_.Fail("there is text after the lookup");
    if (in_.ok()) Assemble();
    if (!in_.ok()) {
      *error = "the lookup can't be read: " + in_.error();
      return nullptr;
    }
    return lookup_;
  }

 private:
  Lookup::Storage& storage() { return *lookup_->storage_; }

  struct ParsedBag {
    int stream;
    BagPlan plan;
    std::string column;
    std::vector<Place> places;
  };

  ElementType Type() {
    const std::string_view word = in_.Word();
    const auto found = Types().find(word);
    if (found == Types().end()) in_.Fail("'" + std::string(word) + "' is no dtype");
    return found == Types().end() ? ElementType::kI64 : found->second;
  }

  const int* Ints(std::vector<int> list) {
    return storage().ints.emplace_back(std::move(list)).data();
  }

  // A list of inputs.
  std::vector<int> Inputs() {
    std::vector<int> list;
    for (int n = in_.Count(); in_.ok() && n > 0; --n) list.push_back(in_.Index(inputs_.size()));
    return list;
  }

  int Input(ElementType type) {
    const int input = in_.Index(inputs_.size());
    if (in_.ok() && inputs_[input] != type) in_.Fail("an input has another dtype");
    return input;
  }

  void Vocabulary() {
    const bool strings = in_.Word() == "strings";
    std::vector<std::string> keys;
    std::vector<BladeInt> ints, values;
    const int n = in_.Count();
    for (int i = 0; in_.ok() && i < n; ++i) {
      if (strings) {
        keys.push_back(in_.Bytes());
      } else {
        ints.push_back(in_.Number<BladeInt>());
      }
    }
    for (int left = in_.Count(); in_.ok() && left > 0; --left) {
      values.push_back(in_.Number<BladeInt>());
    }
    if (!values.empty() && values.size() != static_cast<size_t>(n)) {
      in_.Fail("a vocabulary has other numbers of keys and values");
    }
    if (!in_.ok()) return;
    // Without keys it may be looked up by either.
    strings_.push_back(nullptr);
    ints_.push_back(nullptr);
    if (strings || n == 0) {
      strings_.back() = &storage().string_vocabularies.emplace_back(keys, values).table();
    }
    if (!strings || n == 0) {
      ints_.back() = &storage().int_vocabularies.emplace_back(ints, values).table();
    }
  }

  // -- expressions --------------------------------------------------------------------------

  // `n_results` expressions over `values`.
  bool Expressions(const std::vector<ElementType>& values, int n_results, Program* program) {
    std::vector<Operation> operations;
    for (int n = in_.Number<int>(0, kMaxOperations); in_.ok() && n > 0; --n) {
      operations.push_back(ReadOperation());
    }
    std::vector<int> results;
    for (int i = 0; in_.ok() && i < n_results; ++i) results.push_back(in_.Index(operations.size()));
    std::string error;
    if (in_.ok() && !program->Build(operations, values, results, &error)) in_.Fail(error);
    return in_.ok();
  }

  Operation ReadOperation() {
    Operation operation;
    operation.name = in_.Word();
    operation.type = Type();
    for (int n = in_.Number<int>(0, 3); in_.ok() && n > 0; --n) {
      operation.args.push_back(in_.Number<int>(0));
    }
    Instruction& fields = operation.fields;
    if (operation.name == "value") {
      fields.at = in_.Number<int>(0);
    } else if (operation.name == "const") {
      fields.scalar = ReadScalar(operation.type);
    } else if (operation.name == "constants") {
      for (int n = in_.Count(); in_.ok() && n > 0; --n) {
        fields.constants.push_back(ReadScalar(operation.type));
      }
    } else if (operation.name == "find") {
      const int vocabulary = in_.Index(strings_.size());
      fields.scalar.integer = in_.Number<int64_t>();
      if (in_.ok()) {
        fields.strings = strings_[vocabulary];
        fields.ints = ints_[vocabulary];
      }
    } else if (operation.name == "hash_fast" || operation.name == "hash_strong") {
      fields.buckets = in_.Number<uint64_t>(1, std::numeric_limits<int64_t>::max());
      if (operation.name == "hash_strong") {
        for (uint64_t& key : fields.key) key = Key();
      }
    } else if (operation.name == "bucketize") {
      for (int n = in_.Count(); in_.ok() && n > 0; --n) {
        fields.boundaries.push_back(static_cast<float>(in_.Real()));
      }
      if (!std::is_sorted(fields.boundaries.begin(), fields.boundaries.end())) {
        in_.Fail("boundaries are not sorted");
      }
    }
    return operation;
  }

  Scalar ReadScalar(ElementType type) {
    Scalar scalar;
    if (type == ElementType::kString) {
      scalar.bytes = in_.Bytes();
    } else if (type == ElementType::kF32 || type == ElementType::kF64) {
      scalar.real = in_.Real();
    } else {
      scalar.integer = in_.Number<int64_t>();
    }
    return scalar;
  }

  // 64 bits, written as a signed or an unsigned number.
  uint64_t Key() {
    const std::string_view word = in_.Word();
    constexpr auto kAny = std::numeric_limits<uint64_t>::max();
    if (!word.empty() && word[0] == '-') {
      return static_cast<uint64_t>(in_.ToNumber<int64_t>(word, std::numeric_limits<int64_t>::min(),
                                                         std::numeric_limits<int64_t>::max()));
    }
    return in_.ToNumber<uint64_t>(word, 0, kAny);
  }

  // -- streams ------------------------------------------------------------------------------

  void Stream() {
    SourcePlan source{};
    source.indices = source.shape = source.splits = -1;
    source.row_dims = 1;
    source.complete = true;
    std::vector<int> values;
    std::vector<ElementType> types;
    const std::string_view kind = in_.Word();
    if (kind == "cross") {
      source.kind = kCross;
      for (int n = in_.Count(); in_.ok() && n > 0; --n) {
        values.push_back(in_.Index(streams_.size()));
        if (!in_.ok()) return;
        if (streams_[values.back()].source.kind == kCross) in_.Fail("a cross of crosses");
        is_part_[values.back()] = true;
      }
      source.buckets = in_.Number<BladeInt>(0);
      source.key = static_cast<BladeInt>(Key());
      types = {ElementType::kI64};
    } else {
      values = Inputs();
      for (const int input : values) types.push_back(inputs_[input]);
      if (kind == "dense") {
        source.kind = kDense;
        source.per_element = in_.Flag();
        DimsOf(&source);
      } else if (kind == "sparse") {
        source.kind = kSparse;
        source.indices = Input(ElementType::kI64);
        source.shape = Input(ElementType::kI64);
        source.row_dims = in_.Number<int>(1, 2);
        source.complete = in_.Flag();
        source.rank = in_.Number<int>(0);
        if (!source.complete && source.row_dims != 1) in_.Fail("rows of two dims are complete");
      } else if (kind == "ragged") {
        source.kind = kRagged;
        source.splits = in_.Index(inputs_.size());
        if (in_.ok() && inputs_[source.splits] != ElementType::kI32 &&
            inputs_[source.splits] != ElementType::kI64) {
          in_.Fail("row splits have another dtype");
        }
      } else {
        in_.Fail("'" + std::string(kind.substr(0, 40)) + "' is no source");
      }
    }
    if (values.empty() || values.size() > kMaxValues) in_.Fail("a source's number of values");
    if (!in_.ok()) return;

    StreamProgram& program = storage().stream_programs.emplace_back();
    program.filtered = in_.Flag();
    program.weighted = in_.Flag();
    if (!Expressions(types, 1 + program.filtered + program.weighted, &program.program)) return;
    const Program& results = program.program;
    if (program.filtered && results.type_of_result(1) != ElementType::kBool) {
      in_.Fail("a filter isn't bool");
    }
    if (program.weighted && results.type_of_result(1 + program.filtered) != ElementType::kF32) {
      in_.Fail("a weight isn't f32");
    }
    const ElementType ids = results.type_of_result(0);
    if (ids != ElementType::kI64 && ids != ElementType::kString) in_.Fail("ids are not i64");
    if (ids == ElementType::kString) program.program.FingerprintResult(0);
    source.n_values = static_cast<int>(values.size());
    source.values = Ints(std::move(values));
    streams_.push_back(
        {source, EvaluateStreamProgram, &program, program.filtered, program.weighted, 0, 0});
    has_string_ids_.push_back(ids == ElementType::kString);
    is_part_.push_back(false);
  }

  // The rank, 0 for any, and the dims after the first.
  void DimsOf(SourcePlan* source) {
    std::vector<BladeInt> dims;
    source->rank = in_.Number<int>(0, 64);
    for (int d = 1; in_.ok() && d < source->rank; ++d) dims.push_back(in_.Number<BladeInt>(-1));
    source->dims = storage().dims.emplace_back(std::move(dims)).data();
  }

  // -- bags, outputs ------------------------------------------------------------------------

  void Bag() {
    ParsedBag bag{};
    BagPlan& plan = bag.plan;
    bag.stream = in_.Index(streams_.size());
    plan.dim = in_.Number<BladeInt>(1, BladeInt{1} << 40);
    const std::string_view table = in_.Word();
    if (table == "table") {
      std::vector<int> parts = Inputs();
      for (const int input : parts) {
        if (inputs_[input] != ElementType::kF32) in_.Fail("a table isn't f32");
      }
      if (parts.empty()) in_.Fail("a table without parts");
      plan.n_tables = static_cast<int>(parts.size());
      plan.tables = Ints(std::move(parts));
      plan.div = Choice("mod", "div");
    } else if (table != "indicator") {
      in_.Fail("a bag has no table");
    }
    const std::string_view combiner = in_.Word();
    plan.combiner = combiner == "mean"    ? blade_lookup::kMean
                    : combiner == "sqrtn" ? blade_lookup::kSqrtN
                                          : blade_lookup::kSum;
    if (plan.combiner == blade_lookup::kSum && combiner != "sum") in_.Fail("a combiner's name");
    const std::string_view empty = in_.Word();
    plan.has_empty = empty != "none";
    if (plan.has_empty) {
      plan.empty = in_.ToNumber<BladeInt>(empty, std::numeric_limits<BladeInt>::min(),
                                          std::numeric_limits<BladeInt>::max());
    }
    const std::string_view norm = in_.Word();
    plan.has_max_norm = norm != "none";
    if (plan.has_max_norm) plan.max_norm = static_cast<float>(in_.ToReal(norm));
    plan.binary = in_.Flag();
    bag.column = in_.Bytes();
    if (bag.column.empty()) bag.column = std::to_string(bags_.size());
    if (!in_.ok()) return;
    if (has_string_ids_[bag.stream]) in_.Fail("the ids of column '" + bag.column + "' are strings");
    if (plan.n_tables == 0 && plan.has_max_norm) in_.Fail("an indicator with a largest norm");
    bags_.push_back(std::move(bag));
  }

  bool Choice(std::string_view no, std::string_view yes) {
    const std::string_view word = in_.Word();
    if (word != no && word != yes) in_.Fail("'" + std::string(no) + "' is missing");
    return word == yes;
  }

  void Output() {
    OutputPlan output{};
    std::vector<BladeInt> tail;
    output.width = 1;
    for (int n = in_.Number<int>(0, blade_lookup::kMaxRank); in_.ok() && n > 0; --n) {
      tail.push_back(in_.Number<BladeInt>(0, BladeInt{1} << 40));
      if (__builtin_mul_overflow(output.width, tail.back(), &output.width)) {
        in_.Fail("an output is too large");
      }
    }
    output.rank = static_cast<int>(tail.size());
    output.tail = storage().dims.emplace_back(std::move(tail)).data();
    output.add = in_.Flag();
    const int number = static_cast<int>(storage().outputs.size());
    storage().outputs.push_back(output);

    std::vector<std::pair<BladeInt, BladeInt>> covered;  // offset, width
    for (int n = in_.Count(); in_.ok() && n > 0; --n) {
      const BladeInt offset = in_.Number<BladeInt>(0, output.width);
      const BladeInt width = in_.Number<BladeInt>(0, output.width);
      covered.emplace_back(offset, width);
      if (Choice("bag", "dense")) {
        DensePart({number, offset}, width);
      } else {
        const int bag = in_.Index(bags_.size());
        if (!in_.ok()) return;
        if (bags_[bag].plan.dim != width) in_.Fail("a part's width isn't its bag's");
        if (output.add && bags_[bag].plan.binary) in_.Fail("a binary indicator is added up");
        bags_[bag].places.push_back({number, offset});
      }
    }
    if (in_.ok() && !Covers(std::move(covered), output)) {
      in_.Fail("the parts of an output don't cover its rows");
    }
  }

  static bool Covers(std::vector<std::pair<BladeInt, BladeInt>> parts, const OutputPlan& output) {
    std::sort(parts.begin(), parts.end());
    BladeInt at = 0;
    for (const auto& [offset, width] : parts) {
      if (offset != at) return false;
      if (output.add ? width != output.width : width > output.width - at) return false;
      if (!output.add) at += width;
    }
    return output.add || at == output.width;
  }

  void DensePart(Place place, BladeInt width) {
    std::vector<int> values = Inputs();
    std::vector<ElementType> types;
    for (const int input : values) types.push_back(inputs_[input]);
    if (values.empty() || values.size() > kMaxValues) in_.Fail("a dense part's number of inputs");
    Program& program = storage().dense_programs.emplace_back();
    if (!Expressions(types, 1, &program)) return;
    if (program.type_of_result(0) != ElementType::kF32) in_.Fail("a dense part isn't f32");
    DensePlan dense{};
    dense.place = place;
    dense.width = width;
    dense.n_values = static_cast<int>(values.size());
    dense.values = Ints(std::move(values));
    dense.evaluate = program.IsValue0(0) ? nullptr : EvaluateDenseProgram;
    dense.args = &program;
    storage().dense.push_back(dense);
  }

  // -- the plan -----------------------------------------------------------------------------

  // Orders bags by stream; streams and bags nothing reads are left out.
  void Assemble() {
    std::vector<std::vector<int>> bags_of(streams_.size());
    for (size_t b = 0; b < bags_.size(); ++b) {
      if (!bags_[b].places.empty()) bags_of[bags_[b].stream].push_back(static_cast<int>(b));
    }
    std::vector<int> number(streams_.size(), -1);
    std::vector<std::string> stream_columns;
    for (size_t s = 0; s < streams_.size(); ++s) {
      const std::vector<int>& bags = bags_of[s];
      if (bags.empty() && !is_part_[s]) continue;
      StreamPlan stream = streams_[s];
      if (stream.source.kind == kCross) {
        std::vector<int> parts;
        for (int p = 0; p < stream.source.n_values; ++p) {
          parts.push_back(number[stream.source.values[p]]);
        }
        stream.source.values = Ints(std::move(parts));
      }
      number[s] = static_cast<int>(storage().streams.size());
      stream.first_bag = static_cast<int>(storage().bags.size());
      stream.n_bags = static_cast<int>(bags.size());
      for (const int b : bags) AddBag(&bags_[b]);
      storage().streams.push_back(stream);
      stream_columns.push_back(bags.empty() ? "part of a cross" : bags_[bags[0]].column);
    }
    std::vector<std::string>& columns = lookup_->columns_;
    columns.insert(columns.end(), stream_columns.begin(), stream_columns.end());
    for (const DensePlan& dense : storage().dense) {
      columns.push_back("input " + std::to_string(dense.values[0]));
    }

    std::vector<int> dtypes;
    for (const ElementType type : inputs_) dtypes.push_back(DTypeOf(type));
    const Lookup::Storage& parts = storage();
    const auto size = [](const auto& list) { return static_cast<int>(list.size()); };
    lookup_->plan_ = {size(dtypes),         Ints(dtypes),       size(parts.streams),
                      parts.streams.data(), size(parts.bags),   parts.bags.data(),
                      size(parts.dense),    parts.dense.data(), size(parts.outputs),
                      parts.outputs.data()};
  }

  void AddBag(ParsedBag* bag) {
    bag->plan.n_places = static_cast<int>(bag->places.size());
    bag->plan.places = storage().places.emplace_back(std::move(bag->places)).data();
    storage().bags.push_back(bag->plan);
    lookup_->columns_.push_back(bag->column);
  }

  Reader in_;
  std::shared_ptr<Lookup> lookup_;
  std::vector<ElementType> inputs_;
  std::vector<const blade_lookup::StringTable*> strings_;
  std::vector<const blade_lookup::IntTable*> ints_;
  std::vector<StreamPlan> streams_;
  std::vector<bool> has_string_ids_, is_part_;
  std::vector<ParsedBag> bags_;
};

std::shared_ptr<const Lookup> Lookup::Parse(std::string_view text, std::string* error) {
  return LookupParser(text).Parse(error);
}

}  // namespace blade
