// Runs of executables described by text, for the programs that run them without Python: on a
// machine that has none, under an emulator, on a GPU. One instruction a line:
//
//   executable FILE [IMAGE]     a container, and the device's image of its kernels
//   input DTYPE DIMS FILE       elements in memory order, over again if there are too few of them
//   output DTYPE FILE           where an output's elements go
//   run REPEATS                 runs all that was said since the last `run`
//
// A DTYPE is f32, i64, …; DIMS are 3x4, or - for a scalar. A string is four bytes with its size,
// then its bytes.
#ifndef BLADE_TOOLS_JOBS_H_
#define BLADE_TOOLS_JOBS_H_

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "aligned_buffer.h"
#include "executable.h"

namespace blade {

struct JobInput {
  int dtype = 0;
  std::vector<BladeInt> dims;
  size_t bytes = 0;
  AlignedBuffer data;
  std::string text;  // what strings point to
};

struct JobOutput {
  int dtype = 0;
  std::string file;
};

struct Job {
  std::shared_ptr<const Executable> executable;
  std::string image;            // a file's name, or empty
  std::deque<JobInput> inputs;  // which have addresses in themselves
  std::vector<JobOutput> outputs;
  int repeats = 0;
};

// What is said of a run, as a line of JSON. `dims` are those of the outputs, if status is 0.
std::string ResultLine(const Job& job, int status, const std::vector<std::vector<BladeInt>>& dims,
                       const std::string& more = "");

// Ends the process with a message.
[[noreturn]] void Die(const std::string& message);

// Reads the file `name`, and calls `run` for each job in it. Ends the process on any mistake.
void RunJobs(const char* name, void (*run)(Job& job));

std::string ReadFile(const std::string& name);
void WriteFile(const std::string& name, const void* data, size_t bytes);

}  // namespace blade

#endif  // BLADE_TOOLS_JOBS_H_
