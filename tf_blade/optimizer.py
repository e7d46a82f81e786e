"""The optimizer: a SavedModel folder in, an optimised one out. Checking, timing and the final
folder are the API's (`api.py`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from tf_blade import saved_model
from tf_blade.backends.cpu import executables
from tf_blade.backends.cpu.clusters import LoweredCluster, supports
from tf_blade.backends.cpu.lookups import (
    RaisedGraph,
    RaisedLookup,
    raise_graph,
    use_executable,
)
from tf_blade.clustering import (
    Cluster,
    Replacement,
    blade_cluster_node,
    find_clusters,
    outline,
    replace_all,
    split_out,
)
from tf_blade.compiler.build import Built
from tf_blade.complexes import wrap_complex
from tf_blade.config import Config
from tf_blade.dump.write import DumpWriter
from tf_blade.errors import CompileError, UnsupportedError
from tf_blade.feature_column.vocabularies import Vocabularies
from tf_blade.graph.calls import called_functions
from tf_blade.graph.graph import Graph, Node, TensorRef
from tf_blade.graph.shapes import Types
from tf_blade.inputs import LikelyShapes
from tf_blade.loops import WrappedLoops, unwrap, wrap_loops
from tf_blade.passes import FreezeBudget, PassContext, pipeline
from tf_blade.passes.freeze_variables import freeze_variables
from tf_blade.passes.prune import prune
from tf_blade.patterns import AppliedPattern, apply_patterns
from tf_blade.progress import Progress
from tf_blade.report import (
    ClusterReport,
    ColumnReport,
    KernelReport,
    LeftOutNode,
    RegionReport,
    Report,
    SignatureReport,
)
from tf_blade.saved_model import Region
from tf_blade.steps import Steps

# Tables of lookups from this size on stay variables. A copy of them in the proto would cost memory
# twice and make every step from here to the server's start slower.
_HELD_BYTES = 64 << 10


def optimize_saved_model(
    source_dir: str,
    staging_dir: str,
    config: Config,
    signatures: Sequence[str],
    progress: Progress,
    steps: Steps | None = None,
    *,
    likely: LikelyShapes | None = None,
) -> Report:
    """Optimises the SavedModel in `source_dir` and writes the result into `staging_dir`.

    Args:
      signatures: the signatures to optimise; functions that only Python code can call are
        optimised too when these are all there are.
      steps: watches and limits the graph passes. None: all run.
      likely: shapes of inputs that kernels may have versions for.

    Raises: SavedModelError, SignatureError, CompilerNotFoundError.
    """
    from tf_blade.library import load_ops

    load_ops()  # an optimised model may come in again, and BladeCluster's types are needed
    dump = DumpWriter(config.dump_dir, config, source_dir) if config.dump_dir else None
    progress("read the model")
    bundle = saved_model.read(source_dir)
    # Only the MetaGraph that the check will run; others are carried as they are.
    chosen = [m for m in bundle.meta_graphs if not config.tags or set(m.tags) == set(config.tags)]
    known = {name for meta in chosen for name in meta.signatures}
    regions = bundle.regions(None if known <= set(signatures) else signatures, config.tags)
    budget = FreezeBudget(per_variable=config.freeze_threshold_bytes if config.freeze else 0)
    vocabularies: dict[int, Vocabularies] = {}  # by MetaGraph
    work: list[_Work] = []
    with executables.Compilation(config, dump) as compilation:
        for i, region in enumerate(regions):
            progress("find clusters", i, len(regions))
            if _is_gone(region, work, regions[i + 1 :]):
                continue
            if id(region.meta) not in vocabularies:
                vocabularies[id(region.meta)] = Vocabularies(region.meta, source_dir)
            contents = vocabularies[id(region.meta)]
            first = (
                sum(w.clusters_found for w in work),
                sum(len(w.lookups) for w in work),
                sum(len(w.patterns) for w in work),
            )
            work.append(
                _Work.start(
                    region, budget, contents, config, first, compilation, dump, steps, likely or {}
                )
            )
        compiled = compilation.finish(progress)
    report = Report(
        compiler=compiled.compiler,
        cpu_targets=list(config.cpu_targets),
        compile_seconds=compiled.seconds,
    )
    for item in work:
        report.regions.append(item.finish(compiled, config))
        report.warnings += item.warnings
    for name in signatures:
        reached = [r.function for r in regions if name in r.signature_names]
        report.signatures.append(SignatureReport(name, regions=reached))
    progress("write the model")
    bundle.write(staging_dir)
    return report


def _is_gone(region: Region, work: Sequence[_Work], later: Sequence[Region]) -> bool:
    """Whether nothing calls the region any more: its loop is part of a cluster now, or which branch
    a conditional takes turned out to be known."""
    if not any(region.function in item.set_free for item in work):
        return False
    graphs = [item.graph for item in work] + [other.graph for other in later]
    return not any(region.function in called_functions(graph) for graph in graphs)


@dataclass
class _Work:
    """One region between finding its clusters and putting them back."""

    region: Region
    nodes_before: int
    graph: Graph
    types: Types
    lookups: list[RaisedLookup] = field(default_factory=list)
    columns: list[ColumnReport] = field(default_factory=list)
    lowered: list[LoweredCluster] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    clusters_found: int = 0
    warnings: list[str] = field(default_factory=list)
    loops: WrappedLoops = field(default_factory=WrappedLoops)
    set_free: set[str] = field(default_factory=set)  # functions that perhaps nothing calls now
    patterns: list[AppliedPattern] = field(default_factory=list)

    @classmethod
    def start(
        cls,
        region: Region,
        budget: FreezeBudget,
        vocabularies: Vocabularies,
        config: Config,
        first: tuple[int, int, int],
        compilation: executables.Compilation,
        dump: DumpWriter | None,
        steps: Steps | None,
        likely: LikelyShapes,
    ) -> _Work:
        """Runs the graph passes, raises lookups, finds clusters, lowers them, and has their kernels
        compiled.

        Clusters, lookups and patterns are numbered from `first`.
        """
        original = region.graph
        context = PassContext(region.variables, region.arg_shapes, budget, steps=steps)
        if config.lookups != "off":
            context.hold_tables = _HELD_BYTES
        graph = pipeline.run(original, context)
        types = context.same_types(graph)
        known = vocabularies.of_region(region, graph)
        raised = raise_graph(graph, types, context, known, config, first[1], region.served)
        if _reads_held(raised.graph, context):
            # Of no use as tables of lookups: constants may do for them, and for other lookups.
            context.hold_tables = None
            graph = prune(freeze_variables(raised.graph, context), context)
            types.update(context.types(graph))
            known = vocabularies.of_region(region, graph)
            number = first[1] + len(raised.lookups)
            more = raise_graph(graph, types, context, known, config, number, region.served)
            fused = [column for column in raised.columns if column.fused]
            raised = RaisedGraph(more.graph, raised.lookups + more.lookups, fused + more.columns)
        graph = raised.graph
        served = {name: likely[name] for name in region.signature_names if name in likely}
        shapes = region.likely_shapes(served)
        if shapes:
            context.add_likely(graph, types, shapes)
        work = cls(region, len(original), graph, types, raised.lookups, raised.columns)
        for lookup in work.lookups:
            if lookup.source:
                compilation.start(lookup.source)
            if dump is not None:
                nodes = graph.library[lookup.call.fallback]
                dump.lookup(lookup.call, nodes, lookup.source)
        found = apply_patterns(graph, types, served=region.served, first=first[2])
        work.patterns = found.applied
        work.warnings += found.declined
        graph, work.loops = wrap_loops(graph, types, context)
        work.set_free = work.loops.replaced | context.set_free
        work.loops.left.update(wrap_complex(graph, types))
        work.graph = graph
        clusters, work.left_out = find_clusters(
            graph,
            types,
            partial(_support, graph=graph, types=types),
            served=region.served,
            first=first[0],
        )
        work.left_out.update(work.loops.left)
        work.clusters_found = len(clusters)
        todo = clusters[::-1]
        while todo:
            cluster = todo.pop()
            pieces = work._lower(cluster, compilation)
            todo.extend(reversed(pieces))
        return work

    def _lower(self, cluster: Cluster, compilation: executables.Compilation) -> list[Cluster]:
        """Lowers a cluster; if a node refuses, returns what is left without it."""
        outlined = outline(self.graph, self.types, cluster)
        try:
            self.lowered.append(compilation.lower(outlined, self.types))
            return []
        except UnsupportedError as error:
            if error.node not in cluster.members:
                self._leave_out(cluster, error.reason)
                return []
            pieces, reasons = split_out(cluster, error.node, error.reason)
            self.left_out.update(reasons)
            return pieces

    def _leave_out(self, cluster: Cluster, reason: str) -> None:
        self.left_out.update(dict.fromkeys(cluster.members, reason))

    def finish(self, compiled: executables.Compiled, config: Config) -> RegionReport:
        """Puts the compiled clusters into the model."""
        replacements: list[Replacement] = []
        clusters = [self._finish_lookup(lookup, compiled) for lookup in self.lookups]
        clusters += [_describe_pattern(applied) for applied in self.patterns]
        raised = {lookup.name for lookup in self.lookups} | {p.name for p in self.patterns}
        ops = {node.name: node.op for node in self.graph}
        described = {c.name: self._describe(c) for c in self.lowered}
        for lowered in self.lowered:
            result = compiled.of(lowered)
            if isinstance(result, CompileError):
                self._leave_out(lowered.outlined.cluster, f"did not compile: {result}")
                continue
            replacements.append(Replacement(lowered.outlined, result.executable))
            found = described[lowered.name]
            found.executable_bytes = len(result.executable)
            found.compile_seconds = result.seconds
            found.cached = result.cached
            clusters.append(found)
        report = RegionReport(
            self.region.function,
            nodes_before=self.nodes_before,
            nodes_after=self.nodes_before,
            equal_regions=list(self.region.twins),
            clusters=clusters,
            columns=self.columns,
            left_out=[
                LeftOutNode(n, ops[n], why) for n, why in self.left_out.items() if n not in raised
            ],
        )
        if replacements or self.lookups or self.patterns:
            make_node = partial(blade_cluster_node, find_repeats=config.repeated_rows)
            replace_all(self.graph, replacements, make_node=make_node)
            unwrap(self.graph)
            self.region.replace(self.graph)
            report.nodes_after = len(self.graph)
        return report

    def _finish_lookup(self, lookup: RaisedLookup, compiled: executables.Compiled) -> ClusterReport:
        """Has a lookup run by its executable, where there is one, else by the library's kernels."""
        nodes = [n for n in self.graph.library[lookup.call.fallback].node_def if n.op != "Const"]
        names = [node.name for node in nodes]
        report = ClusterReport(
            lookup.name,
            nodes=names,
            ops=dict(Counter(node.op for node in nodes)),
            inputs=[f"{ref} {self.types[ref]}" for ref in lookup.call.inputs],
            outputs=[
                f"{lookup.name}:{i} float32{list(shape or [])}"
                for i, shape in enumerate(lookup.call.output_shapes)
            ],
            kernels=[KernelReport(lookup.name, "lookup", nodes=names)],
        )
        result = compiled.results.get(lookup.source)
        if isinstance(result, Built):
            use_executable(self.graph, lookup, result.executable)
            report.executable_bytes = len(result.executable)
            report.compile_seconds = result.seconds
            report.cached = result.cached
        elif isinstance(result, CompileError):
            self.warnings.append(
                f"lookup '{lookup.name}' runs on the library's kernels: its code did not "
                f"compile: {result}"
            )
        return report

    def _describe(self, lowered: LoweredCluster) -> ClusterReport:
        outlined = lowered.outlined
        members = outlined.cluster.members

        def text(ref: TensorRef) -> str:
            return f"{ref} {self.types[ref]}"

        return ClusterReport(
            lowered.name,
            nodes=list(members),
            ops=dict(Counter(self.graph.nodes[name].op for name in members)),
            inputs=[text(ref) for ref in outlined.inputs],
            outputs=[text(ref) for ref in outlined.outputs],
            kernels=[KernelReport(k.name, k.kind, k.nodes) for k in lowered.kernels],
            gemms=lowered.gemms,
        )


def _describe_pattern(applied: AppliedPattern) -> ClusterReport:
    return ClusterReport(
        applied.name,
        nodes=applied.nodes,
        ops=applied.ops,
        inputs=applied.inputs,
        outputs=applied.outputs,
        kernels=[KernelReport(applied.pattern, "pattern", nodes=applied.nodes)],
        executable_bytes=applied.executable_bytes,
    )


def _reads_held(graph: Graph, context: PassContext) -> bool:
    """Whether something but lookups still gathers from a variable that was held for them."""
    for node in graph:
        if node.op in ("ResourceGather", "ResourceGatherNd"):
            source = graph.nodes[node.inputs[0].node]
            while source.op == "Identity":
                source = graph.nodes[source.inputs[0].node]
            if source.name in context.held:
                return True
    return False


def _support(node: Node, *, graph: Graph, types: Types) -> str | None:
    return supports(node, graph, types)
