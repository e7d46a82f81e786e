// The Grappler optimizer that hands graphs to the compiler.
#ifndef TF_BLADE_OPS_JIT_JIT_OPTIMIZER_H_
#define TF_BLADE_OPS_JIT_JIT_OPTIMIZER_H_

namespace blade {

// Makes Grappler call it for every graph with nodes on the CPU. Calls after the first do nothing.
// Returns false if another plug-in has taken its place: TensorFlow has one for each device type.
bool RegisterJitOptimizer();

}  // namespace blade

#endif  // TF_BLADE_OPS_JIT_JIT_OPTIMIZER_H_
