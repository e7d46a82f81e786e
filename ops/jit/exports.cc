// C functions for tf_blade/just_in_time/bridge.py, which calls them through ctypes.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "graph_queue.h"
#include "jit_optimizer.h"
#include "pending_executable.h"

#define BLADE_EXPORT extern "C" __attribute__((visibility("default")))

using blade::GraphQueue;
using blade::PendingExecutable;

// Registers the optimizer; 0 if another plug-in is in its place. `holds_lock` is CPython's
// PyGILState_Check.
BLADE_EXPORT int tf_blade_jit_register(int (*holds_lock)()) {
  GraphQueue::Get().SetHoldsLock(holds_lock);
  return blade::RegisterJitOptimizer() ? 1 : 0;
}

BLADE_EXPORT void tf_blade_jit_accept(int accepting) { GraphQueue::Get().Accept(accepting != 0); }

BLADE_EXPORT void tf_blade_jit_close() { GraphQueue::Get().Close(); }

// Waits for a graph; 0 once the queue is closed. What is pointed to stays until the thread's next
// call.
BLADE_EXPORT int tf_blade_jit_next(uint64_t* ticket, const char** graph, size_t* graph_size,
                                   const char** facts) {
  const blade::GraphRequest* request = GraphQueue::Get().Next(ticket);
  if (request == nullptr) return 0;
  *graph = request->graph.data();
  *graph_size = request->graph.size();
  *facts = request->facts.c_str();
  return 1;
}

BLADE_EXPORT void tf_blade_jit_take_time(uint64_t ticket) { GraphQueue::Get().TakeTime(ticket); }

// `graph` is a serialized GraphDef of the edited nodes and the new functions; of size 0: no change.
BLADE_EXPORT void tf_blade_jit_answer(uint64_t ticket, const char* graph, size_t size) {
  GraphQueue::Get().Answer(ticket, std::string(graph, size));
}

// The executable of `key` is there. Returns "" or why it can't be used, valid for ever.
BLADE_EXPORT const char* tf_blade_jit_finish(const char* key, const char* container, size_t size) {
  PendingExecutable* pending = PendingExecutable::For(key);
  pending->Finish(std::string_view(container, size));
  return pending->error().c_str();
}

// There will be no executable of `key`.
BLADE_EXPORT void tf_blade_jit_fail(const char* key, const char* reason) {
  PendingExecutable::For(key)->Fail(reason);
}
