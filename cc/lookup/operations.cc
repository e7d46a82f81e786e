#include "lookup/operations.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <type_traits>

#include "kernels/arithmetic.h"
#include "kernels/hashes.h"

namespace blade {
namespace {

using blade_lookup::Decimal;
using blade_lookup::Equal;
using blade_lookup::Fingerprint64;
using blade_lookup::FloorDiv;
using blade_lookup::FloorMod;
using blade_lookup::kMaxDecimal;
using blade_lookup::Maximum;
using blade_lookup::Minimum;
using blade_lookup::View;
using Function = Instruction::Function;

template <class T>
const T* Arg(const Instruction& in, void* const* registers, int i) {
  return static_cast<const T*>(registers[in.args[i]]);
}

template <class T>
T* Result(const Instruction& in, void* const* registers) {
  return static_cast<T*>(registers[in.result]);
}

template <class R, class A, R (*f)(A)>
bool Unary(const Instruction& in, void* const* registers, int n) {
  const A* a = Arg<A>(in, registers, 0);
  R* r = Result<R>(in, registers);
  for (int i = 0; i < n; ++i) r[i] = f(a[i]);
  return true;
}

template <class R, class A, R (*f)(A, A)>
bool Binary(const Instruction& in, void* const* registers, int n) {
  const A* a = Arg<A>(in, registers, 0);
  const A* b = Arg<A>(in, registers, 1);
  R* r = Result<R>(in, registers);
  for (int i = 0; i < n; ++i) r[i] = f(a[i], b[i]);
  return true;
}

// -- arithmetic: integers wrap --------------------------------------------------------------

template <class T>
using Wrapping = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>,
                                             std::common_type<T>>::type;

template <class T>
T Add(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
}
template <class T>
T Sub(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
}
template <class T>
T Mul(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
}
template <class T>
T Neg(T a) {
  if constexpr (std::is_integral_v<T>) return Sub<T>(0, a);
  return -a;
}
template <class T>
T Abs(T a) {
  if constexpr (std::is_integral_v<T>) return a < 0 ? Neg(a) : a;
  return std::fabs(a);
}
template <class T, T (*f)(T, T)>
bool Division(const Instruction& in, void* const* registers, int n) {
  if constexpr (std::is_integral_v<T>) {
    const T* b = Arg<T>(in, registers, 1);
    if (std::find(b, b + n, T{0}) != b + n) return false;
  }
  return Binary<T, T, f>(in, registers, n);
}

template <class T>
T Div(T a, T b) {
  return a / b;
}

// -- comparisons, logic ---------------------------------------------------------------------

using Bool = unsigned char;

template <class T>
Bool Eq(T a, T b) {
  if constexpr (std::is_same_v<T, View>) return Equal(a, b);
  if constexpr (!std::is_same_v<T, View>) return a == b;
}
template <class T>
Bool Ne(T a, T b) {
  return !Eq(a, b);
}
template <class T>
Bool Lt(T a, T b) {
  return a < b;
}
template <class T>
Bool Le(T a, T b) {
  return a <= b;
}
template <class T>
Bool Gt(T a, T b) {
  return a > b;
}
template <class T>
Bool Ge(T a, T b) {
  return a >= b;
}
Bool And(Bool a, Bool b) { return a && b; }
Bool Or(Bool a, Bool b) { return a || b; }
Bool Not(Bool a) { return !a; }

template <class T>
bool Select(const Instruction& in, void* const* registers, int n) {
  const Bool* condition = Arg<Bool>(in, registers, 0);
  const T* a = Arg<T>(in, registers, 1);
  const T* b = Arg<T>(in, registers, 2);
  T* r = Result<T>(in, registers);
  for (int i = 0; i < n; ++i) r[i] = condition[i] ? a[i] : b[i];
  return true;
}

template <class T>
bool Require(const Instruction& in, void* const* registers, int n) {
  const Bool* condition = Arg<Bool>(in, registers, 0);
  if (std::find(condition, condition + n, Bool{0}) != condition + n) return false;
  std::copy_n(Arg<T>(in, registers, 1), n, Result<T>(in, registers));
  return true;
}

// -- leaves, casts ------------------------------------------------------------------------

template <class T>
bool Const(const Instruction& in, void* const* registers, int n) {
  T value;
  if constexpr (std::is_same_v<T, View>) {
    value = {in.scalar.bytes.data(), in.scalar.bytes.size()};
  } else if constexpr (std::is_floating_point_v<T>) {
    value = static_cast<T>(in.scalar.real);
  } else {
    value = static_cast<T>(in.scalar.integer);
  }
  T* r = Result<T>(in, registers);
  for (int i = 0; i < n; ++i) r[i] = value;
  return true;
}

template <class R, class A>
R Cast(A a) {
  return static_cast<R>(a);
}
template <class A>
Bool ToBool(A a) {
  return a != 0;
}

// -- strings, tables ------------------------------------------------------------------------

template <class T>
bool AsString(const Instruction& in, void* const* registers, int n) {
  const T* a = Arg<T>(in, registers, 0);
  View* r = Result<View>(in, registers);
  char* text = reinterpret_cast<char*>(r + n);
  for (int i = 0; i < n; ++i, text += kMaxDecimal) {
    char buffer[kMaxDecimal];
    const View view = Decimal(a[i], buffer);
    std::memcpy(text, view.data, view.size);
    r[i] = {text, view.size};
  }
  return true;
}

bool HashFast(const Instruction& in, void* const* registers, int n) {
  const View* a = Arg<View>(in, registers, 0);
  int64_t* r = Result<int64_t>(in, registers);
  for (int i = 0; i < n; ++i) r[i] = static_cast<int64_t>(Fingerprint64(a[i]) % in.buckets);
  return true;
}

template <class T>
bool HashDecimal(const Instruction& in, void* const* registers, int n) {
  const T* a = Arg<T>(in, registers, 0);
  int64_t* r = Result<int64_t>(in, registers);
  for (int i = 0; i < n; ++i) {
    r[i] = static_cast<int64_t>(blade_lookup::FingerprintOfDecimal(a[i]) % in.buckets);
  }
  return true;
}

bool HashStrong(const Instruction& in, void* const* registers, int n) {
  const View* a = Arg<View>(in, registers, 0);
  int64_t* r = Result<int64_t>(in, registers);
  for (int i = 0; i < n; ++i) {
    r[i] = static_cast<int64_t>(blade_lookup::SipHash24(a[i], in.key[0], in.key[1]) % in.buckets);
  }
  return true;
}

int64_t FingerprintOf(View a) { return static_cast<int64_t>(Fingerprint64(a)); }

bool FindString(const Instruction& in, void* const* registers, int n) {
  const View* a = Arg<View>(in, registers, 0);
  int64_t* r = Result<int64_t>(in, registers);
  for (int i = 0; i < n; ++i) r[i] = blade_lookup::Find(*in.strings, a[i], in.scalar.integer);
  return true;
}

bool FindInt(const Instruction& in, void* const* registers, int n) {
  const int64_t* a = Arg<int64_t>(in, registers, 0);
  int64_t* r = Result<int64_t>(in, registers);
  for (int i = 0; i < n; ++i) r[i] = blade_lookup::Find(*in.ints, a[i], in.scalar.integer);
  return true;
}

template <class T>
bool Bucketize(const Instruction& in, void* const* registers, int n) {
  const T* a = Arg<T>(in, registers, 0);
  int32_t* r = Result<int32_t>(in, registers);
  const float* bounds = in.boundaries.data();
  const int count = static_cast<int>(in.boundaries.size());
  for (int i = 0; i < n; ++i) r[i] = blade_lookup::Bucket(bounds, count, a[i]);
  return true;
}

// -- which loop ---------------------------------------------------------------------------

template <class T>
Function Numeric(const std::string& name) {
  static const std::map<std::string, Function> functions = {
      {"add", Binary<T, T, Add<T>>},
      {"sub", Binary<T, T, Sub<T>>},
      {"mul", Binary<T, T, Mul<T>>},
      {"floor_mod", Division<T, FloorMod<T>>},
      {"floor_div", Division<T, FloorDiv<T>>},
      {"maximum", Binary<T, T, Maximum<T>>},
      {"minimum", Binary<T, T, Minimum<T>>},
      {"neg", Unary<T, T, Neg<T>>},
      {"abs", Unary<T, T, Abs<T>>},
      {"lt", Binary<Bool, T, Lt<T>>},
      {"le", Binary<Bool, T, Le<T>>},
      {"gt", Binary<Bool, T, Gt<T>>},
      {"ge", Binary<Bool, T, Ge<T>>},
      {"bucketize", Bucketize<T>},
  };
  const auto found = functions.find(name);
  return found == functions.end() ? nullptr : found->second;
}

template <class A>
Function CastFrom(ElementType result) {
  switch (result) {
    case ElementType::kI32:
      return Unary<int32_t, A, Cast<int32_t, A>>;
    case ElementType::kI64:
      return Unary<int64_t, A, Cast<int64_t, A>>;
    case ElementType::kF32:
      return Unary<float, A, Cast<float, A>>;
    case ElementType::kF64:
      return Unary<double, A, Cast<double, A>>;
    case ElementType::kBool:
      return Unary<Bool, A, ToBool<A>>;
    default:
      return nullptr;
  }
}

// Operations there are for operands of every type T; `type` is T's.
template <class T>
Function ForType(const std::string& name, ElementType result) {
  if (name == "const") return Const<T>;
  if (name == "select") return Select<T>;
  if (name == "require") return Require<T>;
  if (name == "eq") return Binary<Bool, T, Eq<T>>;
  if (name == "ne") return Binary<Bool, T, Ne<T>>;
  if constexpr (!std::is_same_v<T, View>) {
    if (name == "cast") return CastFrom<T>(result);
  }
  if constexpr (std::is_same_v<T, int32_t> || std::is_same_v<T, int64_t>) {
    if (name == "as_string") return AsString<T>;
  }
  if constexpr (std::is_same_v<T, int64_t>) {
    if (name == "find") return FindInt;
  }
  if constexpr (std::is_floating_point_v<T>) {
    if (name == "div") return Binary<T, T, Div<T>>;
  }
  if constexpr (std::is_same_v<T, View>) {
    if (name == "hash_fast") return HashFast;
    if (name == "hash_strong") return HashStrong;
    if (name == "find") return FindString;
  } else if constexpr (std::is_same_v<T, Bool>) {
    if (name == "and") return Binary<Bool, Bool, And>;
    if (name == "or") return Binary<Bool, Bool, Or>;
    if (name == "not") return Unary<Bool, Bool, Not>;
  } else {
    return Numeric<T>(name);
  }
  return nullptr;
}

Function ForElementType(const std::string& name, ElementType type, ElementType result) {
  switch (type) {
    case ElementType::kI32:
      return ForType<int32_t>(name, result);
    case ElementType::kI64:
      return ForType<int64_t>(name, result);
    case ElementType::kF32:
      return ForType<float>(name, result);
    case ElementType::kF64:
      return ForType<double>(name, result);
    case ElementType::kBool:
      return ForType<Bool>(name, result);
    default:
      return ForType<View>(name, result);
  }
}

struct Signature {
  int operands;
  // The result: of the operands' type ('=') or of a given one; '*' is any.
  char result;
};

const Signature* SignatureOf(const std::string& name) {
  static const std::map<std::string, Signature> signatures = {
      {"const", {0, '*'}},       {"as_string", {1, 's'}}, {"hash_fast", {1, 'l'}},
      {"hash_strong", {1, 'l'}}, {"find", {1, 'l'}},      {"bucketize", {1, 'i'}},
      {"add", {2, '='}},         {"sub", {2, '='}},       {"mul", {2, '='}},
      {"floor_mod", {2, '='}},   {"floor_div", {2, '='}}, {"maximum", {2, '='}},
      {"minimum", {2, '='}},     {"neg", {1, '='}},       {"abs", {1, '='}},
      {"cast", {1, '*'}},        {"eq", {2, 'b'}},        {"ne", {2, 'b'}},
      {"lt", {2, 'b'}},          {"le", {2, 'b'}},        {"gt", {2, 'b'}},
      {"ge", {2, 'b'}},          {"and", {2, '='}},       {"or", {2, '='}},
      {"not", {1, '='}},         {"select", {3, '='}},    {"div", {2, '='}},
      {"require", {2, '='}},
  };
  const auto found = signatures.find(name);
  return found == signatures.end() ? nullptr : &found->second;
}

bool ResultFits(char result, ElementType type, ElementType operands) {
  switch (result) {
    case '=':
      return type == operands;
    case 'b':
      return type == ElementType::kBool;
    case 'i':
      return type == ElementType::kI32;
    case 'l':
      return type == ElementType::kI64;
    case 's':
      return type == ElementType::kString;
    default:
      return true;
  }
}

}  // namespace

Function FindOperation(const std::string& name, ElementType result,
                       const std::vector<ElementType>& args, std::string* error) {
  const Signature* signature = SignatureOf(name);
  const auto fail = [&](const char* why) -> Function {
    *error = "operation '" + name + "' " + why;
    return nullptr;
  };
  if (signature == nullptr) return fail("isn't known");
  if (static_cast<int>(args.size()) != signature->operands) {
    return fail("has the wrong number of operands");
  }
  std::vector<ElementType> operands = args;
  if (name == "select" || name == "require") {
    if (operands[0] != ElementType::kBool) return fail("needs a bool condition");
    operands.erase(operands.begin());
  }
  for (const ElementType type : operands) {
    if (type != operands[0]) return fail("has operands of several dtypes");
  }
  const ElementType type = operands.empty() ? result : operands[0];
  const Function function = ForElementType(name, type, result);
  if (function == nullptr || !ResultFits(signature->result, result, type)) {
    return fail("has no such dtype");
  }
  return function;
}

void CopyConstants(const Instruction& in, int64_t begin, int n, void* to) {
  const auto copy = [&](auto* result) {
    const size_t count = in.constants.size();
    size_t at = static_cast<size_t>(begin) % count;
    for (int i = 0; i < n; ++i) {
      const Scalar& scalar = in.constants[at];
      using T = std::remove_reference_t<decltype(*result)>;
      if constexpr (std::is_floating_point_v<T>) {
        result[i] = static_cast<T>(scalar.real);
      } else {
        result[i] = static_cast<T>(scalar.integer);
      }
      if (++at == count) at = 0;
    }
  };
  switch (in.type) {
    case ElementType::kI32:
      return copy(static_cast<int32_t*>(to));
    case ElementType::kI64:
      return copy(static_cast<int64_t*>(to));
    case ElementType::kF32:
      return copy(static_cast<float*>(to));
    default:
      return copy(static_cast<double*>(to));
  }
}

Function HashOfDecimal(ElementType integer) {
  return integer == ElementType::kI32 ? HashDecimal<int32_t> : HashDecimal<int64_t>;
}

Function FingerprintOperation() { return Unary<int64_t, View, FingerprintOf>; }

size_t RegisterBytes(const std::string& name, ElementType type) {
  if (name == "as_string") return sizeof(View) + kMaxDecimal + 4;  // a multiple of 8
  return type == ElementType::kString ? sizeof(View) : 8;
}

}  // namespace blade
