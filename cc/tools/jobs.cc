#include "tools/jobs.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

#include "dtype_size.h"

namespace blade {
namespace {

constexpr int kStringSize = 24;  // of TF_TString

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

// Fills `to` by repeating `content`.
void Repeat(const std::string& content, size_t bytes, void* to) {
  for (size_t at = 0; at < bytes; at += content.size()) {
    std::memcpy(static_cast<char*>(to) + at, content.data(), std::min(content.size(), bytes - at));
  }
}

// The strings of a file as TF_TStrings of the kind that points to memory of others.
std::string Views(const std::string& text) {
  std::string views;
  for (size_t at = 0; at + sizeof(uint32_t) <= text.size();) {
    uint32_t size;
    std::memcpy(&size, text.data() + at, sizeof(size));
    at += sizeof(size);
    if (size > text.size() - at) Die("a string is cut off");
    const uint64_t view[3] = {uint64_t{size} << 2 | 3, reinterpret_cast<uint64_t>(text.data() + at),
                              0};
    views.append(reinterpret_cast<const char*>(view), sizeof(view));
    at += size;
  }
  return views;
}

void ReadInput(const std::string& dtype, const std::string& dims, const std::string& file,
               JobInput* input) {
  input->dtype = DTypeOf(dtype);
  size_t elements = 1;
  if (dims != "-") {
    std::istringstream words(dims);
    for (std::string dim; std::getline(words, dim, 'x');) {
      input->dims.push_back(std::stoll(dim));
      elements *= static_cast<size_t>(input->dims.back());
    }
  }
  input->text = ReadFile(file);
  const bool strings = input->dtype == BLADE_STRING;
  const std::string content = strings ? Views(input->text) : std::move(input->text);
  input->bytes = elements * static_cast<size_t>(strings ? kStringSize : SizeOf(input->dtype));
  if (content.empty() && input->bytes > 0) Die(file + " is empty");
  input->data = AlignedBuffer(input->bytes);
  Repeat(content, input->bytes, input->data.data());
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
      ReadInput(a, b, c, &job.inputs.emplace_back());
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
