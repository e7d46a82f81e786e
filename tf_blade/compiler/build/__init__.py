"""From generated C++ source to executables: compiler, cache, container."""

from tf_blade.compiler.build.build import Builds, Built, build, build_one
from tf_blade.compiler.build.compiler import Compiler, find_compiler

__all__ = ["Builds", "Built", "Compiler", "build", "build_one", "find_compiler"]
