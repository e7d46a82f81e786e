#include "tools/jobs.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

#include "dtype_size.h"

namespace blade {
namespace {

constexpr int kStringSize = 24;  // of TF_TString; those of up to 22 bytes are all in it

int DTypeOf(const std::string& name) {
  static const struct {
    const char* name;
    int dtype;
  } kNames[] = {{"f16", BLADE_F16},   {"bf16", BLADE_BF16},    {"f32", BLADE_F32},
                {"f64", BLADE_F64},   {"i8", BLADE_I8},        {"i16", BLADE_I16},
                {"i32", BLADE_I32},   {"i64", BLADE_I64},      {"u8", BLADE_U8},
                {"u16", BLADE_U16},   {"u32", BLADE_U32},      {"u64", BLADE_U64},
                {"bool", BLADE_BOOL}, {"string", BLADE_STRING}};
  for (const auto& each : kNames) {
    if (name == each.name) return each.dtype;
  }
  Die("unknown dtype " + name);
}

JobInput ReadInput(const std::string& dtype, const std::string& dims, const std::string& file) {
  JobInput input;
  input.dtype = DTypeOf(dtype);
  BladeInt elements = 1;
  if (dims != "-") {
    std::istringstream words(dims);
    for (std::string dim; std::getline(words, dim, 'x');) {
      input.dims.push_back(std::stoll(dim));
      elements *= input.dims.back();
    }
  }
  const int size = input.dtype == BLADE_STRING ? kStringSize : SizeOf(input.dtype);
  input.bytes = static_cast<size_t>(elements * size);
  input.data = AlignedBuffer(input.bytes);
  const std::string content = ReadFile(file);
  if (content.empty() && input.bytes > 0) Die(file + " is empty");
  for (size_t at = 0; at < input.bytes; at += content.size()) {
    std::memcpy(static_cast<char*>(input.data.data()) + at, content.data(),
                std::min(content.size(), input.bytes - at));
  }
  return input;
}

}  // namespace

void Die(const std::string& message) {
  std::fprintf(stderr, "error: %s\n", message.c_str());
  std::exit(1);
}

std::string ReadFile(const std::string& name) {
  std::ifstream file(name, std::ios::binary);
  if (!file) Die("can't read " + name);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void WriteFile(const std::string& name, const void* data, size_t bytes) {
  std::ofstream file(name, std::ios::binary);
  file.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
  if (!file) Die("can't write " + name);
}

std::string ResultLine(const Job& job, int status, const std::vector<std::vector<BladeInt>>& dims,
                       const std::string& more) {
  std::ostringstream line;
  line << "{\"status\": " << status << ", \"isa\": \"" << job.executable->isa()
       << "\", \"reason\": \"";
  for (const char* c = status != 0 ? job.executable->Reason(status) : ""; *c != 0; ++c) {
    if (*c == '"' || *c == '\\') line << '\\';
    line << *c;
  }
  line << "\", \"dims\": [";
  for (size_t i = 0; status == 0 && i < dims.size(); ++i) {
    line << (i > 0 ? ", [" : "[");
    for (size_t axis = 0; axis < dims[i].size(); ++axis) {
      line << (axis > 0 ? ", " : "") << dims[i][axis];
    }
    line << "]";
  }
  line << "]" << more << "}\n";
  return line.str();
}

void RunJobs(const char* name, void (*run)(Job& job)) {
  std::istringstream lines(ReadFile(name));
  Job job;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string what, a, b, c;
    words >> what >> a >> b >> c;
    if (what == "executable") {
      std::string error;
      job.executable = Executable::Load(ReadFile(a), &error);
      if (job.executable == nullptr) Die(a + ": " + error);
      job.image = b;
    } else if (what == "input") {
      job.inputs.push_back(ReadInput(a, b, c));
    } else if (what == "output") {
      job.outputs.push_back({DTypeOf(a), b});
    } else if (what == "run") {
      if (job.executable == nullptr) Die("no executable to run");
      if (static_cast<int>(job.inputs.size()) != job.executable->n_inputs() ||
          static_cast<int>(job.outputs.size()) != job.executable->n_outputs()) {
        Die("another number of inputs or outputs than the executable has");
      }
      job.repeats = std::stoi(a);
      run(job);
      job = Job();
    } else if (!what.empty()) {
      Die("unknown instruction " + what);
    }
  }
}

}  // namespace blade
